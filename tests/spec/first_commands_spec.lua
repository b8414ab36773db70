-- What is typed first: the commands in the recipes' headers work in an empty directory, where each message names a
-- command that leads on, and `busted` runs the specs.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local folder = program.folder()

---What a command of a header needs that only its user has.
local OWN = { "%u%u%u", "%.csv", "%.conll", "my/", "corpus", "babylm_10M", "babylm.lua$", "checkpoints/", "%.%.%.%]",
              "terms%.tsv", "texts=", "vectors=", "hours=" }

---The commands of a recipe's header that need nothing of the user's.
local function commands_of(path)
  local list = {}
  for line in assert(sys.read_file(path)):gmatch("%-%-     (seqrun recipes/[^\n]*)") do
    local command, own = line:match("^(.-)%s%s+%f[%w]") or line, false
    for _, pattern in ipairs(OWN) do own = own or command:find(pattern) ~= nil end
    if not own then list[#list + 1] = command end
  end
  return list
end

local function run(command, more)
  local words = {}
  for word in command:gsub("^seqrun ", ""):gmatch("%S+") do words[#words + 1] = word end
  table.move(more, 1, #more, #words + 1, words)
  return program.run(words, { before = ("cd '%s' &&"):format(folder) })
end

---Runs a command; where it fails, first what its message names, at most three commands.
local function follow(command, option, left)
  local more = command:find("prepare") and {} or { option, option == "--max-steps" and "1" or nil }
  local code, _, message = run(command, more)
  if code == 0 then return end
  local advice = message:match("`(seqrun [^`]*)`")
  assert.is_true(left > 0 and advice ~= nil, ("%s\n%s"):format(command, message))
  follow(advice, "--max-steps", left - 1)
  follow(command, option, left - 1)
end

describe("from an empty directory", function()
  it("phase 2 is trained by doing what its messages say", function()
    follow("seqrun recipes/bert_phase2.lua preset=demo eval.updates=1", "--max-steps", 3)
    assert.is_true(sys.exists(folder .. "/runs/bert_phase2"))
  end)

  it("phase 2 without its preset, which is hours of training, names phase 1", function()
    sys.remove(folder .. "/runs/bert_phase1")
    if not sys.exists(folder .. "/runs/data/novels.sqr") then follow("seqrun recipes/prepare.lua", "", 0) end
    local small = { "--dry-run", "model.hidden_size=64", "model.num_hidden_layers=1", "model.num_attention_heads=1" }
    local _, _, message = run("seqrun recipes/bert_phase2.lua", small)
    assert.matches("train it first with `seqrun recipes/bert_phase1%.lua`", message)
  end)

  for _, name in ipairs(assert(sys.list("recipes"))) do
    for i, command in ipairs(name:find("%.lua$") and commands_of("recipes/" .. name) or {}) do
      it(command .. (i > 1 and " #long" or ""), function() follow(command, "--dry-run", 3) end)
    end
  end
end)

it("busted runs the specs inside the program", function()
  if program.path ~= sys.real_path("build/seqrun") then return pending "another build: .busted names build/seqrun" end
  local file = program.write(folder, "first_spec.lua", [[
it("has the modules of C", function() assert.is_function(require("seqrun.core.sys").hash) end)
it("needs long #long", function() error("it is left out") end)]])
  local out = os.tmpname()
  assert(os.execute(("busted '%s' >%s 2>&1"):format(file, out)))
  assert.matches("1 success / 0 failures / 0 errors", assert(sys.read_file(out)))
  os.remove(out)
end)

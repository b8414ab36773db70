-- blocks.lua - runs the fenced blocks of a document in a folder, in order.
--
-- The info string of a fence says what a block is:
--
--     ```lua wsd.lua           a file with this name (any language)
--     ```lua                   a program
--     ```sh                    commands; `exit 2` after sh: the last of them ends with 2
--     ```text                  lines that the program or the commands above print, in this order; numbers may differ
--     ```sh not run: REASON    neither written nor run

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local blocks = {}

---@class tests.Block
---@field language string
---@field info string the rest of the info string
---@field text string
---@field line integer of its fence

---The fenced blocks of a document.
---@param path string
---@return tests.Block[]
function blocks.read(path)
  local list, open, number = {}, nil, 0
  for line in (assert(sys.read_file(path)) .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local language, info = line:match("^```(%w*) ?(.*)$")
    if open and line == "```" then
      open.text, open = table.concat(open.lines, "\n") .. "\n", nil
    elseif open then
      open.lines[#open.lines + 1] = line
    elseif language then
      open = { language = language, info = info, lines = {}, line = number }
      list[#list + 1] = open
    end
  end
  assert(not open, path .. ": a block is not closed")
  return list
end

---A line without what differs between two runs: numbers and the width of gaps.
local function normal(line)
  return (line:gsub("[%d][%d.,e+-]*%a*", "#"):gsub("%s+", " "):gsub("^ ", ""):gsub(" $", ""))
end

---The first line of `wanted` that is not printed after those before it; nil if all are.
local function missing(wanted, printed)
  local lines, at = {}, 1
  for line in (printed .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = normal(line) end
  for line in wanted:gmatch("(.-)\n") do
    local look = normal(line)
    while line ~= "..." and look ~= "" and lines[at] ~= look do
      at = at + 1
      if at > #lines then return line end
    end
  end
end

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

---Runs a script in the folder, with `seqrun` in the PATH; returns the exit code and what it printed.
local function run(folder, script)
  local path, log = folder .. "/block.sh", folder .. "/block.log"
  assert(sys.write_file(path, script))
  local _, how, code = os.execute(("cd %s && PATH=%s:$PATH bash -e block.sh >block.log 2>&1 </dev/null"):format(
    quote(folder), quote(program.path:match("^(.*)/"))))
  return how == "signal" and 128 + code or code, assert(sys.read_file(log))
end

local function file_of(block) return block.info:match("^[%w_.-]+%.%w+$") end

---Runs one block; what it printed is kept for a block of text after it.
local function run_block(self, block)
  local where = ("%s:%d"):format(self.document, block.line)
  if block.info:find("^not run: %S") then return end
  if block.language == "text" and block.info == "" then
    assert(self.printed, where .. ": nothing ran before this output")
    local line = missing(block.text, self.printed)
    assert(not line, ("%s: not printed: %s\n--- but:\n%s"):format(where, line, self.printed))
    return
  end
  if file_of(block) then
    assert(sys.write_file(self.folder .. "/" .. file_of(block), block.text))
    return
  end
  local script, expected = block.text, tonumber(block.info:match("^exit (%d+)$")) or 0
  assert(block.language == "sh" or block.language == "lua", where .. ": only sh and lua run; name a file, or not run")
  assert(block.info == "" or block.info:find("^exit %d+$"), where .. ": unknown words after " .. block.language)
  if block.language == "lua" then
    assert(sys.write_file(self.folder .. "/block.lua", block.text))
    script = "seqrun block.lua"
  end
  local code
  code, self.printed = run(self.folder, script)
  assert(code == expected, ("%s: exit code %d instead of %d\n%s"):format(where, code, expected, self.printed))
end

---A new folder with the recipes of this checkout.
---@return string
function blocks.folder()
  local folder = program.folder()
  assert(os.execute(("ln -s %s %s"):format(quote(assert(sys.real_path("recipes"))), quote(folder .. "/recipes"))))
  return folder
end

---Runs all blocks of a document in a folder; raises at the end if some failed.
---@param document string
---@param folder string
---@return integer count of blocks
function blocks.run(document, folder)
  local list, failed = blocks.read(document), {}
  local self = { document = document, folder = folder }
  for _, block in ipairs(list) do
    local good, message = pcall(run_block, self, block)
    if not good then failed[#failed + 1] = message end
  end
  if #failed > 0 then error(table.concat(failed, "\n"), 0) end
  return #list
end

return blocks

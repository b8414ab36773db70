-- Help at the prompt: what it knows, and that every example runs.

local fails = require("tests.support.fails")
local help = require("seqrun.help")
local index = require("seqrun.help.index")
local plot = require("seqrun.repl.plot")
local program = require("tests.support.program")
local repl = require("seqrun.repl")
local sr = require("seqrun")

---Runs the statements of an example as the prompt does, without printing.
local function run(code, env)
  local text, whole = "", nil
  -- a function that fails gives nil and a message
  local function take(first, second, ...)
    assert(first ~= nil or type(second) ~= "string", second)
    for _, value in ipairs { first, second, ... } do assert(require("seqrun.draw.show").show(value)) end
  end
  for line in (code .. "\n"):gmatch("([^\n]*)\n") do
    text = text == "" and line or text .. "\n" .. line
    local chunk = load("return " .. text, "=example", "t", env) or load(text, "=example", "t", env)
    whole = chunk ~= nil
    if chunk then
      take(chunk())
      text = ""
    end
  end
  assert(whole, "the example ends within a statement")
end

describe("help", function()
  it("has an example of every entry, which runs #slow", function()
    local env = repl.environment()
    local quiet = setmetatable({ print = function() end, plot = plot.plot }, { __index = env })
    local missing, failed = {}, {}
    for _, name in ipairs(index.names()) do
      local entry = index.entries()[name]
      if not entry.example then
        missing[#missing + 1] = name
      else
        local ok, message = pcall(run, entry.example, quiet)
        if not ok then failed[#failed + 1] = name .. ": " .. tostring(message) end
      end
    end
    assert.equal("", table.concat(failed, "\n"))
    assert.equal("", table.concat(missing, " "), "add them to lua/seqrun/help/examples")
  end)

  it("has no example of what does not exist", function()
    for name in require("lfs").dir("lua/seqrun/help/examples") do
      local part = name:match("^(%w+)%.lua$")
      for key in pairs(part and require("seqrun.help.examples." .. part) or {}) do
        assert.truthy(index.entries()[key], part .. ": " .. key)
      end
    end
  end)

  it("finds config keys and documents by a word, and options by their name", function()
    local text = help.search "freeze"
    assert.matches("\n?tune.freeze_layers +config key: ", text)
    assert.matches("\ndocs/learn/cookbook.md +C4: freeze layers", text)
    local _, at = help.about("tune.crf"):find("^tune.crf +config key: ") -- a key by its name: all that it means
    assert.truthy(help.about("tune.crf"):find("over the words of a sentence", at, true))
    assert.matches("docs/learn/cookbook.md +C9: gradient accumulation", help.about "accumulation")
    assert.matches("^WriteOptions:\n  out +string", help.about "WriteOptions")
    assert.matches("^nothing mentions 'xyzzy'", help.search "xyzzy")
  end)

  it("lists the fields of the options of a function, and what they consist of", function()
    local text = help.about("sr.data.write")
    assert.matches("\nWriteOptions:\n  out +string  the .sqr file\n", text)
    assert.matches("\nColumnOptions:\n  type +", text)
    assert.matches("\nLuaSolver:\n  is +fun%(counts", help.about("sr.pack.register"))
    assert.is_nil(help.about("sr.data.loader"):find("\nCorpus:", 1, true)) -- it has an entry of its own
    local page = require("seqrun.help.html")()
    assert.truthy(page:find("WriteOptions</p>", 1, true))
  end)

  it("finds functions by value, by name, by last name and by method", function()
    assert.matches("^sr.ops.attention%(qkv, layout, options%) %-> Tensor\n", help.about("attention"))
    assert.equal(1, (help.about("attention"):find(help.about(sr.ops.attention), 1, true)))
    assert.matches("\nAt the prompt: attention%(dir, s%) draws", help.about("attention"))
    assert.matches("^At the prompt: show_batch%(b, data%) prints", help.about("show_batch"))
    assert.equal(help.about("sr.ops.attention"), help.about("ops.attention"))
    assert.matches("^Tensor:sum%(dim%?, keep%?%)", help.about(sr.ones(2).sum))
    assert.matches("^Plan:view%(", help.about("Plan:view"))
    assert.matches("^Plan\n.*Methods:.*:view%(", help.about(sr.pack.pack({ 3, 4 }, { max_len = 8 })))
    assert.matches("^Tensor\n.*:matmul%(other%)", help.about(sr.ones(2)))
  end)

  it("lists a part, a word's entries, recipes and examples", function()
    assert.matches("^sr.pack: .*sr.pack.compare%(source, options%?%)", help.about(sr.pack))
    assert.equal(help.about("sr.pack"), help.about(sr.pack))
    assert.equal(1, (help.about("pack"):find(help.about(sr.pack), 1, true)))
    assert.matches("sr.nn.dense_attention", help.search("attention"))
    assert.matches("pretrain.lua +a small BERT", help.examples())
    assert.matches("%-%- sr.pack.pack\nsr.pack.pack%(", help.examples("pack"))
    assert.matches("apropos", help.overview())
  end)

  it("is a map for sr, and answers for each task", function()
    assert.equal(help.overview(), help.about("sr"))
    assert.matches("\n  sr.tasks +what can be trained", help.about("sr"))
    for _, name in ipairs(sr.tasks.names) do
      local text = help.about("sr.tasks." .. name)
      assert.matches("^sr.tasks." .. name .. ": %w", text)
      assert.matches("\n  its keys +seqrun recipes/%w+.lua", text)
      assert.equal(text, help.about(sr.tasks[name]))
      assert.matches("\n  sr.tasks." .. name .. " +%w", help.about("sr.tasks"))
    end
    assert.matches("head +sr.nn.heads.classify\n  train +seqrun recipes/finetune.lua task=pair data.train=",
      help.about("tasks.pair"))
    assert.matches("nothing mentions", help.about("sr.tasks.clasify"))
  end)

  it("guesses what was meant", function()
    assert.matches("did you mean 'attention'", help.about("atention"))
    assert.has_error(function() help.search(3) end)
  end)
end)

it("the API reference has every entry, in one page without scripts or network", function()
  local page = require("seqrun.help.html")()
  for _, name in ipairs(index.names()) do assert.truthy(page:find(">" .. name, 1, true), name) end
  assert.is_nil(page:find("<script", 1, true) or page:find("http", 1, true) or page:find("src=", 1, true))
  local open = 0
  for slash in page:gmatch("<(/?)table") do
    open = open + (slash == "" and 1 or -1)
    assert.is_true(open == 0 or open == 1)
  end
  local ids = {}
  for id in page:gmatch('id="([^"]*)"') do
    assert.is_nil(ids[id], id)
    ids[id] = true
  end
  for id in page:gmatch('href="#([^"]*)"') do assert.is_true(ids[id], id) end
end)

it("objects at the prompt print what they are", function()
  local sample = require("seqrun.help.sample")()
  for name, pattern in pairs {
    batch = "^batch: %d+ sequences", model = "^bert: 2 layers", plan = "^plan optimal: 5 sequences",
    corpus = "^data set .*tokens", loader = "^loader of", update = "^update 0: ", optimizer = "^adamw of",
    layout = "^layout: 2 sequences", vocab = "^vocabulary of 90", params = "bert.pooler.dense.weight",
  } do
    assert.matches(pattern, tostring(sample[name]), name)
  end
  assert.equal("histogram: 5 sequences of 260 tokens, at most 128", tostring(sample.plan:hist()))
  assert.equal("certificate: no packing in packs of 128 needs fewer than 3 packs", tostring(sample.plan:prove()))
  assert.matches("^losses [%d.]+: mlm [%d.]+ of %d+ items, nsp", tostring(sample.model:losses(sample.batch)))
  assert.matches("did you mean 'batch'", select(2, pcall(function() return sample.bacth end)))
  local config = sr.must(sr.config.load { schema = sr.config.map { { "size", sr.config.integer { default = 3 } } } })
  assert.matches("^size +3 +default", tostring(config))
end)

describe("help about documents", function()
  it("lists the sections of a document, and prints one", function()
    assert.matches("^[^\n]*docs/learn/cookbook.md:\n  C1: ", help.about("cookbook"))
    assert.equal(help.about("cookbook"), help.about("docs/learn/cookbook.md"))
    local section = help.about("C4")
    assert.matches("^[^\n]*docs/learn/cookbook.md\n\n## C4: freeze layers\n", section)
    assert.matches("```lua freeze.lua", section)
    assert.is_nil(section:find("## C5", 1, true))
    assert.matches("\n\nsmall.yaml, from another section:\n\n```yaml small.yaml\ndata: [^\n]*\n.*\n```$", section)
    assert.equal(section, help.about("c4: Freeze layers"))
    assert.is_nil(help.find("xyzzy"))
    assert.matches('\nhelp "guide 1" prints a section$', help.about("guide"))
    assert.matches("guide.md\n\n## 2. A corpus\n", help.about("guide 2"))
    assert.equal(help.about("guide 2"), help.about("docs/learn/guide.md A corpus"))
    assert.equal(help.about("data Data sets and targets"), help.about("data targets"))
    assert.matches('\nDocuments:\n.*  help "cookbook C2" +a curriculum of your own', help.about("curriculum"))
  end)

  it("is what `seqrun help` prints for what is not a command", function()
    assert.equal(help.about("C4") .. "\n", (program.ok { "help", "C4" }))
    assert.matches("^sr.ops.attention", select(2, program.run { "help", "attention" }))
    assert.equal("", (fails.exiting(2, "did you mean 'tokenize'", { "help", "tokenise" })))
    assert.equal("", (fails.exiting(2, "no help on 'atention'; did you mean 'attention'", { "help", "atention" })))
    assert.matches("pretrain.lua", select(2, program.run { "help", "recipes" }))
  end)

  it("is named by `seqrun help`, with the first steps", function()
    local _, out = program.run { "help" }
    assert.matches("\ndocuments: .*\n  .*cookbook.*guide", out)
    assert.matches("\nfirst steps:\n", out)
  end)
end)

it("help about commands is their --help, or a line where the library has the name too", function()
  assert.matches("^Usage: seqrun runs ", help.about("runs"))
  assert.matches("^Usage: seqrun compare ", help.about("seqrun compare"))
  assert.matches("^sr.pack.compare.*\nseqrun compare +command: ", help.about("compare"))
  assert.matches("\n  seqrun fill +fill in %[MASK%]", help.about("seqrun"))
  assert.matches("seqrun stats +command: statistics", help.search("statistics"))
end)

describe("a plot", function()
  it("draws lists, pairs, tensors, functions and schedules at a width", function()
    local lines = {}
    for line in plot.plot({ 1, 2, 4, 8 }, { width = 40, height = 5, title = "powers" }):gmatch("[^\n]+") do
      lines[#lines + 1] = line
      assert.is_true(utf8.len(line) <= 40)
    end
    assert.equal(8, #lines)
    assert.matches("powers", lines[1])
    assert.matches("^ +8 │", lines[2])
    assert.matches("^ +1 │", lines[6])
    assert.equal(plot.plot({ 1, 2, 3 }), plot.plot(sr.tensor { 1, 2, 3 }))
    assert.equal(plot.plot({ { 0, 1 }, { 5, 2 } }), plot.plot({ { 0, 1 }, { 5, 2 } }, {}))
    assert.matches("0.001", plot.plot(sr.schedule.cosine { peak = 1e-3, warmup = 10, total = 100 }, { steps = 100 }))
  end)

  it("refuses what cannot be drawn", function()
    for _, values in ipairs { {}, { "x" }, true, { 0 / 0 } } do
      assert.has_error(function() plot.plot(values) end)
    end
    assert.has_error(function() plot.plot({ -1, 2 }, { log = true }) end)
    assert.matches("^seqrun: prompt:1: plot: expected numbers", (select(3, program.run { "-e", "plot(3)" })))
  end)
end)

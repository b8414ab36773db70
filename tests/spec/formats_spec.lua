-- What commands print with --format: CSV and Markdown of the same values as --json.

local commands = require("seqrun.cli.commands")
local fails = require("tests.support.fails")
local formats = require("seqrun.draw.formats")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")

---CSV as rows of cells.
local function rows_of(text)
  local rows = {}
  for line in text:gmatch("[^\n]+") do
    local cells, at = {}, 1
    while at <= #line + 1 do
      local quoted, after = line:match('^"(.-[^"])"()', at)
      if not quoted then quoted, after = line:match("^([^,]*)()", at) end
      cells[#cells + 1] = quoted:gsub('""', '"')
      at = after + 1
    end
    rows[#rows + 1] = cells
  end
  return rows
end

describe("rows", function()
  it("have all digits for programs and few for people, and nothing where a value is missing", function()
    local list = { { name = "a,b", x = 0.1234567890123, n = 3 }, { name = "c|d", n = json.null } }
    assert.same({ { "name", "x", "n" }, { "a,b", "0.1234567890123", "3" }, { "c|d", "", "" } },
      formats.rows(list, { "name", "x", "n" }, "csv"))
    assert.same({ { "name", "x", "n" }, { "a,b", "0.12346", "3" }, { "c|d", "-", "-" } },
      formats.rows(list, { "name", "x", "n" }, "markdown"))
    assert.same({ { "o.v" }, { "7" } }, formats.rows({ { o = { v = 7 } } }, { "o.v" }, "csv"))
  end)

  it("of an object have the paths of its values", function()
    local object = {
      b = true, list = { 1, 2 }, heads = { { name = "mlm", loss = 2.5 } }, plain = { { x = 1 } }, e = {},
    }
    assert.same({
      { "name", "value" }, { "b", "true" }, { "heads.mlm.loss", "2.5" }, { "list", "[1, 2]" }, { "plain.1.x", "1" },
    }, formats.facts(object, "csv"))
  end)
end)

it("--format goes with every command that has --json and prints a table, and not with --json", function()
  local without = { -- lines of JSON, single sentences, or files
    completion = true, encode = true, export = true, fill = true, import = true, new = true, predict = true,
    report = true, tokenize = true, vocab = true,
  }
  for _, name in ipairs(commands.names()) do
    local has, is_json = false, false
    for _, option in ipairs(name ~= "help" and commands.parser_of(name)._options or {}) do
      local output = option._choices and table.concat(option._choices, " ") == table.concat(formats.NAMES, " ")
      has = has or output or false
      is_json = is_json or option._aliases[1] == "--json"
    end
    assert.equal(is_json and not without[name], has, name)
  end
  fails.exiting(2, "can not be used together", { "doctor", "--json", "--format", "csv" })
  fails.exiting(2, "'table', 'csv', 'markdown'", { "doctor", "--format", "yaml" })
end)

describe("commands #slow", function()
  local dir = program.folder()
  local corpus = small.corpus(dir)

  local function output(...) return (program.ok { ... }) end

  local function with(words)
    return function(...)
      return output(table.unpack(table.move({ ... }, 1, 2, #words + 1, table.move(words, 1, #words, 1, {}))))
    end
  end

  ---A command in all forms: its head in CSV, rows as long as it, Markdown with the same head, JSON as of --json.
  local function check_words(head, words)
    local run = with(words)
    local csv = rows_of(run("--format", "csv"))
    assert.equal(head, table.concat(csv[1], ","))
    assert.is_true(#csv > 1)
    for i, row in ipairs(csv) do assert.equal(#csv[1], #row, "row " .. i) end
    assert.matches("^| " .. csv[1][1], run("--format", "markdown"))
    local a, b = json.decode(run("--format", "json")), json.decode(run("--json"))
    assert.equal("table", type(a))
    assert.equal(type(b), type(a))
    return csv
  end

  it("print their tables as CSV and Markdown", function()
    check_words("name,packs,efficiency,factor,gap_percent,deepest,strategies,max_seqs,milliseconds,note",
      { "pack", corpus, "--max-len", "48", "--compare" })
    check_words("name,value", { "pack", corpus, "--max-len", "48" })
    check_words("name,value", { "stats", corpus })
    check_words("name,value", { "info", corpus })
    check_words("name,value", { "version" })
    check_words("name,path,count,distinct,min,max,mean,sum", { "analyze", corpus, "--metric", "length", "--out", dir })
    check_words("kind,name", { "advise", "--list" })
    local layouts = check_words("rank,micro_batch,data,tensor,pipeline,interleave,sequence_parallel,recompute,"
      .. "selective,zero,step_seconds,mfu,tokens_per_s,memory_gib,fits,why", { "advise", "--model", "bert-base",
      "--seq", "128", "--batch", "64", "--devices", "4", "--device", "h100", "--top", "3" })
    assert.equal(4, #layouts)
    local findings = rows_of((select(2, program.run { "doctor", "--format", "csv" })))
    assert.same({ "name", "ok", "facts", "command" }, findings[1])
    assert.same({ "program", "true" }, { findings[2][1], findings[2][2] })
  end)

  it("of a run print scores, groups of pairs and checked steps", function()
    local run = dir .. "/run"
    assert.equal(0, (program.run(small.words(corpus, "--out", run, "--max-steps", "4", "save.every=2",
      "verify.every=2"))))
    local facts = {}
    for _, row in ipairs(check_words("name,value", { "eval", run, corpus })) do facts[row[1]] = row[2] end
    local object = json.decode(output("eval", run, corpus, "--json"))
    assert.equal(object.metrics.mlm_loss, tonumber(facts["metrics.mlm_loss"]))
    assert.same({ { "step", "equal", "what", "tensor" }, { "4", "true", "", "" } },
      check_words("step,equal,what,tensor", { "verify", run, "--last" }))
    local pairs_file = program.write(dir, "pairs.jsonl", '{"sentence_good":"The cat sees the dog.",'
      .. '"sentence_bad":"The cat cat the dog.","UID":"a, b"}\n')
    local csv = rows_of(output("score", run, pairs_file, "--format", "csv"))
    assert.same({ "name", "pairs", "right", "ties", "accuracy" }, csv[1])
    assert.same({ "a, b", "1" }, { csv[2][1], csv[2][2] })
    local text_file = program.write(dir, "lines.txt", "The cat sees the dog.\n\nThe horse.\n")
    csv = rows_of(output("score", run, text_file, "--format", "csv"))
    assert.same({ "file", "line", "score", "tokens", "text" }, csv[1])
    assert.same({ "3", "The horse." }, { csv[3][2], csv[3][5] })
    local same = rows_of(output("score", run, text_file, "--input", "lines", "--format", "csv"))
    assert.same(csv, same)
  end)
end)

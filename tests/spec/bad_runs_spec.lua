-- Runs that cannot be read, or have strange values: runs, compare and report list them, and show the others.

local fails = require("tests.support.fails")
local history = require("seqrun.history.runs")
local index = require("seqrun.history.index")
local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local folder

local function lines_of(more)
  local lines = {}
  for i = 1, 3 do
    lines[i] = json.encode { type = "train", step = i, loss = 7.0 - i, seconds = 1.0 * i, real_tokens_per_s = 100.0,
      real_tokens = 100 * i, sequences = 10 * i, efficiency = 0.9 }
  end
  return table.concat(lines, "\n") .. "\n" .. (more or "")
end

local function made(name, files)
  local dir = folder .. "/" .. name
  assert(sys.make_dirs(dir))
  local all = { ["metrics.jsonl"] = lines_of(), ["config.yaml"] = "seed: 1\n", ["run.log"] = "step 3/3  loss 4\n" }
  for file, text in pairs(files or {}) do all[file] = text end
  for file, text in pairs(all) do
    if text == "a directory" then assert(sys.make_dirs(dir .. "/" .. file)) else program.write(dir, file, text) end
  end
  return dir
end

before_each(function() folder = program.folder() end)

local UNREADABLE = { "metrics.jsonl", "run.log", "config.yaml" }

describe("a run that cannot be read", function()
  it("is one line with the reason in runs", function()
    made "good"
    for i, file in ipairs(UNREADABLE) do made("bad" .. i, { [file] = "a directory" }) end
    local out = fails.exiting(3, "3 runs cannot be read", { "runs", folder, "--sort", "name" })
    assert.matches("\ngood +failed +3/3 +4.000", out)
    for i, file in ipairs(UNREADABLE) do
      assert.matches(("\nbad%d +unreadable +%%-"):format(i), out)
      assert.matches(("unreadable: bad%d: %s cannot be read: Is a directory"):format(i, file:gsub("%.", "%%.")), out)
    end
    local list = json.decode((fails.exiting(3, "", { "runs", folder, "--json", "--state", "unreadable" }))).runs
    assert.same({ 3, "unreadable" }, { #list, list[1].state })
    assert.matches("cannot be read: Is a directory", list[1].reason)
    assert.equal(0, (program.run { "runs", folder, "--state", "failed" }))
  end)

  it("is not overlooked in a directory that cannot be listed", function()
    made "good"
    made "below/other"
    local list, unlisted = sys.list, {}
    local _ <close> = setmetatable({}, { __close = function() sys.list = list end })
    sys.list = function(path)
      if path:find("/below$") then return nil, path .. ": cannot list: Input/output error", "storage" end
      return list(path)
    end
    assert.same({ folder .. "/good" }, history.find(folder, 3, unlisted))
    assert.same({ { dir = folder .. "/below", reason = "cannot list: Input/output error" } }, unlisted)
    local message = folder .. "/below: cannot list: Input/output error"
    local rows, bad, said = index.read({ folder .. "/good" }, false, unlisted)
    assert.same({ 1, unlisted, "1 run cannot be read: " .. message }, { #rows, bad, said })
    local good, problem = pcall(history.find, folder)
    assert.same({ false, message, 5 }, { good, tostring(problem), problem:exit_code() })
  end)

  it("is no run at its first step to watch", function()
    local bad = made("bad", { ["metrics.jsonl"] = "a directory" })
    local code, out, err = program.run { "watch", "--once", bad }
    assert.matches("unreadable: " .. bad:gsub("%p", "%%%0") .. "/metrics.jsonl cannot be read: Is a directory", out)
    assert.same({ 0, "" }, { code, err })
  end)

  it("is left out of compare with a note, as long as two others remain", function()
    local good, bad = made "good", made("bad", { ["metrics.jsonl"] = "a directory" })
    fails.exiting(3, "bad: metrics.jsonl cannot be read: Is a directory\n$", { "compare", good, bad })
    made "other"
    local out = fails.exiting(3, "1 run cannot be read: .*bad: metrics.jsonl cannot be read: Is a directory\n$",
      { "compare", folder })
    assert.matches("train loss +4.0000 +4.0000", out)
    assert.matches("note: left out: .*bad: metrics.jsonl cannot be read", out)
    local told = json.decode((fails.exiting(3, "", { "compare", folder, "--json" })))
    assert.equal(2, #told.runs)
    assert.matches("left out: .*metrics.jsonl cannot be read", table.concat(told.notes, "\n"))
  end)

  it("is left out of a report with a note; alone it is the error", function()
    local page, bad = folder .. "/page.html", made("bad", { ["metrics.jsonl"] = "a directory" })
    program.refuses(3, "^seqrun: [^\n]*bad: metrics.jsonl cannot be read: Is a directory\n$",
      program.run { "report", bad, "--out", page })
    assert.is_false(sys.exists(page))
    made "good"
    local out = fails.exiting(3, "1 run cannot be read: .*bad: metrics.jsonl", { "report", folder, "--out", page })
    assert.matches("page.html: %d+ KiB", out)
    assert.matches("left out: .*bad: metrics.jsonl cannot be read: Is a directory", sys.read_file(page))
    local told = json.decode((fails.exiting(3, "", { "report", folder, "--json" })))
    assert.equal(1, #told.runs)
    assert.matches("left out: .*bad", told.notes[1])
  end)

  it("without permission is reported like any other", function()
    local bad, page = made "bad", folder .. "/page.html"
    made "good"
    made "more"
    assert(os.execute(("chmod 777 '%s' && chmod 000 '%s/metrics.jsonl'"):format(folder, bad)))
    for _, words in ipairs { { "runs", folder }, { "compare", folder }, { "report", folder, "--out", page } } do
      fails.exiting(3, "metrics.jsonl cannot be read: Permission denied", words, { before = program.as_nobody() })
    end
  end)

  it("or a directory beside them that one may not list or search", function()
    local page = folder .. "/page.html"
    made "good"
    made "more"
    for _, mode in ipairs { "700", "744" } do
      assert(os.execute(("cd '%s' && mkdir -p lost+found && chmod 777 . && chmod %s lost+found"):format(folder, mode)))
      for _, words in ipairs { { "runs", folder }, { "compare", folder }, { "report", folder, "--out", page } } do
        local out = fails.exiting(3, "lost%+found: cannot examine: Permission denied", words,
          { before = program.as_nobody() })
        if words[1] ~= "report" then assert.matches("more", out) end
      end
    end
  end)
end)

it("a run with values of another type or size is shown without them", function()
  local strange = { '"x"', "[1]", "{}", "true", "null", "-5", "1.5", "1e300", "-1e300", "9223372036854775807" }
  for i, value in ipairs(strange) do
    local fields = {}
    for k, name in ipairs { "sequences", "real_tokens", "raw_tokens", "effective_tokens", "real_tokens_per_s", "loss",
      "efficiency", "seconds", "slot_tokens", "mlm_loss", "nonfinite" } do
      fields[k] = ('"%s":%s'):format(name, value)
    end
    local line = ('{"type":"%%s","step":4,%s}\n'):format(table.concat(fields, ","))
    made("run" .. i, {
      ["metrics.jsonl"] = lines_of(line:format("train") .. line:format("eval")
        .. ('{"type":"event","step":4,"event":%s,"factor":%s}\n{"type":"event","step":4}\n'):format(value, value)
        .. ('{"type":%s,"step":%s}\n'):format(value, value)),
      ["ended.json"] = ('{"state":"failed","step":%s,"message":%s,"seconds":%s}'):format(value, value, value),
      ["environment.json"] = ('{"machine":%s,"build":%s,"ranks":%s,"command":%s}'):format(value, value, value, value),
      ["scores.json"] = ('{"label":%s,"span":{"x":%s}}'):format(value, value),
      ["config.yaml"] = ("seed: %s\nsave: 3\ndata: 4\nrate: [1]\nmask: {}\n"):format(value:gsub('"', "'")),
      ["run.log"] = ("step 3/%s\nresumed from x at step 99999999999999999999\n"):format(value),
    })
  end
  for _, words in ipairs {
    { "runs", folder }, { "runs", folder, "--json" }, { "runs", folder, "--sort", "loss" }, { "compare", folder },
    { "compare", folder, "--json" }, { "compare", folder, "--by", "raw", "--held-out" }, { "report", folder, "--json" },
    { "report", folder, "--out", folder .. "/page.html" },
    { "report", folder, "--out", folder .. "/page.html", "--by", "tokens" },
  } do
    assert.equal("", (select(2, program.ok(words))), table.concat(words, " "))
  end
end)

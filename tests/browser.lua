-- Checks the pages that seqrun writes in headless Chromium: seqrun tests/browser.lua OUT, run by make test-report.
-- No message on the console, no overflow at 400 and 1,400 pixels, enough contrast, light and dark.  Pictures and PDFs
-- of all pages are left in OUT, to be looked at.

package.path = "./?.lua;" .. package.path
local browser = require("tests.support.browser")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local out = assert(arg[1], "usage: seqrun tests/browser.lua OUT")
assert(sys.make_dirs(out))
out = assert(sys.real_path(out))
local folder = program.folder()
local failed, passed = 0, 0

local function check(good, format, ...)
  if good then passed = passed + 1 else failed = failed + 1 end
  if not good then print("FAILED  " .. format:format(...)) end
end

local function must(words)
  local code, text, err = program.run(words)
  assert(code == 0, err)
  return text
end

-- ---- the pages -----------------------------------------------------------------------------------

local function task_data()
  local lines = { "text\tlabel" }
  for i = 1, 160 do lines[i + 1] = ("the %s number %d\t%s"):format(i % 3 == 0 and "cat" or "dog", i,
    i % 3 == 0 and "animal of the house, with a very long name" or "<b>other</b>") end
  return program.write(folder, "task.tsv", table.concat(lines, "\n") .. "\n")
end

---Reports of a run, of a task and of several runs with long names, and the API reference.
local function pages()
  local corpus, list = small.corpus(folder), {}
  local first, task = folder .. "/runs/first", folder .. "/runs/a-run-with-a-name-that-is-much-longer-than-most-are"
  must(small.words(corpus, "--out", first, "--max-steps", "30", "eval.every=5"))
  must {
    "recipes/finetune.lua", "task=classify",
    "data.train=" .. task_data(), "data.folder=" .. folder, "init.from=" .. first,
    "columns.text=text", "columns.label=label", "epochs=2", "data.max_len=32", "batch.sequences=16", "log.every=1",
    "--out", task, "--quiet",
  }
  local function report(name, ...)
    must { "report", "-o", out .. "/" .. name .. ".html", ... }
    list[#list + 1] = name
  end
  report("run", first)
  report("task", task)
  report("runs", first, task, first .. "/../first") -- the same run twice is one
  assert(sys.write_file(out .. "/reference.html", must { "help", "--html" }))
  list[#list + 1] = "reference"
  return list
end

-- ---- checking --------------------------------------------------------------------------------------

---The checks find what is wrong with a bad page.
local function check_checks()
  local bad = program.write(folder, "bad.html", "<!doctype html><body style='background: #fff'><p style='width: 900px; "
    .. "color: #ccc'>wide and pale</p><script>console.error('noise')</script>")
  local measured = browser.measure(folder, bad, { 400 }, "light")[1]
  check(measured.width > 400 and #measured.wide == 1 and #measured.pale == 1, "a bad page passes the checks")
  check(#browser.console(folder, bad, "light") == 1, "a message on the console is not seen")
end

local WIDTHS = { 400, 1400 }

local function check_page(name)
  local page, papers = ("%s/%s.html"):format(out, name), {}
  for _, scheme in ipairs { "light", "dark" } do
    local noise = browser.console(folder, page, scheme)
    check(#noise == 0, "%s, %s: %s", name, scheme, noise[1])
    local measures = browser.measure(folder, page, WIDTHS, scheme)
    for i, width in ipairs(WIDTHS) do
      local found = measures[i]
      local place = ("%s, %s, %d pixels"):format(name, scheme, width)
      check(found.width <= width, "%s: is %d wide: %s", place, found.width, table.concat(found.wide, "; "))
      check(#found.wide == 0, "%s: beyond the edge: %s", place, table.concat(found.wide, "; "))
      check(#found.pale == 0, "%s: too little contrast: %s", place, table.concat(found.pale, "; "))
      papers[scheme] = found.paper
      local file = ("%s/%s-%s-%d.png"):format(out, name, scheme, width)
      browser.picture(folder, page, file, width, math.min(found.height, 4000), scheme)
    end
  end
  check(papers.light ~= papers.dark, "%s: light and dark look the same", name)
  browser.print(folder, page, ("%s/%s.pdf"):format(out, name))
end

check_checks()
for _, name in ipairs(pages()) do check_page(name) end
sys.remove(folder)
print(("%d passed, %d failed; pictures are in %s"):format(passed, failed, out))
os.exit(failed == 0 and 0 or 1, true)

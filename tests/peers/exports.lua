-- exports.lua - writes the exported models of tests/support/exported.lua into a folder, for exports.py.
--
--     seqrun tests/peers/exports.lua FOLDER

package.path = "./?.lua;" .. package.path
local exported = require("tests.support.exported")
local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local cases = json.array()
for at, case in ipairs(exported.all()) do
  local folder = arg[1] .. "/" .. at
  sr.must(sys.make_dirs(folder))
  local path, out = exported.make(case, folder)
  if out then
    case.out, case.items, case.predicted = out, exported.items()[case.task], exported.predict(path, case.task)
    cases[#cases + 1] = case
  end
end
sr.must(sys.write_file(arg[1] .. "/cases.json", json.encode(cases)))

-- task_models.lua - saves the task model of a directory again, for families_roundtrip.py.
--
--     seqrun tests/peers/task_models.lua from=DIR out=DIR

local sr = require("seqrun")

local from, out = arg[1]:match("^from=(.*)"), arg[2]:match("^out=(.*)")
local bert, facts, report = sr.must(sr.nn.pretrained(from))
assert(#report.missing == 0 and #report.ignored == 0, tostring(report))
local lock = sr.must(sr.checkpoint.lock(out))
sr.must(sr.checkpoint.save(out, {
  step = 0, model = bert.params, config = bert:hf_config(), tokenizer = facts.tokenizer,
}))
lock:close()

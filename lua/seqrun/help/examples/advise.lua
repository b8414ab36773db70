-- Examples of the layout advisor.

local BERT = '{ model = "bert-large", seq = 512, batch = 1536, devices = 64, device = "h100" }'
local LAYOUT = "{ micro_batch = 8, data = 64, tensor = 1, pipeline = 1, sequence_parallel = false, recompute = false, zero = 1 }"

return {
  ["sr.advise.advise"] = ("advice = sr.must(sr.advise %s)\nadvice\nadvice.layouts[1].step_seconds"):format(BERT),
  ["sr.advise.job"] = ("sr.must(sr.advise.job %s).model.layers"):format(BERT),
  ["sr.advise.predict"] = ("job = sr.must(sr.advise.job %s)\nsr.advise.predict(job, %s).mfu"):format(BERT, LAYOUT),
  ["sr.advise.coefficients"] = 'sr.advise.coefficients("packed").time',
}

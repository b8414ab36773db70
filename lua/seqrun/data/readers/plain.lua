-- plain.lua - the reader of rows without labels.

local Plain = {}
Plain.__index = Plain

---@param job seqrun.readers.Job
local function new(job) return setmetatable({ job = job, columns = {} }, Plain) end

function Plain:make(record) return self.job:example(record) end

return { new = new, columns = {} }

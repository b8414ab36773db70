-- together.lua - the ranks of a world write the files of one checkpoint, each its own; rank 0 commits.
--
-- Ranks exchange how each stage ended, so that all return the same: a path, or one message that names the rank.

local sys = require("seqrun.core.sys")
local train = require("seqrun.core.train")

local together = {}

---An outcome as text for other ranks: a value, or message and code of a failure.
local function encode(value, message, code)
  if value then return "+" .. (value == true and "" or value) end
  return ("-%s\n%s"):format(code, message)
end

local function decode(text)
  if text:sub(1, 1) == "+" then return text:sub(2) end
  local code, message = text:match("^%-([^\n]*)\n(.*)$")
  return nil, message, code
end

---The values of all ranks, rank 0 first; nil, message, code if one failed: that of the lowest.
local function all_of(world, value, message, code)
  local values = world:gather_text(encode(value, message, code))
  for i, text in ipairs(values) do
    values[i], message, code = decode(text)
    if not values[i] then return nil, ("rank %d: %s"):format(i - 1, message), code end
  end
  return values
end

---What rank 0 says, on every rank.
local function first_says(world, ...)
  return decode(world:broadcast_text(world.rank == 0 and encode(...) or nil))
end

---Joins the checkpoint that rank 0 has begun.
local function join(draft, step)
  if sys.is_dir(draft) then return train.saving_join(draft, step) end
  return nil, ("%s: created by rank 0, but not visible here; the run directory must be on a file system that all "
    .. "ranks share, or set optimizer.shard=false"):format(draft), "storage"
end

---Begins the checkpoint in rank 0; the others join it.  A failure is the world's.
local function begin(world, run, step, bytes)
  local total, saving, message, code = 0, nil, nil, nil
  for _, text in ipairs(world:gather_text(tostring(bytes))) do total = total + math.tointeger(text) end
  if world.rank == 0 then saving, message, code = train.saving(run, step, total) end
  local draft, why, kind = first_says(world, saving and saving:draft(), message, code)
  if not draft then return nil, why, kind end
  if world.rank > 0 then saving, message, code = join(draft, step) end
  return saving or {}, message, code
end

---Adds the files of the others and commits.
local function commit(saving, reports)
  for i = 2, #reports do
    local ok, message, code = saving:adopt(reports[i])
    if not ok then return nil, message, code end
  end
  return saving:commit()
end

---Writes a checkpoint together.
---@param world seqrun.World
---@param run string
---@param step integer
---@param bytes integer that this rank writes
---@param write fun(saving: seqrun.core.Saving): true?, string?, string? writes them
---@return true|nil
---@return string? message
---@return string? code
function together.save(world, run, step, bytes, write)
  local saving, message, code = begin(world, run, step, bytes)
  if not saving then return nil, message, code end
  local guard <close> = saving.finish and saving or nil
  local ok, report = saving.finish ~= nil, nil
  if ok then ok, message, code = write(saving) end
  if ok then report, message, code = saving:report() end
  local reports
  reports, message, code = all_of(world, report, message, code)
  if not reports then return nil, message, code end
  if world.rank == 0 then ok, message, code = commit(saving, reports) end
  ok, message, code = first_says(world, ok, message, code)
  return ok and true or nil, message, code
end

return together

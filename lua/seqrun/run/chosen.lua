-- chosen.lua - what the device chose by timing, such as algorithms of products: the same on all ranks and in a resume.
--
-- A choice is made where a shape is met first, inside a step, where no rank may wait for another.  So ranks start with
-- the choices of rank 0, and exchange between steps what they have chosen since: that of the lowest rank stands.  A
-- checkpoint keeps them, for its GPU and library.  The user's cache knows nothing of it: what is taken over from a
-- checkpoint or another rank is not written there.

local core = require("seqrun.core.tensor")
local devices = require("seqrun.tensor.devices")
local loading = require("seqrun.checkpoint.loading")

local chosen = {}

---The file of a checkpoint.
chosen.FILE = "trainer/choices.txt"

---All choices as a text; nil for a device that chooses nothing.
---@return string|nil
function chosen.text() return (core.choices()) end

---Choices that the other ranks have not been told of; nil if there are none.
---@param run seqrun.Run
---@return string|nil
function chosen.news(run) return (core.choices(run.chosen_count or 0)) end

---Takes over what the ranks have chosen since they last told; all ranks call it.
---@param run seqrun.Run
---@param all { chosen?: string }[] of each rank, at its number + 1
function chosen.merge(run, all)
  local any = false
  for rank = #all, 1, -1 do -- of another GPU: refused, and left to its rank
    any = all[rank].chosen and core.pin_choices(all[rank].chosen) or any
  end
  if any then run.chosen_count = select(2, core.choices()) end
end

---Tells the other ranks, and takes over what they have chosen.
---@param run seqrun.Run
function chosen.exchange(run)
  if not run.ranks:several() then return end
  chosen.merge(run, run.ranks:gather { chosen = chosen.news(run) })
end

---Warns that a resume is not bit-exact, and why.
local function not_exact(run, why, ...)
  run.progress:warn(why .. ": products may be computed in other ways than before, so resuming is not bit-exact", ...)
end

---Takes over the choices of a checkpoint, on rank 0.
---@param run seqrun.Run
---@param path string of the checkpoint
---@param instructions string of the device that it was saved on
function chosen.restore(run, path, instructions)
  local count = run.ranks.leads and select(2, core.choices())
  if not count or instructions ~= devices.instructions() then return end
  local text, message, code = loading.choices(path)
  if not text then
    if code ~= "missing" then return not_exact(run, "%s", message) end
    return not_exact(run, "%s was saved without %s", path, chosen.FILE)
  end
  local ok
  ok, message = core.pin_choices(text)
  if not ok then not_exact(run, "%s/%s: %s", path, chosen.FILE, message) end
end

---Gives all ranks the choices of rank 0, before the first step.  A rank whose cache has more tells all of its own when
---they first exchange.
---@param run seqrun.Run
function chosen.start(run)
  if not run.ranks:several() then return end
  local text, known = run.ranks:first_says(function() return core.choices() end)
  local ok, message = true, nil
  if text then ok, message = core.pin_choices(text) end
  local count = select(2, core.choices())
  run.chosen_count = ok and count == known and count or 0
  for rank, answer in ipairs(run.ranks:gather { ok = ok or false, message = message }) do
    if not answer.ok then
      run.progress:warn("rank %d: %s; it chooses its own products, so the bits depend on which rank computes what",
        rank - 1, answer.message)
    end
  end
end

return chosen

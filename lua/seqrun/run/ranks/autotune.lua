-- autotune.lua - what the device chose by timing, such as algorithms of products: the same on all ranks and in a
-- resume.
--
-- A choice is made where a shape is met first, inside a step, where no rank may wait for another.  So ranks start with
-- the choices of rank 0, and exchange between steps what they have chosen since: that of the lowest rank stands.  A
-- checkpoint keeps them, for its GPU and library.  The user's cache knows nothing of it: what is taken over from a
-- checkpoint or another rank is not written there.

local core = require("seqrun.core.tensor")
local devices = require("seqrun.tensor.devices")
local loading = require("seqrun.checkpoint.loading")

---@class seqrun.Autotune
---@field ranks seqrun.RunRanks
---@field screen table with warn(): where warnings go
---@field told integer choices that all ranks know of
local Autotune = {}
Autotune.__index = Autotune

---The file of a checkpoint.
Autotune.FILE = "trainer/choices.txt"

---@param ranks seqrun.RunRanks
---@param screen table
---@return seqrun.Autotune
function Autotune.new(ranks, screen) return setmetatable({ ranks = ranks, screen = screen, told = 0 }, Autotune) end

---All choices as a text; nil for a device that chooses nothing.
---@return string|nil
function Autotune.text() return (core.choices()) end

---Choices that the other ranks have not been told of; nil if there are none.
---@return string|nil
function Autotune:news() return (core.choices(self.told)) end

---Takes over what the ranks have chosen since they last told; all ranks call it.
---@param all { autotune?: string }[] of each rank, at its number + 1
function Autotune:merge(all)
  local any = false
  for rank = #all, 1, -1 do -- of another GPU: refused, and left to its rank
    any = all[rank].autotune and core.pin_choices(all[rank].autotune) or any
  end
  if any then self.told = select(2, core.choices()) end
end

---Tells the other ranks, and takes over what they have chosen.
function Autotune:exchange()
  if self.ranks:several() then self:merge(self.ranks:gather { autotune = self:news() }) end
end

---Warns that a resume is not bit-exact, and why.
local function not_exact(self, why, ...)
  self.screen:warn(why .. ": products may be computed in other ways than before, so resuming is not bit-exact", ...)
end

---Takes over the choices of a checkpoint, on rank 0.
---@param path string of the checkpoint
---@param instructions string of the device that it was saved on
function Autotune:restore(path, instructions)
  local count = self.ranks.leads and select(2, core.choices())
  if not count or instructions ~= devices.instructions() then return end
  local text, message, code = loading.choices(path)
  if not text then
    if code ~= "missing" then return not_exact(self, "%s", message) end
    return not_exact(self, "%s was saved without %s", path, Autotune.FILE)
  end
  local ok
  ok, message = core.pin_choices(text)
  if not ok then not_exact(self, "%s/%s: %s", path, Autotune.FILE, message) end
end

---Gives all ranks the choices of rank 0, before the first step.  A rank whose cache has more tells all of its own when
---they first exchange.
function Autotune:start()
  if not self.ranks:several() then return end
  local text, known = self.ranks:first_says(function() return core.choices() end)
  local ok, message = true, nil
  if text then ok, message = core.pin_choices(text) end
  local count = select(2, core.choices())
  self.told = ok and count == known and count or 0
  for rank, answer in ipairs(self.ranks:gather { ok = ok or false, message = message }) do
    if not answer.ok then
      self.screen:warn("rank %d: %s; it chooses its own products, so the bits depend on which rank computes what",
        rank - 1, answer.message)
    end
  end
end

return Autotune

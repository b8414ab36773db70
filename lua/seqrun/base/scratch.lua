-- scratch.lua - a temporary directory, this user's alone, which is removed when it is closed or collected.

local failure = require("seqrun.base.failure")
local sys = require("seqrun.core.sys")

---@class seqrun.Scratch
---@field path string
local Scratch = {}

---Removes the directory with all that is in it.
function Scratch:__close() sys.remove(self.path) end

Scratch.__gc = Scratch.__close

---@return seqrun.Scratch
return function() return setmetatable({ path = failure.must(sys.temporary_dir()) }, Scratch) end

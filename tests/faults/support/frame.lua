-- frame.lua - what the commands of tests/faults have in common: a count, a seed, one line of result, an exit code.
--
--     [COUNT=N|all|new] [SEED=N] [ONLY=TEXT] [PART=I/N] build/seqrun tests/faults/NAME.lua
--
-- `new` leaves out what a command or recipe before has had with the same path of calls.  PART=1/2 takes half of them,
-- PART=2/2 the others, in another process.
-- A failure is printed when it is found, on stderr, with its command.  LONG=1 is the long form of `make test-long`.

local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

---@class tests.Frame
---@field name string
---@field count number math.huge: all
---@field seen? table<string, boolean> keys so far, with COUNT=new
---@field part integer from 0, of `parts`
---@field parts integer
---@field seed integer
---@field only string? a part of the names of those that are tried
---@field folder string a directory of its own
---@field bad integer failures so far
---@field tried integer faults so far, of `possible`; `passed`: over which the program passed; `names`: of victims
local Frame = {}
Frame.__index = Frame

local frame = { LONG = os.getenv("LONG") == "1", SANITIZED = os.getenv("SAN") == "1" }

---The seed of the short forms, which are to end alike today and tomorrow.
local SHORT_SEED = 27

---@param name string
---@param counts { short: number, long: number|"new", sanitized?: number } how many by default
---@return tests.Frame
function frame.open(name, counts)
  local count = os.getenv("COUNT") or frame.LONG and counts.long or frame.SANITIZED and counts.sanitized or counts.short
  local seed = math.tointeger(tonumber(os.getenv("SEED") or (frame.LONG and sys.pid() or SHORT_SEED)))
  local part, parts = (os.getenv("PART") or "1/1"):match("^(%d+)/(%d+)$")
  part, parts = math.tointeger(tonumber(part)), math.tointeger(tonumber(parts))
  assert(part and part >= 1 and part <= parts, "PART must be I/N, such as 1/2")
  local every = count == "all" or count == "new"
  assert(every or tonumber(count), "COUNT must be a number, all or new")
  return setmetatable({
    name = name, count = every and math.huge or tonumber(count), seed = seed, state = seed,
    seen = count == "new" and {} or nil, part = part - 1, parts = parts,
    only = os.getenv("ONLY"), folder = program.folder(), bad = 0, began = sys.now(),
    tried = 0, possible = 0, passed = 0, names = 0,
  }, Frame)
end

---Skips the whole command.
---@param reason string
function frame.skip(reason)
  print("skipped: " .. reason)
  os.exit(77)
end

---An integer from 0 to n - 1.
---@param n integer
---@return integer
function Frame:random(n)
  self.state = self.state * 6364136223846793005 + 1442695040888963407
  return (self.state >> 33) % n
end

---At most `count` of a list, in its order: all, or a random choice.
---@generic T
---@param list T[]
---@param count? number
---@return T[]
function Frame:choose(list, count)
  local left, found = math.min(#list, count or self.count), {}
  for i, one in ipairs(list) do
    if self:random(#list - i + 1) < left then
      found[#found + 1] = one
      left = left - 1
    end
  end
  return found
end

---Those of a list that are to be tried: of this part, with COUNT=new no key a second time.
---@generic T
---@param list T[] each with a key
---@return T[]
function Frame:due(list)
  local found = {}
  for _, one in ipairs(list) do
    local new = not (self.seen and self.seen[one.key])
    if self.seen then self.seen[one.key] = true end
    if new and tonumber(sys.hash(one.key):sub(-6), 16) % self.parts == self.part then found[#found + 1] = one end
  end
  return self:choose(found)
end

---Whether this name is to be tried.
---@param name string
---@return boolean
function Frame:wants(name) return not self.only or name:find(self.only, 1, true) ~= nil end

---A failure; repeated ones are counted, and the first of each kind are printed.
---@param format string
function Frame:fail(format, ...)
  self.bad = self.bad + 1
  io.stderr:write(("%s (SEED=%d): "):format(self.name, self.seed), format:format(...), "\n")
end

---Counts a fault that was tried, and whether it was passed over.
---@param passed boolean
function Frame:tally(passed) self.tried, self.passed = self.tried + 1, self.passed + (passed and 1 or 0) end

---Counts a command or recipe with so many possible faults.
---@param count integer
function Frame:count_of(count)
  self.possible, self.names = self.possible + count, self.names + (count > 0 and 1 or 0)
end

---The line of the result.
---@param format string
function Frame:line(format, ...)
  print(("%s: seed %d, %s, %d failures; %.0f s"):format(self.name, self.seed, format:format(...), self.bad,
    sys.now() - self.began))
end

---Ends the program.
---@param trials tests.Frame[]
function frame.finish(trials)
  local bad = 0
  for _, trial in ipairs(trials) do
    sys.remove(trial.folder)
    bad = bad + trial.bad
  end
  os.exit(bad == 0 and 0 or 1)
end

---The line of the result; ends the program.
---@param format string
function Frame:done(format, ...)
  self:line(format, ...)
  frame.finish { self }
end

return frame

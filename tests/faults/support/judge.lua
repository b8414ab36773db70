-- judge.lua - runs a victim with a fault, and says what was wrong with how it ended.
--
-- A fault may be passed over, and then all is as without it, or a warning says what is not; or it ends the program
-- with one sentence and a known exit code, and leaves no wrong file under a name that counts.  What two runs without a
-- fault do not agree in, such as times, is not compared.

local program = require("tests.support.program")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local judge = {}

---Victims whose output is about the machine, whatever it is, and which exit with 1 where something is missing.
local EXAMINES = { doctor = true }

---Seconds after which a program hangs.
local PATIENCE = os.getenv("SAN") == "1" and 300 or 60

---Exit codes that a fault may have: DESIGN's, without "internal error".
local KNOWN = { [1] = true, [2] = true, [3] = true, [4] = true, [5] = true, [8] = true, [75] = true }

---Names of what is not complete, which no program reads.
local UNFINISHED = { "^%.", "%.part$", "%.tmp", "^set%-aside" }

---@class tests.Judge
---@field victim tests.Victim
---@field out string the directory of the outputs
---@field words string[]
---@field wanted table of the runs without a fault
---@field seconds number of one of them
local Judge = {}
Judge.__index = Judge

local function unfinished(name)
  for _, pattern in ipairs(UNFINISHED) do
    if name:find(pattern) then return true end
  end
  return false
end

---Checksums of all complete files below a directory, by path.
local function sums_of(dir, found, prefix)
  found, prefix = found or {}, prefix or ""
  for _, name in ipairs(sys.list(dir) or {}) do
    local path = dir .. "/" .. name
    if sys.is_dir(path) and not unfinished(name) then
      sums_of(path, found, prefix .. name .. "/")
    elseif not unfinished(name) then
      found[prefix .. name] = sys.hash_file(path) or "unreadable"
    end
  end
  return found
end

---Runs the victim.
---@param before? string words before the command
---@param patience? integer seconds after which it hangs
---@return { code: integer, out: string, err: string, files: table<string, string> }
function Judge:run(before, patience)
  sys.remove(self.out)
  assert(sys.make_dirs(self.out))
  local line = ("SOURCE_DATE_EPOCH=0 timeout -s KILL %d %s"):format(patience or PATIENCE, before or "")
  local code, out, err = program.run(self.words, { before = line, input = self.victim.input })
  return { code = code, out = out, err = err, files = sums_of(self.out) }
end

---Runs the victim twice at once, with the same outputs.
---@param seconds number after which the second starts
---@return { code: integer, out: string, err: string, files: table<string, string> }[]
function Judge:twins(seconds)
  sys.remove(self.out)
  assert(sys.make_dirs(self.out))
  local place, words = os.tmpname(), { program.path, table.unpack(self.words) }
  for i, word in ipairs(words) do words[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  local second = ("export SOURCE_DATE_EPOCH=0; (sleep %.3f; timeout -s KILL %d %s </dev/null >%s.out 2>%s.err; "
    .. "echo $? >%s) & timeout -s KILL %d"):format(seconds, PATIENCE, table.concat(words, " "), place, place, place,
    PATIENCE)
  local code, out, err = program.run(self.words, { before = second, shell = "; rc=$?; wait; exit $rc" })
  local files = sums_of(self.out)
  local other = { code = tonumber(sys.read_file(place)), err = sys.read_file(place .. ".err"), files = files }
  other.out = sys.read_file(place .. ".out")
  for _, ending in ipairs { "", ".out", ".err" } do os.remove(place .. ending) end
  return { { code = code, out = out, err = err, files = files }, other }
end

---Output without times, and without the blanks that align them.
local function timeless(text)
  return (text:gsub("%d[%d.]* ?m?s%f[^%w]", "TIME"):gsub("%d+[mhd]%d*%f[^%w]", "TIME"):gsub(" +", " "))
end

---The first line of a text that another one does not have.
local function first_other(text, wanted)
  local known = {}
  for line in wanted:gmatch("[^\n]+") do known[line] = true end
  for line in text:gmatch("[^\n]+") do
    if not known[line] then return line end
  end
  return "a line is missing"
end

---Whether there is a warning that a run without a fault has not.
local function warns(err, usual)
  for line in err:gmatch("[^\n]+") do
    if line:find("^%w*:? ?warning: ") and not usual:find(line, 1, true) then return true end
  end
  return false
end

---Whether a text has the system's words for a fault.
local function names_fault(text)
  for _, words in ipairs { "Input/output error", "Too many open files", "No space left", "annot allocate",
    "cannot be read", "cannot load module", "out of memory" } do
    if text:find(words, 1, true) then return true end
  end
  return false
end

---What the programs have said that a victim started, as a sweep does.
local function logs_of(self, got)
  local texts = {}
  for path in pairs(got.files) do
    if path:find("%.log$") then texts[#texts + 1] = sys.read_file(self.out .. "/" .. path) end
  end
  return "\n" .. table.concat(texts, "\n")
end

---What is the same in all runs without a fault.
local function common(a, b)
  local same = { files = {} }
  same.out = timeless(a.out) == timeless(b.out) and timeless(a.out) or nil
  for path, sum in pairs(a.files) do same.files[path] = b.files[path] == sum and sum or "any" end
  return same
end

---@param trial tests.Frame
---@param victim tests.Victim
---@return tests.Judge
function judge.new(trial, victim)
  local self = setmetatable({ victim = victim, out = trial.folder .. "/out", words = {} }, Judge)
  for i, word in ipairs(victim.words) do self.words[i] = word:gsub("^@", self.out):gsub("=@", "=" .. self.out) end
  local runs = {}
  for i = 1, 3 do
    runs[i] = self:run()
    assert(runs[i].code == 0, victim.name .. " fails without a fault: " .. runs[i].out .. runs[i].err)
  end
  self.wanted = common(runs[1], runs[2])
  self.wanted.err = runs[1].err .. logs_of(self, runs[3])
  if EXAMINES[victim.name] then self.wanted.out = nil end
  for path, sum in pairs(common(runs[2], runs[3]).files) do
    if sum == "any" then self.wanted.files[path] = "any" end
  end
  return self
end

---Whether a table of several runs or files says that one has failed, as those of sweeps and suites do.
local function lists_failure(out) return out:find("\nfailed: ", 1, true) ~= nil end

---Whether a page for people says what it lacks.
local function page_names_fault(self, got)
  for path in pairs(got.files) do
    if path:find("%.html$") and names_fault(sys.read_file(self.out .. "/" .. path)) then return true end
  end
  return false
end

---A file that is not as without a fault.
local function wrong_file(self, got)
  for path, sum in pairs(got.files) do
    local wanted = self.wanted.files[path]
    if wanted and wanted ~= "any" and wanted ~= sum then return path .. " differs" end
    if not wanted and not path:find("events.out.tfevents.", 1, true) and not path:find("differences/", 1, true) then
      return path .. " is new"
    end
  end
  for path in pairs(self.wanted.files) do
    local folder = path:match("^(.*step%-%d+)/MANIFEST$")
    if folder and got.files[path] and not sr.checkpoint.verify(self.out .. "/" .. folder) then
      return folder .. " is a damaged checkpoint"
    end
  end
end

---A file that is missing after a success.
local function missing_file(self, got)
  for path in pairs(self.wanted.files) do
    if not got.files[path] and not path:find("events.out.tfevents.", 1, true) then return path .. " is missing" end
  end
end

---What a failure says.
local function wrong_words(got)
  local all = "\n" .. got.err
  if not all:find("\nseqrun: [^\n]") then return "no sentence" end
  for _, raw in ipairs { "internal error", "stack traceback", "attempt to ", "bad argument", "assertion failed" } do
    if all:find(raw, 1, true) then return "no sentence but an error of Lua" end
  end
end

---What is wrong with the end of a run with a fault; nil if nothing is.
---@param got { code: integer, out: string, err: string, files: table<string, string> }
---@return string|nil
function Judge:problem(got)
  if got.code == 137 then return ("it hung for %d s"):format(PATIENCE) end
  if got.code == 0 then
    local out = timeless(got.out)
    if warns(got.err .. logs_of(self, got), self.wanted.err) or page_names_fault(self, got) then return nil end
    if lists_failure(out) then return nil end
    if self.wanted.out and out ~= self.wanted.out and not names_fault(out) then
      return "success with another output: " .. first_other(out, self.wanted.out)
    end
    return wrong_file(self, got) or missing_file(self, got)
  end
  if EXAMINES[self.victim.name] and got.code == 1 then return nil end
  if got.code == 127 and got.err:find("error while loading shared libraries", 1, true) then return nil end
  if not KNOWN[got.code] then return "exit code " .. got.code end
  return wrong_words(got) or wrong_file(self, got)
end

---Runs the victim with a fault and returns what was wrong.
---@param trial tests.Frame
---@param before string words before the command, which make the fault
---@param fault string what it is
---@return boolean passed the fault changed nothing
function Judge:try(trial, before, fault)
  local got = self:run(before)
  local problem = self:problem(got)
  if problem then
    local said = got.err:sub(1, 2000):gsub("\n+$", ""):gsub("\n", "\n    ")
    trial:fail("%s, %s: %s (exit %d)\n    %s", self.victim.name, fault, problem, got.code, said)
  end
  return got.code == 0
end

return judge

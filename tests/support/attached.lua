-- attached.lua - runs in the background, and prompts inside them.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local small = require("tests.support.small")
local sys = require("seqrun.core.sys")

local attached = {}

---@class tests.Attached
---@field dir string of the run
---@field pid integer
local Attached = {}
Attached.__index = Attached

---Waits until a file exists; fails with the errors of the run otherwise.
local function wait_for(path, log)
  for _ = 1, 15000 do
    if sys.exists(path) then return end
    sys.sleep(0.02)
  end
  error(("%s does not appear: %s"):format(path, sys.read_file(log) or "no log"), 3)
end

---Starts a run of a small model that ends on request, and waits until prompts can be attached.
---@param folder string
---@param corpus string
---@param name string
---@param options? { words?: string[], before?: string }
---@return tests.Attached
function attached.start(folder, corpus, name, options)
  options = options or {}
  local dir = folder .. "/" .. name
  local words = small.words(corpus, "--out", dir, "rate.total=1000000", "log.every=20")
  table.move(options.words or {}, 1, #(options.words or {}), #words + 1, words)
  for i, word in ipairs(words) do words[i] = "'" .. word .. "'" end
  local line = ("timeout 900 %s %s %s >DIR.out 2>DIR.err; echo $? >DIR.new; mv DIR.new DIR.code")
  local script = line:format(options.before or "", program.path, table.concat(words, " ")):gsub("DIR", dir)
  os.remove(dir .. ".code")
  os.remove(dir .. "/attach.json")
  os.execute(("bash %s >/dev/null 2>&1 &"):format(program.write(folder, name .. ".sh", script)))
  wait_for(dir .. "/attach.json", dir .. ".err")
  return setmetatable({ dir = dir, pid = json.decode(sys.read_file(dir .. "/attach.json")).pid }, Attached)
end

---What `seqrun attach` prints.
---@return integer code
---@return string out
---@return string err
function Attached:attach(input, ...)
  return program.run({ "attach", self.dir, ... }, { input = input })
end

---What an expression prints; it must not fail.
---@param text string
---@return string
function Attached:ask(text, ...)
  local code, out, err = self:attach("", "-e", text, "--timeout", "60", ...)
  if code ~= 0 then error(("%s: exit %d: %s%s"):format(text, code, out, err), 2) end
  return (out:gsub("\n$", ""))
end

---Waits for the end.
---@return integer code
---@return string err
function Attached:wait()
  wait_for(self.dir .. ".code", self.dir .. ".err")
  return tonumber(sys.read_file(self.dir .. ".code")), (sys.read_file(self.dir .. ".err"))
end

---Stops the run if it is still there.
function Attached:finish()
  if sys.exists(self.dir .. ".code") then return end
  os.execute(("kill %d 2>/dev/null"):format(self.pid))
  return self:wait()
end

---The events in its metrics.
---@return table[]
function Attached:events() return small.metrics(self.dir, "event") end

return attached

-- fails.lua - what must fail, with the words of its message: a part of it, or a pattern.

local program = require("tests.support.program")

local fails = { returning = require("tests.support.none") }

---Of fn(...): an error with these words.
---@param words string
---@param fn function
---@return any message
function fails.raising(words, fn, ...)
  local done, message = pcall(fn, ...)
  if done then error("raises nothing; expected: " .. words, 2) end
  if not program.has(tostring(message), words) then error(("%q is not in: %s"):format(words, tostring(message)), 2) end
  return message
end

---Of the program, run with these arguments: this exit code, and these words on stderr.
---@param wanted integer
---@param words string
---@param line string[] arguments
---@param options? table of program.run
---@return string stdout
---@return string stderr
function fails.exiting(wanted, words, line, options)
  return program.exits(wanted, words, program.run(line, options))
end

return fails

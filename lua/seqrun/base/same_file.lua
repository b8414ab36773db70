-- same_file.lua - an output that would take the place of an input is a slip: it is refused before the work.

local sys = require("seqrun.core.sys")

---@param out string|nil
---@param inputs string[] paths; patterns, "-" and directories are not files
---@param option string for the message, such as "--out"
---@return true|nil
---@return string? message
---@return string? code
return function(out, inputs, option)
  local real = out and sys.real_path(out)
  for _, path in ipairs(real and inputs or {}) do
    if path ~= "-" and sys.real_path(path) == real then
      return nil, ("%s=%s is an input; give another file, or the input is lost"):format(option, out), "config"
    end
  end
  return true
end

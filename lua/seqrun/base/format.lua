-- format.lua - human-readable quantities.

local text = {}

local UNITS = { { 1e12, "T" }, { 1e9, "G" }, { 1e6, "M" }, { 1e3, "k" } }

---NaN has a sign in C.
local function plain(format, x) return x ~= x and "nan" or format:format(x) end

---1234567 -> "1.23M", 999999 -> "1.00M"; integers below 1,000 as they are.
function text.count(x)
  local near = tonumber(("%.3g"):format(x)) -- which decides on the unit; nil if x is not finite
  for _, unit in ipairs(near and UNITS or {}) do
    if math.abs(near) >= unit[1] then
      local size = math.abs(near / unit[1])
      return (size >= 100 and "%.0f%s" or size >= 10 and "%.1f%s" or "%.2f%s"):format(x / unit[1], unit[2])
    end
  end
  return plain("%.3g", x)
end

---1234567 -> "1,234,567".
function text.commas(x)
  local digits, count = math.type(x) == "integer" and ("%d"):format(x) or plain("%.0f", x), 1
  while count > 0 do digits, count = digits:gsub("^(-?%d+)(%d%d%d)", "%1,%2") end
  return digits
end

---1, "column" -> "1 column"; 2000, "column" -> "2,000 columns".
function text.counted(n, noun) return ("%s %s%s"):format(text.commas(n), noun, n == 1 and "" or "s") end

local SIZES = { "KiB", "MiB", "GiB", "TiB" }

---10 -> "10 B", 1536 -> "1.5 KiB".
function text.bytes(x)
  if not (x >= 1023.5 and x < math.huge) then return plain("%.0f", x) .. (x < math.huge and " B" or "") end
  local scaled, at = x / 1024, 1
  while scaled >= 1023.95 and at < #SIZES do scaled, at = scaled / 1024, at + 1 end
  return ("%.1f %s"):format(scaled, SIZES[at])
end

---A word of a command to copy into a shell, in quotes where it needs them.
function text.shell(word)
  if word:find("^[%w%._/+:=@,-]+$") then return word end
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

local YEAR = 365.25 * 86400

---4000 -> "1h06", 75 -> "1m15", 3.2 -> "3.2s", 0.045 -> "45ms", 1e12 -> "31,688 years".
function text.duration(seconds)
  if not (seconds < 1e6 * YEAR) then return seconds ~= seconds and "unknown" or "over a million years" end
  if seconds >= 10 * YEAR then return text.commas(seconds / YEAR // 1 | 0) .. " years" end
  local s = math.floor(seconds + 0.5)
  if s >= 86400 then return ("%dd%02dh"):format(s // 86400, s % 86400 // 3600) end
  if s >= 3600 then return ("%dh%02d"):format(s // 3600, s % 3600 // 60) end
  if s >= 60 then return ("%dm%02d"):format(s // 60, s % 60) end
  if seconds < 0.9995 then return ("%.0fms"):format(1000 * seconds) end
  return seconds < 9.95 and ("%.1fs"):format(seconds) or ("%ds"):format(s)
end

---Stands for the number of steps of a run that a counter ends.
text.UNLIMITED = 1 << 53

---"3 of 10", or "3" if the end is not a step.
function text.step(step, last)
  return last < text.UNLIMITED and ("%d of %d"):format(step, last) or ("%d"):format(step)
end

function text.percent(x) return ("%.1f%%"):format(100 * x) end

return text

-- converters.lua - command-line words to values, for argparse and the options of a run.

local converters = {}

---A converter to an integer in least..most, written in digits.
---@param least integer
---@param most integer
---@return fun(word: string): integer?, string?
function converters.whole(least, most)
  return function(word)
    local n = word:find("^%d+$") and math.tointeger(tonumber(word))
    if n and n >= least and n <= most then return n end
    return nil, ("'%s' is not an integer from %d to %d"):format(word, least, most)
  end
end

---A converter to a number.
---@param message string with %s for the word
---@param fit fun(x: number): number|false|nil the value; nil or false if the number is not one
---@return fun(word: string): number?, string?
function converters.number(message, fit)
  return function(word)
    local x = tonumber(word)
    local value = x and fit(x)
    if value then return value end
    return nil, message:format(word)
  end
end

converters.threads = converters.whole(1, 1024) -- as sr_threads_new() takes them

return converters

-- converters.lua - words of the command line as values, for argparse and for the options of a run.

local converters = {}

---A converter to a whole number in least..most, written in digits.
---@param least integer
---@param most integer
---@return fun(word: string): integer?, string?
function converters.whole(least, most)
  return function(word)
    local n = word:find("^%d+$") and math.tointeger(tonumber(word))
    if n and n >= least and n <= most then return n end
    return nil, ("'%s' is not a whole number in %d..%d"):format(word, least, most)
  end
end

converters.threads = converters.whole(1, 1024) -- as sr_threads_new() takes them

return converters

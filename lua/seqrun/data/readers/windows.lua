-- windows.lua - a text that is longer than the model, in windows that overlap.

local windows = {}

---Windows of `count` tokens, of at most `room` each: their first tokens, from 0, and their ends, excluded.  They begin
---`stride` tokens after each other, or where the next word does.
---@param count integer
---@param room integer
---@param stride integer
---@param begins? fun(token: integer): boolean whether a word begins there; by default a window may begin anywhere
---@return integer[][]
function windows.cut(count, room, stride, begins)
  local list, start = {}, 0
  while true do
    list[#list + 1] = { start, math.min(start + room, count) }
    if start + room >= count then return list end
    start = start + math.min(stride, room)
    while begins and start < count and not begins(start) do start = start + 1 end
    if start >= count then return list end
  end
end

---For each token, from 1, the number of the window in which it is farthest from a border, the first of equal ones.
---@param list integer[][]
---@param bonus? number per token of a window, 0
---@return integer[]
function windows.best(list, bonus)
  local best, most = {}, {}
  for w, window in ipairs(list) do
    local from, to = window[1], window[2]
    for k = from, to - 1 do
      local score = math.min(k - from, to - 1 - k) + (bonus or 0) * (to - from)
      if score > (most[k + 1] or -1) then best[k + 1], most[k + 1] = w, score end
    end
  end
  return best
end

return windows

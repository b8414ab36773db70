-- window.lua - which positions of a window are its context, and where they are in it.

---@class seqrun.SquadWindow
---@field allowed fun(i: integer): boolean whether logit i, from 1, is of a token of the context
---@field place fun(span: table): table the same span with `first` and `last` as bytes of the context

---@param frame seqrun.text.Frames
---@param chars integer[] first and last byte of each token of the question, -1, then of the context
---@return seqrun.SquadWindow
return function(frame, chars)
  local question, special = 0, frame:lead(true) + frame:middle() -- tokens before the context, without and with `chars`
  while chars[2 * question + 1] and chars[2 * question + 1] < 0 do question = question + 1 end
  local before, last = special + question, special + #chars // 2
  return {
    allowed = function(i) return i > before and i <= last end,
    place = function(span)
      span.first, span.last = chars[2 * (span.first - special) - 1], chars[2 * (span.last - special)]
      return span
    end,
  }
end

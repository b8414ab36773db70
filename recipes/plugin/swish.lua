-- An op from a plug-in (swish.c), with its gradient, used like any other: seqrun swish.lua plugin=./swish.so

local sr = require("seqrun")

local path = (arg[1] or ""):match("^plugin=(.+)$")
if not path then error("usage: seqrun swish.lua plugin=./swish.so", 0) end
sr.must(sr.plugin(path))

---y = x sigmoid(beta x).
---@param x seqrun.Tensor
---@param beta number
---@return seqrun.Tensor
local function swish(x, beta)
  local op = sr.ops.custom {
    forward = function(context, input)
      input = input:contiguous()
      context:save(input)
      local y = sr.empty(input:shape())
      sr.ops.call("swish", { y }, { input }, { beta })
      return y
    end,
    backward = function(context, dy)
      local input = context:saved()
      local dx = sr.empty(input:shape())
      sr.ops.call("swish_backward", { dx }, { dy:contiguous(), input }, { beta })
      return dx
    end,
  }
  return op(x)
end

-- The same from the ops of the table, to compare with.
local function composed(x, beta) return x * (x * beta):sigmoid() end

local function run(op)
  local x = sr.randn(64, 100, { seed = 1, requires_grad = true })
  local y = op(x, 1.5)
  local loss = (y * y):sum()
  loss:backward()
  return y, x:grad()
end

local y, dx = run(swish)
local expected, gradient = run(composed)
print(("largest difference: %.1e of y, %.1e of its gradient"):format((y - expected):abs():max():item(),
  (dx - gradient):abs():max():item()))

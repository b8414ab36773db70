-- StableAdamW and Muon against other libraries; tests/data/optim/README.md says how the files were made.

local json = require("seqrun.core.json")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

require("tests.support.devices").late()
require("tests.support.devices").gpus()

local function golden(name) return json.decode(assert(sys.read_file("tests/data/optim/" .. name .. ".json"))) end

local function start(i, n)
  local list = {}
  for k = 0, n - 1 do list[k + 1] = math.cos(0.9 * k + i) end
  return list
end

local function gradient(t, i, n)
  local list = {}
  for k = 0, n - 1 do
    local x = math.sin(0.7 * t + 1.3 * i + 0.37 * k * (1 + t % 7) + 0.11 * k * k) * 10 ^ (-(t % 5) / 2)
    list[k + 1] = t % 20 == 0 and x * 30 or x
  end
  return list
end

local function near(wanted, got, tolerance, what)
  for k, x in ipairs(wanted) do
    assert.is_true(math.abs(got[k] - x) <= tolerance, ("%s: %.9g is not %.9g"):format(what, got[k], x))
  end
end

local function set_grad(p, name, values, shape)
  p:get(name):grad():copy_(sr.tensor(values):view(shape or { #values }))
end

for _, device in ipairs(sr.devices()) do
  -- f32 rounds a value near 1 by 6e-8 at each of 100 steps
  local exact = device == "ref"
  describe("golden steps on " .. device, function()
    before_each(function() sr.use(device) end)
    after_each(function() sr.use("cpu") end)

    it("of StableAdamW are those of optimi, with decay by the rate or fully decoupled", function()
      for how, peak in pairs { decoupled = false, fully = 0.02 } do
        local p = sr.params.new {
          { name = "a", shape = { 7 }, init = "zeros" },
          { name = "b", shape = { 5 }, init = "zeros", group = "no_decay" },
        }
        p:set("a", start(0, 7))
        p:set("b", start(1, 5))
        local opt = sr.optim.stable_adamw(p, { betas = { 0.9, 0.98 }, eps = 1e-6, decay = 0.1, peak = peak or nil })
        local t = 0
        for _, row in ipairs(golden("stable_adamw")[how]) do
          while t < row.step do
            t = t + 1
            set_grad(p, "a", gradient(t, 0, 7))
            set_grad(p, "b", gradient(t, 1, 5))
            opt:step { rate = 1e-2 * (1 + 0.5 * math.sin(t / 9)) }
          end
          for i, name in ipairs { "a", "b" } do
            near(row.w[i], p:value_of(name):totable(), exact and 1e-13 or 1e-6, ("%s %s, step %d"):format(how, name, t))
          end
        end
      end
    end)

    it("of Muon are those of PyTorch, for both factors, with and without nesterov", function()
      for _, case in ipairs(golden("muon").cases) do
        local rows, columns = case.rows, case.columns
        local p = sr.params.new { { name = "w", shape = { rows, columns }, init = "zeros" } }
        p:set("w", sr.tensor(start(0, rows * columns)):view { rows, columns })
        local opt = sr.optim.muon(p, { decay = 0.1, nesterov = case.nesterov, scale = case.scale, momentum = 0.95 })
        local t = 0
        for _, row in ipairs(case.steps) do
          while t < row.step do
            t = t + 1
            set_grad(p, "w", gradient(t, 0, rows * columns), { rows, columns })
            opt:step { rate = 2e-2 }
          end
          local got = p:value_of("w"):contiguous():view({ rows * columns }):totable()
          near(row.w, got, exact and 1e-12 or 1e-5, ("%d x %d, step %d"):format(rows, columns, t))
        end
      end
    end)
  end)
end

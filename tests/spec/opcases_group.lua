-- opcases_group.lua - the cases of the ops of experts, for opcases.lua: rows by group, a linear layer of each group.

local case = require("tests.spec.opcases_list")

local LAYOUT = { lens = { 5, 9, 4 }, starts = { 2, 16, 30 }, rows = 40, uids = { 9, 4, 11 } }

---(K, 40) items, some of them of no group.
local function items(r, choices, groups)
  local list = r.integers({ choices, 40 }, groups + 1)
  list[1][17], list[1][18] = -1, groups + 7
  return { i32 = list }
end

for _, t in ipairs { { 1, 4 }, { 2, 3 }, { 3, 300 }, { 2, 3, capacity = 4 }, { 1, 2, capacity = 1 } } do
  local choices, groups = table.unpack(t)
  case(("group_rows of %d choices, %d groups, capacity %s"):format(choices, groups, tostring(t.capacity)),
    function(r) return { ["*items"] = items(r, choices, groups) } end, function(sr, given)
      return { sr.ops.group_rows(given.items, sr.layout(LAYOUT), { groups = groups, capacity = t.capacity }) }
    end, { difference = false })
end

---The product of each group, with rows beyond the last group that must not count.
local function product(name, rows, inputs, outputs, starts, act)
  case(("grouped_linear %s, %dx%dx%d %s"):format(name, rows, inputs, outputs, act), function(r)
    local groups = #starts - 1
    return {
      x = r.normal { rows, inputs }, w = r.normal({ groups * outputs, inputs }, inputs ^ -0.5),
      b = r.normal { groups * outputs }, ["*starts"] = { i32 = starts },
    }
  end, function(sr, t) return { sr.ops.grouped_linear(t.x, t.w, t.b, t.starts, { act = act }) } end,
    { tolerance = 5e-6, bf16 = 2 ^ -7 })
end

for _, act in ipairs { "none", "gelu", "relu", "silu" } do product("small", 9, 5, 3, { 0, 2, 2, 7 }, act) end
product("one group", 20, 8, 16, { 0, 20 }, "gelu")
product("no rows", 3, 8, 8, { 0, 0, 0 }, "none")
product("uneven tiles", 150, 40, 72, { 0, 70, 71, 140, 148 }, "gelu")
product("odd sizes", 70, 33, 65, { 0, 1, 66 }, "silu")
case("grouped_linear without bias",
  function(r) return { x = r.normal { 6, 4 }, w = r.normal { 6, 4 }, ["*starts"] = { i32 = { 0, 4, 5 } } } end,
  function(sr, t) return { sr.ops.grouped_linear(t.x, t.w, nil, t.starts) } end)

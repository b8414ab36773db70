-- Products through the host code of cuda, with the stand-ins of this folder: run by tests/spec/products_spec.lua.

package.path = "./?.lua;" .. package.path
local products = require("tests.support.products")

local count = 0
local function check(what, error, tolerance)
  if not (error < tolerance) then
    io.stderr:write(("%s: wrong by %g\n"):format(what, error))
    os.exit(1)
  end
  count = count + 1
end

for name, view in pairs(products.VIEWS) do
  if not view.slow then
    check(name, products.error("cuda", name, "f32", "f32"), 1e-6)
    check(name .. " in bf16", products.error("cuda", name, "bf16", "bf16"), 1e-2)
  end
end
for dtype, tolerance in pairs { f32 = 1e-6, bf16 = 1e-2 } do
  check("linear in " .. dtype, products.linear_error("cuda", dtype), tolerance)
end
print("products are right: " .. count)

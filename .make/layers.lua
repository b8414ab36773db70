-- Checks the layers: a directory may include only itself and lower layers.
--
--   core/*     those before it in the list `core`
--   kernels/*  all of core, to fill the tables in core/tensor/backend.h
--   lua/bind   core, kernels/ref and kernels/cpu; the only C that includes lua.h
--   plug-ins   built outside, against the installed core headers
--
-- Prints every violation and exits with 1 if there is any.

local core = { "base", "text", "data", "pack", "batch", "tensor", "train", "store" }

--- What a directory may include: "core/base" -> { ["core/base"] = true }.
local allowed, so_far = {}, {}
for _, name in ipairs(core) do
  so_far[#so_far + 1] = "core/" .. name
  allowed["core/" .. name] = table.move(so_far, 1, #so_far, 1, {})
end
local all_core = allowed["core/store"]

local function with_core(...)
  return table.move({ ... }, 1, select("#", ...), #all_core + 1, table.move(all_core, 1, #all_core, 1, {}))
end

allowed["core"] = with_core("core") -- the umbrella header
for _, kernels in ipairs { "ref", "cpu", "cuda", "simt", "comm" } do
  allowed["kernels/" .. kernels] = with_core("kernels/" .. kernels)
end
allowed["kernels/cpu/simd"] = with_core("kernels/cpu", "kernels/cpu/simd")
table.insert(allowed["kernels/cpu"], "kernels/cpu/simd")
table.insert(allowed["kernels/cuda"], "kernels/simt") -- prim.cuh gives one of its two definitions
table.insert(allowed["kernels/simt"], "kernels/cuda")
allowed["lua/bind"] = with_core("core", "kernels/ref", "kernels/cpu", "lua/bind")

local libraries = { ["lua.h"] = "lua/bind", ["lauxlib.h"] = "lua/bind", ["lualib.h"] = "lua/bind" }

local faults = 0
local function fault(file, line, message)
  faults = faults + 1
  print(("%s:%d: %s"):format(file, line, message))
end

local function folder_of(path) return path:match("^(.*)/[^/]*$") or "" end

local function contains(list, item)
  for _, each in ipairs(list) do
    if each == item then return true end
  end
  return false
end

local function check(file)
  local folder, number = folder_of(file), 0
  for line in io.lines(file) do
    number = number + 1
    local quoted = line:match('^%s*#%s*include%s*"([^"]+)"')
    local library = line:match("^%s*#%s*include%s*<([^>]+)>")
    local owner = libraries[quoted or library]
    if owner and folder ~= owner then
      fault(file, number, (quoted or library) .. " may be included only in " .. owner)
    elseif quoted and quoted:find("/") and not contains(allowed[folder], folder_of(quoted)) then
      fault(file, number, folder .. " may not include " .. quoted)
    end
  end
end

local pipe = assert(io.popen("find core kernels lua/bind -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'"))
for file in pipe:lines() do
  if allowed[folder_of(file)] then
    check(file)
  else
    fault(file, 1, ("unknown folder %s; add it to .make/layers.lua"):format(folder_of(file)))
  end
end
pipe:close()
os.exit(faults == 0)

-- bits.lua - single bits turned over in files that have checksums: one line.
--
--     [COUNT=N|all] [SEED=N] [ONLY=TEXT] build/seqrun tests/faults/bits.lua
--
-- COUNT bits of each file (all: every one); each flip must be found with a sentence when the file is read, or be
-- harmless: what is read is the same.  The files are those of tests/data/frozen.

package.path = "./?.lua;" .. package.path
local failure = require("seqrun.base.failure")
local frame = require("tests.faults.support.frame")
local sr = require("seqrun")
local sys = require("seqrun.core.sys")

local trial = frame.open("bits", { short = 150, long = 20000, sanitized = 30 })
assert(os.execute(("cp -r tests/data/frozen/. '%s' && chmod -R u+w '%s'"):format(trial.folder, trial.folder)))

-- ---- readers: all that a file says, as one text; nil and a sentence where it is refused --------------------

---Plain values in a fixed order.
local function flat(value, parts)
  parts = parts or {}
  if type(value) == "table" then
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(keys) do
      parts[#parts + 1] = tostring(key) .. "="
      flat(value[key], parts)
    end
  elseif type(value) ~= "userdata" then
    parts[#parts + 1] = type(value) == "number" and ("%a"):format(value) or tostring(value)
  end
  return parts
end
local function text_of(...) return table.concat(flat({ ... }), ";") end

---What a data set has, through the calls that training makes.
local function data_set(path)
  local corpus = failure.must(sr.data.open(path, { held = 0 }))
  local info = corpus:info()
  info.path = nil
  local parts = { text_of(info, corpus:columns(), corpus:meta()) }
  for i = 1, info.examples or info.documents do parts[#parts + 1] = text_of(failure.must(corpus.core:unit(i))) end
  for _, column in ipairs(corpus:columns()) do
    for i = 1, corpus:meta()["column." .. column.name] and info.examples or 0 do
      parts[#parts + 1] = text_of(failure.must(corpus:column(column.name, i)))
    end
  end
  return table.concat(parts)
end

local function metric(path)
  local one = failure.must(sr.data.metric(path))
  local parts = { text_of(one.about) }
  for uid = 0, one:count() - 1 do parts[#parts + 1] = text_of(one:value(uid)) end
  for percent = 1, 100 do parts[#parts + 1] = text_of(one:percentile(percent)) end
  return table.concat(parts)
end

local function plan(path)
  local one = failure.must(sr.pack.load(path))
  return text_of(one, one:patterns())
end

---A checkpoint is verified by all that read it (checkpoint.resolve).
local function checkpoint(path)
  return text_of(failure.must(sr.checkpoint.resolve(path:match("^(.*/step%-%d+)/"))))
end

-- ---- flips -------------------------------------------------------------------------------------------------

local READERS = {
  { "text.sqr", data_set }, { "reviews-c79b8a9fc563.sqr", data_set }, { "text.rarity.metric", metric },
  { "plan.txt", plan },
}

---All files of a checkpoint.
local function add_checkpoint(folder, inside)
  for _, name in ipairs(assert(sys.list(trial.folder .. "/" .. folder))) do
    local path = folder .. "/" .. name
    if sys.is_dir(trial.folder .. "/" .. path) then
      add_checkpoint(path, true)
    elseif inside or folder:find("/step%-%d+$") then
      READERS[#READERS + 1] = { path, checkpoint }
    end
  end
end
for _, run in ipairs { "run", "curriculum" } do add_checkpoint(run) end

local flips, found, harmless = 0, 0, 0

---One flip of a file; the file is restored.
local function flip(name, path, bytes, read, wanted, bit)
  local at = bit // 8
  local file = assert(io.open(path, "r+b"))
  local function put(byte)
    assert(file:seek("set", at))
    assert(file:write(string.char(byte)))
    assert(file:flush())
  end
  put(bytes:byte(at + 1) ~ (1 << bit % 8))
  local good, result = pcall(read, path)
  put(bytes:byte(at + 1))
  file:close()
  flips = flips + 1
  if not good and failure.of(result) and #failure.of(result).message > 0 then
    found = found + 1
  elseif not good then
    trial:fail("%s, bit %d: no sentence but %s", name, bit, tostring(result))
  elseif result == wanted then
    harmless = harmless + 1
  else
    trial:fail("%s, bit %d: other contents, and nothing was said", name, bit)
  end
end

---`count` bits of a file, in order.
local function bits_of(size, count)
  if count >= 8 * size then count = 8 * size end
  local list = {}
  for i = 1, count do
    local from, upto = 8 * size * (i - 1) // count, 8 * size * i // count
    list[i] = from + trial:random(upto - from)
  end
  return list
end

local names = 0
for _, one in ipairs(READERS) do
  local name, read = one[1], one[2]
  if trial:wants(name) then
    local path = trial.folder .. "/" .. name
    local bytes, wanted = assert(sys.read_file(path)), read(path)
    names = names + 1
    for _, bit in ipairs(bits_of(#bytes, math.min(trial.count, 8 * #bytes))) do
      flip(name, path, bytes, read, wanted, bit)
    end
    assert(read(path) == wanted, name .. " was not restored")
  end
end
trial:done("%d flipped bits in %d files, %d found, %d harmless", flips, names, found, harmless)

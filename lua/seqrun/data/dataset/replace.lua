-- replace.lua - may this file be written over?  A data set is replaced only by one of the same text.
--
-- What may not be raises a failure.

local core = require("seqrun.core.data")
local failure = require("seqrun.base.failure")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

local replace = {}

local WAY = "choose another file with out=, or replace it with overwrite=true"

local function refuse(out, format, ...)
  failure.raise("config", "prepare: %s exists and %s; %s", out, format:format(...), WAY)
end

---Makes the directory of `out`, where a file can be written.
---@param out string
function replace.make_place(out)
  local folder = out:match("^(.+)/[^/]*$")
  if folder then failure.must(sys.make_dirs(folder)) end
  failure.must(sys.check_writable(out))
end

---The data set at `out`; nil if it does not exist, or may be replaced in any case.
---@param out string
---@param overwrite boolean|nil
---@return table|nil before what is known of it
function replace.before(out, overwrite)
  if overwrite or not sys.exists(out) or sys.is_dir(out) then return nil end
  local found = core.open(out, {})
  if not found then refuse(out, "is not a data set that can be read") end
  return { meta = found:meta(), about = found:info() }
end

---The names of input files without their directories, which differ from one checkout to another.
local function base_names(source)
  return (source:gsub("%S+", function(path) return path:match("[^/]*/*$") end))
end

---Refuses one that was not made from inputs of these names, in this way.
---@param before table
---@param out string
---@param wanted table<string, string> metadata of the new one
function replace.check_settings(before, out, wanted)
  for _, key in ipairs(sorted(wanted)) do
    local old, new = before.meta[key] or "none", wanted[key]
    if key == "source" then old, new = base_names(old), base_names(new) end
    if old ~= new and key == "vocab_fingerprint" then refuse(out, "has another vocabulary") end
    if old ~= new and key == "tokenizer_fingerprint" then refuse(out, "has another tokenizer") end
    if old ~= new then refuse(out, "was made with %s '%s', not '%s'", (key:gsub("_", " ")), old, new) end
  end
end

---Refuses one of another text than was read.
---@param before table
---@param out string
---@param ingest seqrun.core.data.ingest after its last step
function replace.check_text(before, out, ingest)
  local old, new = before.about, ingest:counts()
  if failure.must(ingest:digest()) == old.digest then return end
  refuse(out, "contains another text (%d tokens in %d documents; the new one has %d in %d)", old.tokens,
    old.documents, new.tokens, new.documents)
end

return replace

-- replace.lua - may this file be written over?  A data set is replaced only by one of the same text.

local core = require("seqrun.core.data")
local sorted = require("seqrun.base.sorted")
local sys = require("seqrun.core.sys")

local replace = {}

local WAY = "choose another file with out=, or replace it with overwrite=true"

local function refuse(out, format, ...)
  return nil, ("prepare: %s exists and %s; %s"):format(out, format:format(...), WAY), "config"
end

---Makes the directory of `out`, where a file can be written.
---@param out string
---@return true|nil
---@return string? message
---@return string? code
function replace.make_place(out)
  local folder, done, message, code = out:match("^(.+)/[^/]*$"), true, nil, nil
  if folder then done, message, code = sys.make_dirs(folder) end
  if done then done, message, code = sys.check_writable(out) end
  return done, message, code
end

---The data set at `out`; nil if it does not exist, or may be replaced in any case.
---@param out string
---@param overwrite boolean|nil
---@return table|nil before what is known of it
---@return string? message it is something else
---@return string? code
function replace.before(out, overwrite)
  if overwrite or not sys.exists(out) or sys.is_dir(out) then return nil end
  local found = core.open(out, {})
  if not found then return refuse(out, "is not a data set that can be read") end
  return { meta = found:meta(), about = found:info() }
end

---The names of input files without their directories, which differ from one checkout to another.
local function base_names(source)
  return (source:gsub("%S+", function(path) return path:match("[^/]*/*$") end))
end

---Whether it was made from inputs of these names, in this way.
---@param before table
---@param out string
---@param wanted table<string, string> metadata of the new one
---@return true|nil
---@return string? message
---@return string? code
function replace.check_settings(before, out, wanted)
  for _, key in ipairs(sorted(wanted)) do
    local old, new = before.meta[key] or "none", wanted[key]
    if key == "source" then old, new = base_names(old), base_names(new) end
    if old ~= new and key == "vocab_fingerprint" then return refuse(out, "has another vocabulary") end
    if old ~= new and key == "tokenizer_fingerprint" then return refuse(out, "has another tokenizer") end
    if old ~= new then return refuse(out, "was made with %s '%s', not '%s'", (key:gsub("_", " ")), old, new) end
  end
  return true
end

---Whether the text that was read is the old one.
---@param before table
---@param out string
---@param ingest seqrun.core.data.ingest after its last step
---@return true|nil
---@return string? message
---@return string? code
function replace.check_text(before, out, ingest)
  local digest, message, code = ingest:digest()
  if not digest then return nil, message, code end
  if digest == before.about.digest then return true end
  local old, new = before.about, ingest:counts()
  return refuse(out, "contains another text (%d tokens in %d documents; the new one has %d in %d)", old.tokens,
    old.documents, new.tokens, new.documents)
end

return replace

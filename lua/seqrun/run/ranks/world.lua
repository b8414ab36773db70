-- world.lua - the ranks of a run: opened, placed, and agreed on what they train.
--
-- A run on several ranks is the same run on each: same program, config, data.  What differs is named in one
-- sentence, with the number of the rank.

local config = require("seqrun.config")
local devices = require("seqrun.tensor.devices")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local origin = require("seqrun.run.directory.origin")
local placement = require("seqrun.run.ranks.placement")
local ranks = require("seqrun.tensor.ranks")
local sys = require("seqrun.core.sys")
local tensor = require("seqrun.tensor")

local world = {}

---Keys that may differ between ranks.
local OWN = { threads = true }

-- ---- agreement -------------------------------------------------------------------------------

---@class seqrun.fact
---@field [1] string what it is
---@field [2] string its value

---The first fact that differs between two lists: its name and both values.
local function difference(mine, theirs)
  local values = {}
  for _, fact in ipairs(theirs) do values[fact[1]] = fact[2] end
  for _, fact in ipairs(mine) do
    if values[fact[1]] ~= fact[2] then return fact[1], fact[2], values[fact[1]] or "absent" end
    values[fact[1]] = nil
  end
  local name, value = next(values)
  return name, "absent", value
end

---Fails on every rank alike, with one sentence, unless all ranks have the same facts.
---@param w seqrun.World
---@param facts seqrun.fact[]
---@param code string
---@param fix string what to do
function world.agree(w, facts, code, fix)
  if w.size == 1 then return end
  local texts = w:gather_text(json.encode { host = sys.machine().host, facts = json.array(facts) })
  local first = json.decode(texts[1])
  for r = 1, w.size - 1 do
    local other = json.decode(texts[r + 1])
    local name, zero, theirs = difference(first.facts, other.facts)
    if name then
      failure.raise(code, "rank %d (%s) differs from rank 0: %s is %s, but %s on rank 0; %s", r, other.host, name,
        theirs, zero, fix)
    end
  end
end

---The build; a commit says what is in it only where nothing was changed after it.
local function program_facts()
  local build = sys.build()
  local facts = {
    { "the program", ("seqrun %s (%s)"):format(build.version, build.git) },
    { "the compiler", ("%s %s"):format(build.compiler, build.cflags) },
    { "the checksum of the Lua library", origin.library():sub(1, 8) },
  }
  if build.git == "none" or build.git:find("dirty", 1, true) then
    facts[4] = { "the checksum of the program", failure.must(sys.hash_file("/proc/self/exe")):sub(1, 8) }
  end
  return facts
end

---The config and the command line, key by key.
local function config_facts(loaded, request, folder)
  local facts = {
    { "the recipe", request.file },
    { "the checksum of " .. request.file, (sys.hash_file(request.file) or "unreadable"):sub(1, 8) },
    { "the run's directory", folder },
    { "--resume", request.resume and "given" or "absent" },
    { "--max-steps", tostring(request.max_steps or "absent") },
  }
  config.each(loaded.schema, function(path, wanted)
    if not OWN[path] then facts[#facts + 1] = { path, wanted:text(config.get(loaded.values, path)) } end
  end, "", loaded.values)
  return facts
end

---Fails unless all ranks have the same data, vocabulary, plans and model.
---@param w seqrun.World
---@param parts { corpus?: table, plans: table<string, string>, model?: table } plans: texts by file
function world.check_parts(w, parts)
  if w.size == 1 then return end
  local facts = {}
  local function add(name, value) facts[#facts + 1] = { name, value } end
  local function add_text(name, value) add(name, value and sys.hash(value):sub(1, 16) or "absent") end
  if parts.corpus then
    add("the data set", ("%s (%s)"):format(parts.corpus:info().path, tostring(parts.corpus:info().digest)))
    add("the tokenizer", parts.corpus:tokenizer():fingerprint())
  end
  for file, plan in pairs(parts.plans) do -- without how long the solver took
    local lasting = plan:gsub("\nmilliseconds [^\n]*", ""):gsub("\nchecksum [^\n]*", "")
    add_text("the plan " .. file:match("[^/]*$"), lasting)
  end
  if parts.model then add("the number of parameters", tostring(parts.model.params:count())) end
  table.sort(facts, function(a, b) return a[1] < b[1] end)
  world.agree(w, facts, "data", "give all ranks the same files")
end

-- ---- opening ---------------------------------------------------------------------------------

---The config with the device of this rank.
local function of_this_rank(cfg)
  return setmetatable({ device = placement.device(cfg.device) }, { __index = cfg })
end

---The instruction set that the run began with: of its config, or of the run that is resumed; "auto" for a new one.
local function stored_class(loaded, request, folder)
  local name, path = loaded.values.instructions, folder .. "/config.yaml"
  if name ~= "auto" or not request.resume or not sys.exists(path) then return name end
  local before = failure.valid(config.load { schema = loaded.schema, file = path })
  return before and before.values.instructions or "auto"
end

---Fails where ranks compute with different instructions: the bits would depend on which rank computes what.  Those of a
---new run take that of rank 0, as a measurement may have chosen it.
local function agree_on_instructions(w, cfg)
  local on_cpu = tensor.device() == "cpu"
  local first = w:broadcast_text(w.rank == 0 and devices.instructions() or nil)
  if w.rank > 0 then devices.use_instructions(first) end -- rank 0 knows why it does not use the one of the config
  if not on_cpu and cfg.ranks and cfg.ranks.reduce == "library" then return end
  world.agree(w, { { "the instruction set", devices.instructions() } }, "config", on_cpu
    and "set SEQRUN_ISA to the lesser of them on all ranks" or "use GPUs of one kind, or set ranks.reduce=library")
end

---Makes the device of the config the current one and opens the world of the launcher on it; all ranks agree on
---program, config and command line, and are bound to their processors.
---@param loaded seqrun.Config
---@param request table of run.options
---@param folder string
---@return seqrun.World? # nil for a dry run, which is that of rank 0
---@return string[] warnings
function world.open(loaded, request, folder)
  local cfg = loaded.values
  devices.use(of_this_rank(cfg))
  devices.use_instructions(stored_class(loaded, request, folder))
  if cfg.ranks and cfg.ranks.engine == "nccl" and not tensor.device():find("^cuda") then
    failure.raise("config", "ranks.engine=nccl requires device=cuda, but this run is on %s; use auto or mpi",
      tensor.device())
  end
  if request.dry_run then
    ranks.work_apart()
    return nil, {}
  end
  local options = cfg.ranks and { engine = cfg.ranks.engine, timeout = cfg.ranks.timeout } or {}
  local w = ranks.open(tensor.device(), options)
  if w.size == 1 then return w, {} end
  world.agree(w, program_facts(), "config", "install the same build on all machines")
  world.agree(w, config_facts(loaded, request, folder), "config", "start all ranks with the same arguments and files")
  agree_on_instructions(w, cfg)
  return w, placement.resolve(w, cfg)
end

return world

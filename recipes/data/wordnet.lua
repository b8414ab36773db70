-- wordnet.lua - a task from WordNet: to which domain does a noun belong that is defined so?
--
--     seqrun recipes/data/wordnet.lua                          runs/data/wordnet/train.tsv and dev.tsv
--     seqrun recipes/data/wordnet.lua domains=[all] per_domain=none
--
-- The domain of a noun is its lexicographer file (noun.animal ...); the text is its definition, without the examples,
-- which use the noun itself.  Definitions that occur in two domains are left out.  Whether a definition is in dev
-- depends on its text and the seed alone.  Needs Debian's package wordnet-base.

local sr = require "seqrun"
local sys = require "seqrun.core.sys"
local c = sr.config

---Lexicographer files of nouns, from 3; see lexnames(5WN).
local NAMES = {
  "tops", "act", "animal", "artifact", "attribute", "body", "cognition", "communication", "event", "feeling", "food",
  "group", "location", "motive", "object", "person", "phenomenon", "plant", "possession", "process", "quantity",
  "relation", "shape", "state", "substance", "time",
}
local FIRST = 3

local schema = c.map {
  { "folder", c.path { default = "/usr/share/wordnet", doc = "where data.noun of WordNet 3.0 is" } },
  { "out", c.path { default = "runs/data/wordnet", doc = "directory to write train.tsv and dev.tsv into" } },
  { "domains", c.list(c.string {}, { min = 1, doc = "domains of nouns; [all]: all 26",
    default = { "animal", "artifact", "body", "feeling", "food", "location", "person", "plant", "time" } }) },
  { "per_domain", c.integer { optional = true, default = 1000, min = 2, doc = "at most so many of each; none: all" } },
  { "dev", c.number { default = 0.1, min = 0.01, max = 0.5, doc = "fraction of the definitions in dev.tsv" } },
  { "seed", c.integer { default = 1, min = 0, doc = "of the choice of definitions, and of those in dev.tsv" } },
}
local cfg, request = require("seqrun.run.settings") { recipe = arg, schema = schema }
local out = request.out or cfg.out

---The domains that are wanted, by number.
local function wanted()
  local numbers = {}
  for i, name in ipairs(NAMES) do numbers[name] = i + FIRST - 1 end
  local found = {}
  for _, name in ipairs(cfg.domains[1] == "all" and NAMES or cfg.domains) do
    if not numbers[name] then
      sr.must(nil, ("domains: unknown domain '%s'; use all, or: %s"):format(name, table.concat(NAMES, ", ")), "config")
    end
    found[numbers[name]] = name
  end
  return found
end

---Definitions by their words, each with its domain; false where there are two domains.
local function definitions(path, domains)
  if not sys.exists(path) then
    sr.must(nil, path .. " is missing; install it (apt-get install wordnet-base), or set folder", "missing")
  end
  local found = {}
  for line in io.lines(path) do
    local number, gloss = line:match("^%d+ (%d+) n .-| (.*)$")
    local domain = domains[tonumber(number)]
    local text = domain and gloss:gsub('; ".*', ""):gsub("%s+", " "):match("^%s*(.-)%s*$")
    local words = text and text:lower():gsub("%W+", " ") -- those that differ only in punctuation are the same
    if words and words:find("%S") then
      local before = found[words]
      if before == nil then
        found[words] = { text = text, domain = domain, key = sys.hash(cfg.seed .. " " .. words) }
      elseif before and before.domain ~= domain then
        found[words] = false
      end
    end
  end
  return found
end

---The definitions of each domain in keyed order, at most so many.
local function choose(found)
  local lists, rows = {}, {}
  for _, row in pairs(found) do
    if row then
      lists[row.domain] = lists[row.domain] or {}
      table.insert(lists[row.domain], row)
    end
  end
  local function by_key(a, b) return a.key < b.key end
  for _, list in pairs(lists) do
    table.sort(list, by_key)
    table.move(list, 1, math.min(#list, cfg.per_domain or #list), #rows + 1, rows)
  end
  table.sort(rows, by_key)
  return rows
end

---Whether a definition is for evaluation; its order is another hash.
local function is_dev(row) return tonumber(sys.hash("dev " .. row.key):sub(1, 8), 16) < cfg.dev * 2 ^ 32 end

local function write(name, rows, keep)
  local lines = { "definition\tdomain" }
  for _, row in ipairs(rows) do
    if is_dev(row) == keep then lines[#lines + 1] = row.text .. "\t" .. row.domain end
  end
  local path = out .. "/" .. name
  sr.must(sys.write_file(path, table.concat(lines, "\n") .. "\n"))
  if not request.quiet then print(("%s: %d definitions"):format(path, #lines - 1)) end
end

if request.dry_run then return print("would write " .. out) end
local rows = choose(definitions(cfg.folder .. "/data.noun", wanted()))
sr.must(sys.make_dirs(out))
write("train.tsv", rows, false)
write("dev.tsv", rows, true)

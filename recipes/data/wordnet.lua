-- wordnet.lua - a task from WordNet: to which domain does a noun belong that is defined so?
--
--     seqrun recipes/data/wordnet.lua                          runs/data/wordnet/train.tsv and dev.tsv
--     seqrun recipes/data/wordnet.lua domains=[all] per_domain=none
--     seqrun recipes/data/wordnet.lua labelled=64              few lines to train on, as many to evaluate on
--
-- definitions.txt has the definitions of all nouns but those in dev.tsv, without domains, to pretrain on.
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
  { "per_domain", c.integer { optional = true, default = 1000, min = 2, doc = "maximum number of each; none: all" } },
  { "labelled", c.integer { optional = true, min = 1, doc = "maximum number of each in train.tsv; none: all" } },
  { "dev", c.number { default = 0.1, min = 0.01, max = 0.5, doc = "fraction of the definitions in dev.tsv" } },
  { "seed", c.integer { default = 1, min = 0, doc = "of the choice of definitions, and of those in dev.tsv" } },
}
local cfg, request = require("seqrun.run.settings") { recipe = arg, schema = schema, folder = true }
local out = cfg.out

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

---Adds a definition of one of the domains.
local function add(found, words, text, domain)
  local before = found[words]
  if domain and before == nil then
    found[words] = { text = text, words = words, domain = domain, key = sys.hash(cfg.seed .. " " .. words) }
  elseif domain and before and before.domain ~= domain then
    found[words] = false
  end
end

---Definitions by their words, each with its domain; false where there are two domains; and all definitions as a list.
local function definitions(path, domains)
  if not sys.exists(path) then
    sr.must(nil, path .. " is missing; install it (apt-get install wordnet-base), or set folder", "missing")
  end
  local found, texts = {}, {}
  for line in sr.must(sys.read_file(path)):gmatch("[^\n]+") do
    local number, gloss = line:match("^%d+ (%d+) n .-| (.*)$")
    local text = gloss and gloss:gsub('; ".*', ""):gsub("%s+", " "):match("^%s*(.-)%s*$") or ""
    local words = text:lower():gsub("%W+", " ") -- those that differ only in punctuation are the same
    if words:find("%S") then
      texts[#texts + 1] = { text = text, words = words }
      add(found, words, text, domains[tonumber(number)])
    end
  end
  return found, texts
end

---The definitions of each domain in keyed order, at most `per_domain`.
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

local function write(name, lines, count)
  local path = out .. "/" .. name
  sr.must(sys.write_file(path, table.concat(lines, "\n") .. "\n"))
  if not request.quiet then print(("%s: %d definitions"):format(path, count)) end
end

---Writes the labelled definitions that are for evaluation, or the others, at most `most` of each domain.
local function write_labelled(name, rows, dev, most)
  local lines, counts = { "definition\tdomain" }, {}
  for _, row in ipairs(rows) do
    local count = counts[row.domain] or 0
    if is_dev(row) == dev and count < (most or math.huge) then
      counts[row.domain] = count + 1
      lines[#lines + 1] = row.text .. "\t" .. row.domain
    end
  end
  write(name, lines, #lines - 1)
end

---Writes all definitions but those for evaluation, each once, as documents.
local function write_texts(rows, texts)
  local left_out, lines = {}, {}
  for _, row in ipairs(rows) do left_out[row.words] = is_dev(row) end
  for _, one in ipairs(texts) do
    if not left_out[one.words] then
      left_out[one.words] = true
      lines[#lines + 1] = one.text .. "\n"
    end
  end
  write("definitions.txt", lines, #lines)
end

if request.dry_run then return print("would write " .. out) end
local found, texts = definitions(cfg.folder .. "/data.noun", wanted())
local rows = choose(found)
sr.must(sys.make_dirs(out))
write_labelled("train.tsv", rows, false, cfg.labelled)
write_labelled("dev.tsv", rows, true)
write_texts(rows, texts)

-- info - describe a run, a checkpoint, weights, a data set, a tokenizer, a plan or metrics.

local describe = require("seqrun.history.describe")
local failure = require("seqrun.base.failure")
local formats = require("seqrun.draw.formats")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local sorted = require("seqrun.base.sorted")

local info = { summary = "describe a run, checkpoint, data set, tokenizer, plan or metrics file" }

function info.define(cmd)
  cmd:argument("path", "a file or directory")
  formats.define(cmd)
  cmd:flag("--tensors", "list the tensors of a safetensors file")
  cmd:epilog([[examples:
  seqrun info runs/pretrain
  seqrun info runs/pretrain/step-000000300/model.safetensors --tensors
  seqrun info runs/data/novels.sqr --json]])
end

---Untrusted text on one line: control characters are shown as escapes.
local function shown(value)
  if value == json.null then return "none" end
  if math.type(value) == "float" then return ("%.6g"):format(value) end
  return (tostring(value):gsub("[%c\x7f\x80-\xff]", function(c)
    return c:byte() >= 0x80 and c or ("\\x%02x"):format(c:byte())
  end))
end

---A table of plain values on one line.
local function on_one_line(t)
  local parts = {}
  for _, key in ipairs(sorted(t)) do
    if type(t[key]) ~= "table" and t[key] ~= json.null then
      parts[#parts + 1] = math.type(key) == "integer" and shown(t[key]) or ("%s %s"):format(shown(key), shown(t[key]))
    end
  end
  return table.concat(parts, ", ")
end

local function line(name, text) print(live.fit_output(("  %-14s %s"):format(name, text))) end

local function print_checkpoint(facts)
  local family = facts.config.model_type
  facts.config.model_type = nil
  line("model", (family and shown(family) .. ": " or "") .. on_one_line(facts.config))
  if facts.tokenizer then
    local t = facts.tokenizer
    local casing = t.lowercase and "uncased" or "cased"
    line("tokenizer", ("%s, %d tokens, %s; pairs are %s"):format(t.model, t.tokens, casing, shown(t.pair)))
  end
  if facts.task then
    local labels = facts.labels and #facts.labels <= 20 and ": " .. shown(table.concat(facts.labels, ", ")) or ""
    line("task", facts.task .. labels)
  end
  if facts.parameters then line("parameters", ("%d in %d tensors"):format(facts.parameters, facts.tensors)) end
  if facts.step then line("step", shown(facts.step)) end
  if facts.optimizer then line("optimizer", shown(facts.optimizer)) end
  for _, problem in ipairs(facts.problems) do line("problem", shown(problem)) end
  local state = facts.verified and "verified" or "CORRUPT: " .. shown(facts.damage)
  line("files", facts.manifest and state or "no manifest")
end

local function print_run(facts)
  for _, item in ipairs(facts.checkpoints) do
    line("step " .. item.step, item.verified and "verified" or "CORRUPT: " .. shown(item.damage))
  end
  if facts.newest_checkpoint then print_checkpoint(facts.newest_checkpoint) end
  if facts.metrics and facts.metrics.last then line("last line", on_one_line(facts.metrics.last)) end
end

local function print_safetensors(facts, args)
  line("tensors", ("%d, %d elements, %d bytes"):format(#facts.tensors, facts.elements, facts.bytes))
  line("types", on_one_line(facts.dtypes))
  if next(facts.metadata) then line("metadata", on_one_line(facts.metadata)) end
  if not args.tensors then return end
  for _, t in ipairs(facts.tensors) do
    print(("    %-5s (%s)  %s"):format(t.dtype, table.concat(t.shape, ", "), shown(t.name)))
  end
end

local function print_metrics(facts)
  line("lines", ("%d, %d invalid"):format(facts.lines, facts.damaged))
  for _, key in ipairs { "first", "last", "last_eval" } do
    if facts[key] then line(key, on_one_line(facts[key])) end
  end
end

local function print_plain(facts)
  for _, key in ipairs(sorted(facts)) do
    local value = facts[key]
    if key ~= "kind" and key ~= "path" then
      line(shown(key), type(value) == "table" and on_one_line(value) or shown(value))
    end
  end
end

local function print_metric(facts) print(require("seqrun.analysis.show").text(facts)) end

local PRINTERS = {
  metric = print_metric, checkpoint = print_checkpoint, run = print_run,
  safetensors = print_safetensors, metrics = print_metrics,
}

function info.run(args)
  local facts = failure.must(describe(args.path))
  if args.format ~= "table" then
    formats.tell(args, { json = function() return facts end })
    return 0
  end
  print(("%s: %s"):format(shown(args.path), facts.kind))
  local printer = PRINTERS[facts.kind] or print_plain
  printer(facts, args)
  return 0
end

return info

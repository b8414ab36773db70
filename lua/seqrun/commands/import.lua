-- import - a Hugging Face directory as a checkpoint.

local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local listing = require("seqrun.checkpoint.listing")
local pretrained = require("seqrun.checkpoint.bert")
local text = require("seqrun.base.format")
local verb = require("seqrun.predict.verb")

local command = { summary = "make a checkpoint of a Hugging Face BERT" }

function command.define(cmd)
  cmd:argument("dir", "a Hugging Face directory: config.json, model.safetensors, vocab.txt or tokenizer.json")
  cmd:argument("out", "the directory of the run to make; must be empty or missing")
  cmd:flag("--tensors", "list the tensors")
  cmd:flag("--json", "one JSON object")
  cmd:epilog([[init.from=, eval, predict, fill and encode read such directories directly. import checks a whole
directory, joins shards, converts to f32 and to current names, and adds checksums.

examples:
  seqrun import downloads/bert-base-uncased runs/bert-base
  seqrun recipes/finetune.lua task=classify init.from=runs/bert-base data.train=reviews.csv]])
end

---Loads the model, so that weights that do not fit its config are refused; what it lacks, and what is not in it.
local function compare(dir)
  local model, message, report = pretrained(dir)
  if not model then failure.raise(report or "data", "%s", message) end
  local extra = {}
  for _, one in ipairs(report.ignored) do
    if not one.known then extra[#extra + 1] = one end
  end
  return report.missing, extra
end

local function describe(done)
  if done.task then
    local labels = done.labels and #done.labels <= 20 and ": " .. table.concat(done.labels, ", ") or ""
    return ("a %s head%s"):format(done.task, labels)
  end
  return #done.heads > 0 and "heads " .. table.concat(done.heads, ", ") or "no heads"
end

function command.run(args)
  local facts = checkpoint.pretrained(args.dir)
  local missing, extra = {}, {}
  if facts then missing, extra = compare(args.dir) end
  local done = failure.must(checkpoint.import(args.dir, args.out))
  if facts and facts.tokenizer then verb.tokenizer(facts) end -- warns
  done.missing, done.extra = json.array(missing), json.array(extra)
  if args.json then
    print(json.encode(done))
    return 0
  end
  print(("%s: %s in %s, %s"):format(done.path, text.counted(done.parameters, "parameter"),
    text.counted(#done.tensors, "tensor"), describe(done)))
  for _, one in ipairs(missing) do print(("  missing   %s: it will be new"):format(one.name)) end
  for _, one in ipairs(extra) do print(("  extra     %s: not used by any head; kept"):format(one.name)) end
  listing.print(done, args.tensors)
  local out = text.shell(args.out)
  print(("  use it    init.from=%s, or seqrun encode %s"):format(out, out))
  return 0
end

return command

-- export - a checkpoint as a directory for Hugging Face's libraries.

local checkpoint = require("seqrun.checkpoint")
local failure = require("seqrun.base.failure")
local json = require("seqrun.core.json")
local live = require("seqrun.draw.live")
local listing = require("seqrun.checkpoint.listing")
local text = require("seqrun.base.format")
local verb = require("seqrun.predict.verb")

local command = { summary = "write a model as a Hugging Face directory, for Transformers and others" }

function command.define(cmd)
  cmd:argument("dir", "a run, a checkpoint or a Hugging Face directory")
  cmd:argument("out", "the directory to write")
  cmd:flag("--encoder", "without heads: a BertModel, as for sentence embeddings")
  cmd:option("--network", "of a run with two networks, the one to write: discriminator, the default, or generator")
    :argname("NAME")
  cmd:option("--dtype", "of the weights: f32, or bf16 in half the space"):choices { "f32", "bf16" }:default("f32")
  verb.define_average(cmd)
  cmd:option("--language", "of the texts, for the model card, such as en"):argname("CODE")
  cmd:option("--license", "of the model, for the model card, such as mit"):argname("NAME")
  cmd:flag("--force", "replace the directory, if it is an exported model")
  cmd:flag("--tensors", "list the tensors")
  cmd:flag("--json", "one JSON object")
  cmd:epilog([[A checkpoint of a run loads in Transformers directly; export leaves out the files that only a resume
needs, verifies the others, and adds tokenizer.json for programs that do not read vocab.txt, and README.md, a model
card with the task, the scores and how it was trained.

examples:
  seqrun export runs/pretrain models/pretrained
  seqrun export runs/pretrain models/encoder --encoder --dtype bf16
  seqrun export runs/pretrain models/averaged --average
  seqrun export runs/electra models/generator --network generator
  python3 -c 'from transformers import AutoModel; AutoModel.from_pretrained("models/encoder")']])
end

---How Python loads what was written.
local function way_of(done)
  for _, name in ipairs(done.files) do
    if name == "modules.json" then return 'SentenceTransformer("%s")' end
  end
  return done.architecture .. '.from_pretrained("%s")'
end

function command.run(args)
  verb.note_best(args)
  local done = failure.must(checkpoint.export(args.dir, args.out, {
    encoder = args.encoder or nil, dtype = args.dtype, replace = args.force or nil,
    average = args.average, network = args.network, language = args.language, license = args.license,
  }))
  if args.json then
    print(json.encode(done))
    return 0
  end
  print(("%s: %s of %s"):format(done.path, done.architecture, done.from))
  print(("  weights   %s in %s, %s, %s"):format(text.counted(done.parameters, "parameter"),
    text.counted(#done.tensors, "tensor"), done.dtype, text.bytes(done.bytes)))
  print(live.fit_output("  files     " .. table.concat(done.files, ", ")))
  listing.print(done, args.tensors)
  print(("  load it   " .. way_of(done)):format(done.path))
  if done.heads then
    local note = "  note: Transformers has no class with the heads %s and loads the encoder alone; their weights are "
      .. "in the files, and `seqrun predict` and `seqrun eval` use them"
    print(live.fit_output(note:format(table.concat(done.heads, ", "))))
  end
  return 0
end

return command

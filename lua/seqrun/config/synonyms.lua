-- synonyms.lua - what other programs call the keys of a config, for the message about an unknown key;
-- docs/learn/terms.md has them all.

local synonyms = {}

---By key: names without `_` and `-`, in lower case.  A name may mean several keys: the first that a schema has.
local NAMES = {
  { "rate.peak", "lr learningrate initlr maxlr baselr" },
  { "rate.floor", "minlr" },
  { "rate.warmup", "warmupsteps numwarmupsteps warmupratio warmupproportion lrwarmupiters lrwarmupfraction" },
  { "epochs", "numtrainepochs numepochs nepochs trainepochs epoch maxepochs" },
  { "rate.total", "maxsteps trainsteps numtrainsteps trainiters trainingsteps totalsteps numsteps epochs "
    .. "numtrainepochs" },
  { "batch.sequences", "size batchsize bs trainbatchsize globalbatchsize perdevicetrainbatchsize" },
  { "batch.micro_packs", "microbatchsize gradientaccumulationsteps accumulate accumulation gradaccum "
    .. "trainmicrobatchsizepergpu accumulategradbatches" },
  { "batch.evaluation", "evalbatchsize perdeviceevalbatchsize" },
  { "data.max_len", "maxseqlength maxseqlen maxlength seqlength seqlen sequencelength blocksize" },
  { "data.file", "dataset datapath" },
  { "data.train", "dataset trainfile datapath trainfiles" },
  { "data.dev", "validationfile validation valid devfile evalfile testfile" },
  { "data.workers", "numworkers dataloadernumworkers" },
  { "columns.label", "labelcolumn labelcolumnname target labels" },
  { "columns.text", "textcolumn textcolumnname sentence1key" },
  { "optimizer.decay", "weightdecay wd" },
  { "optimizer.betas", "beta1 beta2 adambeta1 adambeta2" },
  { "optimizer.eps", "epsilon adamepsilon" },
  { "optimizer.clip", "maxgradnorm clipgrad gradclip gradientclipping clipnorm gradientclipval" },
  { "optimizer.shard", "zero zerostage usedistributedoptimizer" },
  { "optimizer.name", "optim" },
  { "precision", "bf16 fp16 dtype amp mixedprecision torchdtype" },
  { "mask.prob", "mlmprobability maskprob maskedlmprob" },
  { "mask.max", "maxpredictionsperseq maxpredictions" },
  { "mask.whole_word", "wholewordmask wwm" },
  { "model.num_hidden_layers", "layers numlayers nlayers nlayer" },
  { "model.num_attention_heads", "heads numheads nheads nhead" },
  { "model.hidden_size", "hidden dmodel nembd" },
  { "model.hidden_dropout_prob", "dropout hiddendropout" },
  { "model.recompute", "gradientcheckpointing activationcheckpointing" },
  { "model.experts", "numexperts numlocalexperts nexperts moe moenumexperts" },
  { "model.experts_chosen", "topk numexpertspertok moek moeroutertopk routertopk" },
  { "model.experts_capacity", "capacityfactor moeexpertcapacityfactor expertcapacity" },
  { "model.experts_balance", "routerauxlosscoef moeauxlosscoeff auxlosscoef" },
  { "model.experts_z", "moezlosscoeff routerzlosscoef zlosscoef" },
  { "model.experts_residual", "useresidual" },
  { "distill.from", "teacher teachermodel" },
  { "init.from", "modelnameorpath pretrained initcheckpoint checkpoint pretrainedmodel" },
  { "save.every", "savesteps saveinterval" },
  { "save.keep", "savetotallimit" },
  { "save.best", "metricforbestmodel loadbestmodelatend" },
  { "eval.every", "evalsteps evalinterval" },
  { "eval.patience", "earlystoppingpatience patience earlystopping" },
  { "log.every", "loggingsteps loginterval" },
  { "tune.freeze_layers", "freeze freezelayers" },
  { "token_drop.keep", "ltd ltdkeep randomltd" },
  { "--out", "outputdir outdir savedir logdir output" },
  { "--resume", "resumefromcheckpoint" },
  { "--force", "overwriteoutputdir" },
}

---The keys, and options such as --out, that another program's name means, in order.
---@param name string
---@return string[]
function synonyms.of(name)
  local plain, list = " " .. name:lower():gsub("[_-]", "") .. " ", {}
  for _, row in ipairs(NAMES) do
    if (" " .. row[2] .. " "):find(plain, 1, true) then list[#list + 1] = row[1] end
  end
  return list
end

---All keys and options.
---@return string[]
function synonyms.keys()
  local list = {}
  for i, row in ipairs(NAMES) do list[i] = row[1] end
  return list
end

---The map that has a key; nil if the schema has no such key.
local function home(schema, key)
  local map
  for part in key:gmatch("[^.]+") do
    map, schema = schema, schema.by_name and schema.by_name[part]
    if not schema then return nil end
  end
  return map
end

---"; use model.num_hidden_layers" where a key of this map is meant, or "".
---@param name string
---@param map table of the schema
---@param schema table the whole one
---@return string
function synonyms.hint_in(name, map, schema)
  for _, key in ipairs(synonyms.of(name)) do
    if home(schema, key) == map then return ("; use %s"):format(key) end
  end
  return ""
end

---"; use rate.peak", or "".
---@param name string
---@param schema? table the whole schema; without one, any key will do
---@return string
function synonyms.hint(name, schema)
  for _, key in ipairs(synonyms.of(name)) do
    if key:find("^%-%-") then return ("; use %s"):format(key) end
    if not schema or home(schema, key) then return ("; use %s"):format(key) end
  end
  return ""
end

return synonyms

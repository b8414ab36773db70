-- Examples of text, data sets, packing and loaders.

local LENGTHS = "{ 100, 60, 60, 20, 20 }, { max_len = 128 }"

return {
  ["sr.text.train"] = "vocab = sr.must(sr.text.train { files = sample.text, size = 90 })\n#vocab",
  ["sr.text.vocab"] = 'sample.vocab:save(sample.folder .. "/vocab.txt")\n#sr.text.vocab(sample.folder .. "/vocab.txt")',
  ["sr.text.tokenizer"] = 'sr.text.tokenizer({ vocab = sample.vocab }):encode("The cat sees the dog.")',
  ["sr.text.sentences"] = "for sentence, document in sr.text.sentences { files = sample.text, limit = 100 } do\n"
    .. "  first = first or sentence\nend\nfirst",
  ["Tokenizer"] = 'sample.tokenizer:encode("The cat.")',
  ["Stored"] = "#sr.must(sr.checkpoint.pretrained(sample.run).tokenizer:open { literal = true })",
  ["vocab"] = 'sample.vocab:id("[MASK]"), sample.vocab:token(4)',
  ["sr.data.prepare"] = 'sr.data.prepare { inputs = sample.text, out = sample.folder .. "/new.sqr", vocab = { size = 90 } }',
  ["sr.data.open"] = "sr.data.open(sample.data)",
  ["sr.data.loader"] = "loader = sr.data.loader { data = sample.corpus, max_len = 48, packs = 4, prefetch = 0 }\nloader:next()",
  ["sr.data.write"] = 'sr.data.write { out = sample.folder .. "/own.sqr", vocab = sample.vocab,\n'
    .. "  examples = { { a = { 5, 6, 7 }, label = 1 }, { a = { 8, 9 }, label = 0 } } }",
  ["sr.data.read"] = 'sr.data.read { files = sample.table, out = sample.folder .. "/labelled.sqr", vocab = sample.vocab,\n'
    .. '  task = "classify", columns = { text = "text", label = "label" } }',
  ["sr.data.records"] = 'records = sr.must(sr.data.records { files = sample.table, task = "classify",\n  columns = { text = "text", label = "label" } })\nrecords:next()',
  ["sr.data.files"] = "print(pcall(sr.data.files, {})) -- see recipes/finetune.lua",
  ["sr.data.groups"] = "print(pcall(sr.data.groups, sample.corpus, {})) -- see recipes/finetune.lua task=choice",
  ["sr.data.metric"] = 'sr.must(sr.data.analyze { data = sample.data, metrics = { "length" }, out = sample.folder })\nsr.data.metric(sample.folder .. "/data.length.metric", sample.corpus)',
  ["sr.data.analyze"] = 'sr.data.analyze { data = sample.data, metrics = { "length" }, out = sample.folder }',
  ["Corpus"] = "sample.corpus:info(), sample.corpus:decode(1)",
  ["Loader"] = "sample.loader:summary()",
  ["Update"] = "for batch in sample.update:batches() do print(batch) end",
  ["Batch"] = "sample.batch.ids, sample.batch.targets.mlm.labels",
  ["Records"] = "-- what sr.data.records returns\nsr.data.records",
  ["sr.pack.pack"] = "sr.pack.pack(" .. LENGTHS .. ")",
  ["sr.pack.compare"] = "sr.pack.compare(" .. LENGTHS .. ")",
  ["sr.pack.plot"] = "print(sr.pack.plot(" .. LENGTHS .. "))",
  ["sr.pack.svg"] = "#sr.pack.svg(" .. LENGTHS .. ")",
  ["sr.pack.lengths"] = "sr.pack.lengths(" .. LENGTHS .. ")",
  ["sr.pack.histogram"] = "sr.pack.histogram({ 0, 5, 3, 9 })",
  ["sr.pack.split"] = "sr.pack.split({ 100, 300 }, 128)",
  ["sr.pack.solvers"] = "sr.pack.solvers()",
  ["sr.pack.builtin_solvers"] = "sr.pack.builtin_solvers()",
  ["sr.pack.is_registered"] = 'sr.pack.is_registered("optimal")',
  ["sr.pack.check_solver"] = 'sr.pack.check_solver("ffd")',
  ["sr.pack.register"] = 'sr.pack.register("alone", function(counts)\n  local packs = {}\n'
    .. "  for length, count in pairs(counts) do packs[#packs + 1] = { count = count, length } end\n  return packs\nend)",
  ["sr.pack.assign"] = "sr.pack.assign({ { 100 }, { 60, 60 }, { 20, 20 }, { 128 } }, 2)",
  ["sr.pack.load"] = 'sample.plan:save(sample.folder .. "/plan")\nsr.pack.load(sample.folder .. "/plan")',
  ["sr.pack.parse"] = "sr.pack.parse(sample.plan:text())",
  ["sr.pack.load_certificate"] = 'proof = sample.plan:prove()\nproof:save(sample.folder .. "/proof", sample.plan:hist())\n'
    .. 'sr.pack.load_certificate(sample.folder .. "/proof")',
  ["Metric"] = 'sr.must(sr.data.analyze { data = sample.data, metrics = { "length" }, out = sample.folder })\n'
    .. 'sr.data.metric(sample.folder .. "/data.length.metric", sample.corpus):percentile(50)',
  ["sr.curriculum"] = "sr.curriculum { sequences = 8 }",
  ["Curriculum"] = "-- in a recipe: local curriculum = sr.curriculum { ... }; see recipes/curriculum.lua\nsr.curriculum",
  ["Plan"] = "print(sample.plan:view(1))",
  ["Certificate"] = "sample.plan:prove():info()",
}

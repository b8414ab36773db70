-- Examples of ops, models and optimizers.

local ROWS = 'rows = sr.tensor({ 0, 2 }, { dtype = "i32" })\n'
local LABELS = 'labels = sr.tensor({ 0, 2 }, { dtype = "i32" })\n'

return {
  ["sr.ops.linear"] = 'sr.ops.linear(sr.randn(4, 8), sr.randn(6, 8), sr.zeros(6), { act = "gelu" })',
  ["sr.ops.attention"] = "sr.ops.attention(sr.randn(8, 48), sample.layout, { heads = 2 })",
  ["sr.ops.residual_norm"] = "sr.ops.residual_norm(sr.randn(4, 8), sr.randn(4, 8), sr.ones(8), sr.zeros(8))",
  ["sr.ops.embed"] = 'ids = sr.zeros(8, { dtype = "i32" })\n'
    .. "tables = { word = sr.randn(10, 8), position = sr.randn(4, 8), type = sr.randn(2, 8), gamma = sr.ones(8),\n"
    .. "  beta = sr.zeros(8) }\nsr.ops.embed(ids, ids, tables, sample.layout)",
  ["sr.ops.gather_rows"] = ROWS .. "sr.ops.gather_rows(sr.randn(3, 4), rows)",
  ["sr.ops.put_rows"] = ROWS .. "sr.ops.put_rows(sr.zeros(3, 4), rows, sr.ones(2, 4))",
  ["sr.ops.on_rows"] = ROWS .. "sr.ops.on_rows(sr.ones(3, 4), rows, function(taken) return taken * 2 end)",
  ["sr.ops.dropout"] = "sr.ops.dropout(sr.ones(8, 4), sample.layout, { p = 0.5 })",
  ["sr.ops.keep_probability"] = "sr.ops.keep_probability(0.1)",
  ["sr.ops.mlm_loss"] = LABELS .. "sr.ops.mlm_loss(sr.randn(2, 8), sr.randn(5, 8), sr.zeros(5), labels, sr.ones(2) / 2)",
  ["sr.ops.cross_entropy"] = LABELS .. "sr.ops.cross_entropy(sr.randn(2, 3), labels, sr.ones(2) / 2)",
  ["sr.ops.mse_loss"] = "sr.ops.mse_loss(sr.randn(3), sr.zeros(3), sr.ones(3) / 3)",
  ["sr.ops.binary_cross_entropy"] = "sr.ops.binary_cross_entropy(sr.randn(3), sr.tensor({ 0, 1, 1 }))",
  ["sr.ops.custom"] = "double = sr.ops.custom {\n  forward = function(context, x) return x * 2 end,\n"
    .. "  backward = function(context, dy) return dy * 2 end,\n}\ndouble(sr.ones(3))",
  ["sr.ops.recompute"] = "sr.ops.recompute(function(x) return x:gelu() * 2 end, sr.randn(3))",
  ["sr.ops.call"] = 'print(pcall(sr.ops.call, "swish", { sr.zeros(3) }, { sr.ones(3) })) -- needs recipes/plugin',
  ["sr.optim.adamw"] = "sr.optim.adamw(sample.params, { decay = 0.01 })",
  ["sr.optim.lamb"] = "sr.optim.lamb(sample.params)",
  ["Optimizer"] = "sample.model:losses(sample.batch).total:backward()\nsample.optimizer:step { rate = 1e-3, clip = 1 }",
  ["sr.params.new"] = 'params = sr.params.new { { name = "w", shape = { 3, 4 } } }\nparams:initialise(1)\nparams:get("w")',
  ["Params"] = "sample.params:names()[1], sample.params:count()",
  ["sr.nn.bert"] = "sr.nn.bert { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, vocab_size = 99 }",
  ["sr.nn.encoder"] = "sr.nn.encoder { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, vocab_size = 99 }",
  ["sr.nn.pretrained"] = "sr.nn.pretrained(sample.run)",
  ["sr.nn.model"] = "list, add = sr.nn.specs(0.02)\nadd.linear(\"score\", 1, 8)\n"
    .. 'model = sr.nn.model { { name = "score", specs = list } }',
  ["sr.nn.specs"] = 'list, add = sr.nn.specs(0.02)\nadd.linear("classifier", 3, 16)\nlist',
  ["sr.nn.losses"] = 'losses = sr.nn.losses()\nlosses:add("score", { total = sr.ones(3):mean(), count = 3 })\nlosses.total',
  ["sr.nn.token_drop"] = "sr.nn.token_drop { keep = 0.5 }",
  ["sr.nn.dense_attention"] = "sr.nn.dense_attention(sr.randn(8, 48), sample.layout, { heads = 2 })",
  ["sr.nn.heads.mlm"] = "sr.nn.bert { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, heads = { \"mlm\" } }",
  ["sr.nn.heads.nsp"] = "sr.nn.bert { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, heads = { \"nsp\" } }",
  ["sr.nn.heads.classify"] = 'sr.nn.heads.classify { labels = { "no", "yes" } }',
  ["sr.nn.heads.regress"] = 'sr.nn.heads.regress { labels = { "score" } }',
  ["sr.nn.heads.multilabel"] = 'sr.nn.heads.multilabel { labels = { "red", "blue" } }',
  ["sr.nn.heads.choice"] = "sr.nn.heads.choice {}",
  ["sr.nn.heads.tokens"] = 'sr.nn.heads.tokens { labels = { "O", "B-PER", "I-PER" } }',
  ["sr.nn.heads.squad"] = "sr.nn.heads.squad {}",
  ["Bert"] = "losses = sample.model:losses(sample.batch)\nlosses.total",
  ["Encoder"] = "sample.model.encoder:encode(sample.batch)",
  ["Model"] = "sample.model:flops(sample.batch)",
  ["Part"] = "sample.model.encoder.specs[1]",
  ["Losses"] = "sample.model:losses(sample.batch).total",
  ["TokenDrop"] = "token_drop = sr.nn.token_drop { keep = 0.5 }\ntoken_drop:set(0.75)",
  ["Kept"] = "-- what sr.nn.token_drop keeps of a batch\nsr.nn.token_drop { keep = 0.5 }",
  ["States"] = "states = sample.model.encoder:states(sample.batch)",
  ["MaskedLM"] = 'sample.model:head("mlm")',
  ["NextSentence"] = 'sample.model:head("nsp")',
}

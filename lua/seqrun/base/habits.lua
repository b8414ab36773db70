-- habits.lua - names that PyTorch, Transformers and IPython have, and what does the same here: for hints about unknown
-- names (docs/learn/terms.md has more).

local guess = require("seqrun.base.guess")

local habits = {}

---{ what to use, names in lower case }
local USES = {
  { "totable()", "numpy tolist" },
  { 'to("f32")', "float" }, { 'to("bf16")', "half bfloat16" }, { 'to("i32")', "int long" },
  { 'to("cpu")', "cpu" }, { 'to("cuda"); sr.devices() lists the devices', "cuda" },
  { "matmul(other)", "mm bmm dot" },
  { "a + b", "add" }, { "a - b", "sub" }, { "a * b", "mul" }, { "a / b", "div" }, { "-a", "neg" },
  { "reshape(-1)", "flatten ravel" },
  { "maximum(a):minimum(b)", "clamp clip" },
  { "sr.where(condition, a, b)", "masked_fill" },
  { "index(rows)", "gather index_select" }, { "narrow(dim, start, length)", "chunk split" },
  { "square():sum():sqrt()", "norm" },
  { "sr.cat", "concat concatenate" }, { "sr.tensor", "from_numpy as_tensor" },
  { "sr.manual_seed(n)", "seed set_seed" },
  { "sr.nn.pretrained(DIR) to read a model, sr.checkpoint in recipes", "load save load_state_dict state_dict" },
  { "training = false", "eval" }, { "training = true", "train" },
  { "params: its names() and get(name)", "parameters named_parameters" },
  { "losses(batch)", "forward" },
  { "sr.nn.pretrained(DIR)", "from_pretrained automodel bertmodel" },
  { "seqrun export RUN DIR", "save_pretrained" },
  { "sr.ops.linear, with parameters of sr.nn.specs", "linear" },
  { "the functions of sr.ops, with parameters of sr.nn.specs", "layernorm embedding dropout module sequential" },
  { "sr.data.loader", "dataloader" }, { "sr.data.open, read or write", "dataset load_dataset" },
  { "encode(text)", "tokenize encode_plus" },
  { "encoder.frozen = n, before the optimizer is made", "freeze trainable requires_grad requires_grad_" },
  { "the key precision of its config", "precision" }, { "sr.use(device), or device=cuda for a run", "device" },
  { "rate, of the last step; each step takes its own, optimizer:step { rate = 1e-3 }", "lr learning_rate" },
}

---What to use in place of a name, or nil.
---@param name string
---@return string|nil
function habits.use(name)
  local plain = " " .. name:lower() .. " "
  for _, row in ipairs(USES) do
    if (" " .. row[2] .. " "):find(plain, 1, true) then return row[1] end
  end
end

---"; use totable()", else "; did you mean 'NAME'?" of the known names, or "".
---@param name string
---@param known string[]
---@return string
function habits.hint(name, known)
  local use = habits.use(name)
  return use and "; use " .. use or guess.hint(name, known)
end

return habits

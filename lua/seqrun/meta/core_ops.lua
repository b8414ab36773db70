---@meta

---Loading it adds the small ops to the methods of tensors.
---@class seqrun.core.ops
local ops = {}

---The names of elementwise ops of one tensor, which are methods.
---@type string[]
ops.unary = {}

---The activations of `linear`.
---@type string[]
ops.activations = {}

---Coarse ops with positional arguments, for seqrun.tensor.ops, which names them.
---@type table<string, function>
ops.coarse = {}

---a where the condition holds, else b.
---@param condition seqrun.Tensor
---@param a seqrun.Tensor|number
---@param b seqrun.Tensor|number
---@return seqrun.Tensor
function ops.where(condition, a, b) end

---Concatenates tensors along a dimension.
---@param list seqrun.Tensor[]
---@param dim integer
---@return seqrun.Tensor
function ops.cat(list, dim) end

---Gathers rows by index, from 0.
---@param x seqrun.Tensor
---@param rows seqrun.Tensor
---@return seqrun.Tensor
function ops.gather_rows(x, rows) end

---x with the rows at these indices, from 0, replaced by `values`.
---@param x seqrun.Tensor
---@param rows seqrun.Tensor each row at most once
---@param values seqrun.Tensor
---@return seqrun.Tensor
function ops.put_rows(x, rows, values) end

---The rows at these indices, from 0, and the rest of x, which only return_rows may read.
---@param x seqrun.Tensor
---@param rows seqrun.Tensor each row at most once
---@param count? integer rows of the first result: those after the taken ones are zero
---@return seqrun.Tensor taken
---@return seqrun.Tensor rest
function ops.take_rows(x, rows, count) end

---The rest of take_rows with the first rows of `values` in the place of the taken ones.
---@param rest seqrun.Tensor
---@param rows seqrun.Tensor
---@param values seqrun.Tensor
---@param in_place? boolean overwrite x
---@return seqrun.Tensor
function ops.return_rows(rest, rows, values, in_place) end

---Fills with random numbers: uniform in [a, b), or normal with mean a and deviation b (truncated_normal: within two
---deviations).  With a seed or a uid a function of both, else the session's next draw.
---@param t seqrun.Tensor
---@param kind "uniform"|"normal"|"truncated_normal"
---@param a? number default 0
---@param b? number default 1
---@param options? { seed?: integer, uid?: integer }
---@return seqrun.Tensor
function ops.random_(t, kind, a, b, options) end

---Starts the session's random numbers again from this seed; at the start of a program the seed is 0.  Draws
---with a `seed` or `uid` of their own, initialisation, masking and dropout do not depend on it; nor is it saved in
---checkpoints.
---@param seed integer
function ops.manual_seed(seed) end

---The seed of the session's random numbers and how many were drawn; sets both if given.
---@param seed? integer
---@param draws? integer
---@return integer seed
---@return integer draws
function ops.random_state(seed, draws) end

---The keep probability of dropout with probability p: n/256.
---@param p number
---@return number
function ops.keep_probability(p) end

---Backpropagates from several tensors at once.
---@param roots seqrun.Tensor[]
---@param gradients seqrun.Tensor[]
---@param options? { retain?: boolean }
function ops.backward(roots, gradients, options) end

---The outputs with a history: backward(dy, ...) gives a gradient, or nil, for each input.
---@param outputs seqrun.Tensor[]
---@param inputs seqrun.Tensor[]
---@param backward fun(...: seqrun.Tensor): seqrun.Tensor? ...
---@param force? boolean
---@return seqrun.Tensor[]
function ops.record(outputs, inputs, backward, force) end

---Runs a function that a plug-in added; it writes the outputs.
---@param name string
---@param outputs seqrun.Tensor[]
---@param inputs seqrun.Tensor[]
---@param numbers? number[]
function ops.call(name, outputs, inputs, numbers) end

return ops

---@meta

---A handle of a tensor: dtype, shape and strides over a storage of a device.
---@class seqrun.Tensor
---@operator add(seqrun.Tensor|number): seqrun.Tensor
---@operator sub(seqrun.Tensor|number): seqrun.Tensor
---@operator mul(seqrun.Tensor|number): seqrun.Tensor
---@operator div(seqrun.Tensor|number): seqrun.Tensor
---@operator pow(seqrun.Tensor|number): seqrun.Tensor
---@operator unm: seqrun.Tensor
local Tensor = {}

---Absolute value.
---@return seqrun.Tensor
function Tensor:abs() end

---Square.
---@return seqrun.Tensor
function Tensor:square() end

---Square root.
---@return seqrun.Tensor
function Tensor:sqrt() end

---Reciprocal of the square root.
---@return seqrun.Tensor
function Tensor:rsqrt() end

---Reciprocal.
---@return seqrun.Tensor
function Tensor:reciprocal() end

---Exponential function.
---@return seqrun.Tensor
function Tensor:exp() end

---Natural logarithm.
---@return seqrun.Tensor
function Tensor:log() end

---Sine.
---@return seqrun.Tensor
function Tensor:sin() end

---Cosine.
---@return seqrun.Tensor
function Tensor:cos() end

---Hyperbolic tangent.
---@return seqrun.Tensor
function Tensor:tanh() end

---Logistic sigmoid, 1 / (1 + exp(-x)).
---@return seqrun.Tensor
function Tensor:sigmoid() end

---max(x, 0).
---@return seqrun.Tensor
function Tensor:relu() end

---GELU, x (1 + erf(x / sqrt 2)) / 2.
---@return seqrun.Tensor
function Tensor:gelu() end

---The tanh approximation of GELU.
---@return seqrun.Tensor
function Tensor:gelu_tanh() end

---SiLU, also called swish: x times its sigmoid.
---@return seqrun.Tensor
function Tensor:silu() end

---Error function.
---@return seqrun.Tensor
function Tensor:erf() end

---The sign: -1, 0 or 1.
---@return seqrun.Tensor
function Tensor:sign() end

---Rounds down to an integer.
---@return seqrun.Tensor
function Tensor:floor() end

---True where the element is 0.
---@return seqrun.Tensor
function Tensor:logical_not() end

---Elementwise minimum.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:minimum(other) end

---Elementwise maximum.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:maximum(other) end

---Elementwise ==.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:eq(other) end

---Elementwise !=.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:ne(other) end

---Elementwise <.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:lt(other) end

---Elementwise <=.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:le(other) end

---Elementwise >.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:gt(other) end

---Elementwise >=.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:ge(other) end

---Elementwise logical and.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:logical_and(other) end

---Elementwise logical or.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:logical_or(other) end

---Adds in place; returns self.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:add_(other) end

---Subtracts in place; returns self.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:sub_(other) end

---Multiplies in place; returns self.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:mul_(other) end

---Divides in place; returns self.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:div_(other) end

---Copies the values of another tensor, broadcast to this shape; returns self.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:copy_(other) end

---Sets every element; returns self.
---@param value number|boolean
---@return seqrun.Tensor
function Tensor:fill_(value) end

---Sets every element to 0; returns self.
---@return seqrun.Tensor
function Tensor:zero_() end

---Fills with uniform numbers in [a, b), keyed by seed and uid, else with a new key for each call; returns self.
---@param a? number
---@param b? number
---@param options? { seed?: integer, uid?: integer }
---@return seqrun.Tensor
function Tensor:uniform_(a, b, options) end

---Fills with normal numbers, keyed by seed and uid, else with a new key for each call; returns self.
---@param mean? number
---@param deviation? number
---@param options? { seed?: integer, uid?: integer }
---@return seqrun.Tensor
function Tensor:normal_(mean, deviation, options) end

---Sum over one dimension, or all.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:sum(dim, keep) end

---Mean over one dimension, or all.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:mean(dim, keep) end

---Maximum over one dimension, or all; equal maxima share the gradient.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:max(dim, keep) end

---Minimum over one dimension, or all; equal minima share the gradient.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:min(dim, keep) end

---Position (from 0) of the maximum along a dimension; the first on a tie.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:argmax(dim, keep) end

---Position (from 0) of the minimum along a dimension; the first on a tie.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:argmin(dim, keep) end

---The values in order along a dimension, and their positions from 0; equal values keep their order, NaN sorts as
---infinity.
---@param dim? integer default: the last
---@param descending? boolean
---@return seqrun.Tensor values
---@return seqrun.Tensor positions i32
function Tensor:sort(dim, descending) end

---The positions, from 0, that sort along a dimension.
---@param dim? integer default: the last
---@param descending? boolean
---@return seqrun.Tensor # i32
function Tensor:argsort(dim, descending) end

---The k largest values along a dimension in descending order, and their positions from 0.
---@param k integer
---@param dim? integer default: the last
---@param smallest? boolean the smallest instead, ascending
---@return seqrun.Tensor values
---@return seqrun.Tensor positions i32
function Tensor:topk(k, dim, smallest) end

---Running sums along a dimension.
---@param dim? integer default: the last
---@return seqrun.Tensor
function Tensor:cumsum(dim) end

---Variance over one dimension, or all.
---@param dim? integer
---@param keep? boolean
---@param correction? number subtracted from the count: 1 (the default) is the estimate from a sample, 0 the mean square
---@return seqrun.Tensor
function Tensor:var(dim, keep, correction) end

---Standard deviation over one dimension, or all: the square root of the variance.
---@param dim? integer
---@param keep? boolean
---@param correction? number
---@return seqrun.Tensor
function Tensor:std(dim, keep, correction) end

---One-hot vectors: one more dimension, of `classes` elements, which is 1 at the label and 0 elsewhere.
---Labels must be from 0 to classes - 1.
---@param classes integer
---@return seqrun.Tensor # of the device's compute dtype
function Tensor:one_hot(classes) end

---Softmax along a dimension, default the last.
---@param dim? integer
---@return seqrun.Tensor
function Tensor:softmax(dim) end

---Logarithm of the softmax along a dimension, default the last.
---@param dim? integer
---@return seqrun.Tensor
function Tensor:log_softmax(dim) end

---Matrix product (..., m, k) (..., k, n); batch dimensions are broadcast.
---@param other seqrun.Tensor
---@return seqrun.Tensor
function Tensor:matmul(other) end

---Gathers rows by an i32 tensor of indices, from 0.
---@param rows seqrun.Tensor
---@return seqrun.Tensor
function Tensor:index(rows) end

---The same elements in another shape; one size may be -1. Copies if the strides allow no view.
---@param ... integer|integer[]
---@return seqrun.Tensor
function Tensor:reshape(...) end

---Like reshape, but never copies: an error instead.
---@param ... integer|integer[]
---@return seqrun.Tensor
function Tensor:view(...) end

---Broadcasts sizes of 1 without copying; -1 keeps a size.
---@param ... integer|integer[]
---@return seqrun.Tensor
function Tensor:expand(...) end

---Permutes the dimensions.
---@param ... integer|integer[]
---@return seqrun.Tensor
function Tensor:permute(...) end

---Swaps two dimensions.
---@param a integer
---@param b integer
---@return seqrun.Tensor
function Tensor:transpose(a, b) end

---Transposes a matrix.
---@return seqrun.Tensor
function Tensor:t() end

---Removes dimensions of size 1, or this one.
---@param dim? integer
---@return seqrun.Tensor
function Tensor:squeeze(dim) end

---Inserts a dimension of size 1 at this position.
---@param dim integer
---@return seqrun.Tensor
function Tensor:unsqueeze(dim) end

---Positions start to start + length - 1 of a dimension.
---@param dim integer
---@param start integer
---@param length integer
---@return seqrun.Tensor
function Tensor:narrow(dim, start, length) end

---Position i of a dimension, which is removed; t[i] is select(1, i).
---@param dim integer
---@param i integer
---@return seqrun.Tensor
function Tensor:select(dim, i) end

---Self, or a row-major copy of a strided view.
---@return seqrun.Tensor
function Tensor:contiguous() end

---A copy in new memory.
---@return seqrun.Tensor
function Tensor:clone() end

---The same values without history.
---@return seqrun.Tensor
function Tensor:detach() end

---Converted to a dtype, or moved to a device.
---@param where string
---@return seqrun.Tensor
function Tensor:to(where) end

---Adds the gradient of this scalar (or of its product with `gradient`) to grad() of every leaf that it depends on.
---@param gradient? seqrun.Tensor|table
---@param options? { retain?: boolean }
function Tensor:backward(gradient, options) end

---The gradient accumulated at this leaf; that of a bf16 leaf is f32.
---@return seqrun.Tensor|nil
function Tensor:grad() end

---Makes a tensor of this shape the accumulator of the gradient; nil drops it.
---@param gradient? seqrun.Tensor
function Tensor:set_grad(gradient) end

---Sets the gradient to 0; returns self.
---@return seqrun.Tensor
function Tensor:zero_grad() end

---Whether ops on this tensor are recorded.
---@return boolean
function Tensor:requires_grad() end

---Makes it a leaf that requires a gradient; returns self.
---@param on? boolean
---@return seqrun.Tensor
function Tensor:requires_grad_(on) end

---The sizes as a list.
---@return integer[]
function Tensor:shape() end

---The size of one dimension, or all sizes.
---@param dim? integer
---@return integer ...
function Tensor:size(dim) end

---The number of dimensions.
---@return integer
function Tensor:dim() end

---The number of elements.
---@return integer
function Tensor:numel() end

---Its dtype: f64, f32, bf16, i32 or bool.
---@return string
function Tensor:dtype() end

---Its device.
---@return string
function Tensor:device() end

---False once its scope was closed or it was released.
---@return boolean
function Tensor:is_live() end

---Whether the elements are stored row-major without gaps.
---@return boolean
function Tensor:is_contiguous() end

---A counter that every write to its storage increments.
---@return integer
function Tensor:version() end

---Whether both are views of the same storage.
---@param other seqrun.Tensor
---@return boolean
function Tensor:same_storage(other) end

---Such as "(3, 4) f32 on cpu".
---@return string
function Tensor:describe() end

---Exempts its storage from scopes; returns self.
---@return seqrun.Tensor
function Tensor:keep() end

---Moves its storage to the scope around the innermost one; returns self.
---@return seqrun.Tensor
function Tensor:hand_up() end

---Releases the tensor at once, without waiting for the collector.
function Tensor:release() end

---The value of a tensor of one element.
---@return number|integer|boolean
function Tensor:item() end

---The elements as nested lists.
---@return table|number|boolean
function Tensor:totable() end

---The elements as bytes, little-endian.
---@return string
function Tensor:tostring_bytes() end

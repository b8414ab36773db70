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

---Magnitude of each element.
---@return seqrun.Tensor
function Tensor:abs() end

---Each element times itself.
---@return seqrun.Tensor
function Tensor:square() end

---Square root.
---@return seqrun.Tensor
function Tensor:sqrt() end

---One over the square root.
---@return seqrun.Tensor
function Tensor:rsqrt() end

---One over x.
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

---Logistic function 1 / (1 + exp(-x)).
---@return seqrun.Tensor
function Tensor:sigmoid() end

---The larger of x and 0.
---@return seqrun.Tensor
function Tensor:relu() end

---Activation x (1 + erf(x / sqrt 2)) / 2.
---@return seqrun.Tensor
function Tensor:gelu() end

---The tanh form of GELU.
---@return seqrun.Tensor
function Tensor:gelu_tanh() end

---Error function.
---@return seqrun.Tensor
function Tensor:erf() end

---Minus one, 0 or one.
---@return seqrun.Tensor
function Tensor:sign() end

---The next whole number below.
---@return seqrun.Tensor
function Tensor:floor() end

---True where the element is 0.
---@return seqrun.Tensor
function Tensor:logical_not() end

---The smaller of each pair.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:minimum(other) end

---The larger of each pair.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:maximum(other) end

---Where both are equal.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:eq(other) end

---Where they differ.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:ne(other) end

---Where self is smaller.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:lt(other) end

---Where self is not larger.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:le(other) end

---Where self is larger.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:gt(other) end

---Where self is not smaller.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:ge(other) end

---Where both are not 0.
---@param other seqrun.Tensor|number
---@return seqrun.Tensor
function Tensor:logical_and(other) end

---Where one is not 0.
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

---Takes over the values of another tensor, broadcast to this shape; returns self.
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

---Fills with uniform numbers in [a, b), keyed by seed and uid or, without them, drawn anew; returns self.
---@param a? number
---@param b? number
---@param options? { seed?: integer, uid?: integer }
---@return seqrun.Tensor
function Tensor:uniform_(a, b, options) end

---Fills with normal numbers, keyed by seed and uid or, without them, drawn anew; returns self.
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

---Largest over one dimension, or all; equal largest share the gradient.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:max(dim, keep) end

---Smallest over one dimension, or all; equal smallest share the gradient.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:min(dim, keep) end

---Position (from 0) of the largest along a dimension, the lowest on a tie.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:argmax(dim, keep) end

---Position (from 0) of the smallest along a dimension, the lowest on a tie.
---@param dim? integer
---@param keep? boolean
---@return seqrun.Tensor
function Tensor:argmin(dim, keep) end

---exp(x) over its sum along a dimension, default the last.
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

---The rows of these numbers, an i32 tensor that counts from 0.
---@param rows seqrun.Tensor
---@return seqrun.Tensor
function Tensor:index(rows) end

---The same elements in another shape, one size may be -1; copies when strides allow no view.
---@param ... integer|integer[]
---@return seqrun.Tensor
function Tensor:reshape(...) end

---As reshape, and an error instead of a copy.
---@param ... integer|integer[]
---@return seqrun.Tensor
function Tensor:view(...) end

---Stretches sizes of 1 without copying; -1 keeps a size.
---@param ... integer|integer[]
---@return seqrun.Tensor
function Tensor:expand(...) end

---The dimensions in another order.
---@param ... integer|integer[]
---@return seqrun.Tensor
function Tensor:permute(...) end

---Two dimensions swapped.
---@param a integer
---@param b integer
---@return seqrun.Tensor
function Tensor:transpose(a, b) end

---A matrix turned over.
---@return seqrun.Tensor
function Tensor:t() end

---Without dimensions of size 1, or without this one.
---@param dim? integer
---@return seqrun.Tensor
function Tensor:squeeze(dim) end

---With a new dimension of size 1 at this place.
---@param dim integer
---@return seqrun.Tensor
function Tensor:unsqueeze(dim) end

---Positions start to start + length - 1 of a dimension.
---@param dim integer
---@param start integer
---@param length integer
---@return seqrun.Tensor
function Tensor:narrow(dim, start, length) end

---Position i of a dimension, which goes; t[i] is select(1, i).
---@param dim integer
---@param i integer
---@return seqrun.Tensor
function Tensor:select(dim, i) end

---Self, or a row-major copy of a strided view.
---@return seqrun.Tensor
function Tensor:contiguous() end

---A copy with bytes of its own.
---@return seqrun.Tensor
function Tensor:clone() end

---The same values without history.
---@return seqrun.Tensor
function Tensor:detach() end

---Converted to a dtype, or moved to a device.
---@param where string
---@return seqrun.Tensor
function Tensor:to(where) end

---Adds the gradient of this scalar (or of its product with `gradient`) to grad() of every leaf behind it.
---@param gradient? seqrun.Tensor|table
---@param options? { retain?: boolean }
function Tensor:backward(gradient, options) end

---The gradient accumulated at this leaf; that of a bf16 leaf is f32.
---@return seqrun.Tensor|nil
function Tensor:grad() end

---Makes a tensor of this shape the place where the gradient collects; nil drops it.
---@param gradient? seqrun.Tensor
function Tensor:set_grad(gradient) end

---Sets the gradient to 0; returns self.
---@return seqrun.Tensor
function Tensor:zero_grad() end

---Whether ops on this tensor are recorded.
---@return boolean
function Tensor:requires_grad() end

---Makes it a leaf whose gradient is wanted; returns self.
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

---How many dimensions.
---@return integer
function Tensor:dim() end

---How many elements.
---@return integer
function Tensor:numel() end

---Its dtype: f64, f32, bf16, i32 or bool.
---@return string
function Tensor:dtype() end

---Where it lives.
---@return string
function Tensor:device() end

---False once its scope was closed or it was released.
---@return boolean
function Tensor:is_live() end

---Whether the elements lie row-major without gaps.
---@return boolean
function Tensor:is_contiguous() end

---A number that every write to its storage raises.
---@return integer
function Tensor:version() end

---Whether both are views of the same bytes.
---@param other seqrun.Tensor
---@return boolean
function Tensor:same_storage(other) end

---Such as "(3, 4) f32 on cpu".
---@return string
function Tensor:describe() end

---No scope will take its storage; returns self.
---@return seqrun.Tensor
function Tensor:keep() end

---The scope around the innermost one will take its storage; returns self.
---@return seqrun.Tensor
function Tensor:hand_up() end

---Lets go of the tensor now instead of when the collector comes.
function Tensor:release() end

---The value of a tensor of one element.
---@return number|integer|boolean
function Tensor:item() end

---The elements as nested lists.
---@return table|number|boolean
function Tensor:totable() end

---The elements as they lie in memory, little end first.
---@return string
function Tensor:tostring_bytes() end

---Which rows of a token buffer belong to which sequence, and the keys of their random decisions.
---@class seqrun.Layout
local Layout = {}

---T, slack included.
---@return integer
function Layout:rows() end

---N.
---@return integer
function Layout:sequences() end

---Sum of the lengths.
---@return integer
function Layout:tokens() end

---Sum of the squared lengths: what attention costs.
---@return integer
function Layout:squares() end

---Key of every random decision about these rows.
---@return integer
function Layout:seed() end

---Length of each sequence.
---@return integer[]
function Layout:lengths() end

---First row of each sequence, from 0.
---@return integer[]
function Layout:starts() end

---Example number of each sequence.
---@return integer[]
function Layout:uids() end

---Epoch of each sequence.
---@return integer[]
function Layout:epochs() end

---Position of every row in its sequence, from 0; 0 for slack.
---@return integer[]
function Layout:positions() end

---Sequence of every row, from 0; -1 for slack.
---@return integer[]
function Layout:owners() end

---The layout of some rows: the same sequences and keys, fewer rows, one after another.  The rows are given, or
---drawn: max(forced, round(share * length)) positions of each sequence, keyed by its uid and epoch, the seed and the
---layer, so that packing changes nothing.  Drawn rows come as a tensor for gather_rows and put_rows.
---@param rows integer[]|{ share: number, layer?: integer, first?: boolean, last?: boolean, rows?: integer[] } rows
---  from 0, in any order; first, last: keep these tokens of every sequence; rows: keep these rows too
---@return seqrun.Layout
---@return integer[]|seqrun.Tensor rows in the order of the new layout
function Layout:shorten(rows) end

---Lets go of the layout now.
function Layout:release() end

---Owns what is made on a device while it is open; a to-be-closed value.
---@class seqrun.Scope
local Scope = {}

---Expires its tensors and gives their bytes back; twice is allowed.
function Scope:close() end

---Handles of tensors, their devices and scopes.
---@class seqrun.core.tensor
---@field methods table<string, function> of every tensor
---@field layout_methods table<string, function> of every layout
---@field metatable table of every tensor
local tensor = {}

---Makes a device the current one.
---@param name string
---@param threads? integer
function tensor.use(name, threads) end

---The current device.
---@return string
function tensor.device() end

---The devices of this build.
---@return string[]
function tensor.devices() end

---Bytes in live tensors, with the pool, the most so far; blocks asked of the system.
---@param device? string
---@return { used: integer, held: integer, peak: integer, allocations: integer }
function tensor.memory(device) end

---Gives the pool's free blocks back to the system.
---@param device? string
function tensor.trim(device) end

---For tests: new tensors are full of NaN.
---@param on boolean
---@param device? string
function tensor.poison(on, device) end

---Waits until all work given to the device is done.  Raises the first error that it met since the last wait,
---such as an index out of range.
---@param device? string default: the current device
function tensor.synchronize(device) end

---How often the host waited for the device so far (to read from it, or by `synchronize`), and sent memory to it.
---@param device? string
---@return { waits: integer, uploads: integer }
function tensor.transfers(device) end

---Loads a plug-in, a shared library that brings devices; loading it again does nothing.
---@param path string
---@return string[]|nil devices that it added
---@return string? message
---@return string? code
function tensor.plugin(path) end

---The class of instructions that the cpu device computes with; results have the same bits within one.
---@return "plain"|"avx2"|"avx512"
function tensor.instructions() end

---How many threads the device computes on.
---@param device? string
---@return integer
function tensor.threads(device) end

---Opens a scope inside the innermost one.
---@param device? string
---@return seqrun.Scope
function tensor.scope(device) end

---Whether ops are recorded.
---@return boolean
function tensor.recording() end

---Turns recording on or off; returns what it was.
---@param on boolean
---@return boolean before
function tensor.set_recording(on) end

---A tensor whose contents are not set.
---@param sizes integer[]
---@param dtype? string
---@param device? string
---@return seqrun.Tensor
function tensor.empty(sizes, dtype, device) end

---A tensor of one value.
---@param sizes integer[]
---@param value number|boolean
---@param dtype? string
---@param device? string
---@return seqrun.Tensor
function tensor.full(sizes, value, dtype, device) end

---A tensor of a number or nested lists.
---@param values number|boolean|table
---@param dtype? string
---@param device? string
---@return seqrun.Tensor
function tensor.from_table(values, dtype, device) end

---A tensor of elements as they lie in memory, little end first.
---@param bytes string
---@param sizes integer[]
---@param dtype string
---@param device? string
---@return seqrun.Tensor
function tensor.from_string(bytes, sizes, dtype, device) end

---Statistics of the finite elements, and how many are not finite.
---@param t seqrun.Tensor
---@return { mean?: number, deviation?: number, min?: number, max?: number, nan: integer, inf: integer }
function tensor.summary(t) end

---A layout made by hand.
---@param fields { lens: integer[], starts?: integer[], uids?: integer[], epochs?: integer[], rows?: integer, seed?: integer }
---@return seqrun.Layout
function tensor.layout(fields) end

return tensor

---@meta

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

---The devices of all loaded backends; others, such as "cuda", are loaded when they are named.
---@return string[]
function tensor.devices() end

---What is known of a device, open or not; the table is empty where its backend reports nothing.
---@param name string
---@return { model?: string, arch?: string, driver?: string, runtime?: string, memory?: integer, free?: integer, reserved?: integer, problem?: string }|nil
---@return string? message
---@return string? code
function tensor.describe(name) end

---Bytes of an element in the dtype that the device computes in: of f64 on ref, of f32 on the others.
---@param device? string
---@return integer
function tensor.element_size(device) end

---Bytes in live tensors (used), with the pool (held), and at the peak; blocks allocated from the system.
---@param device? string
---@return { used: integer, held: integer, peak: integer, allocations: integer }
function tensor.memory(device) end

---Returns the pool's free blocks to the system.
---@param device? string
function tensor.trim(device) end

---For tests: new tensors are full of NaN.
---@param on boolean
---@param device? string
function tensor.poison(on, device) end

---Waits until all work given to the device is done.  Raises the first error since the last wait,
---such as an index out of range.
---@param device? string default: the current device
function tensor.synchronize(device) end

---How often the host waited for the device so far (to read from it, or by `synchronize`), and sent memory to it.
---@param device? string
---@return { waits: integer, uploads: integer }
function tensor.transfers(device) end

---Turns an option of the current device on or off.
---@param name "tf32"|"any_order"
---@param on boolean
---@return true|nil
---@return string? message
---@return string? code
function tensor.option(name, on) end

---What the current device has chosen by timing, where that changes bits (core/base/choices.h).
---@param from? integer only those after the first `from`
---@return string|nil text nil if there are none after the first `from`, and for a device that chooses nothing
---@return integer|nil count of all; nil for a device that chooses nothing
function tensor.choices(from) end

---Makes the current device choose as a text says, whatever its cache says.
---@param text string of `choices`
---@return true|nil
---@return string? message
---@return string? code "device": these choices are for another GPU or library
function tensor.pin_choices(text) end

---Records the work of the current device, and queues or drops it as one piece.
---@param what "begin"|"run"|"drop" the last two do nothing without a "begin"
---@return true|nil
---@return string? message
---@return string? code
function tensor.capture(what) end

---Loads a plug-in, a shared library that adds devices or engines of ranks; loading it again does nothing.
---@param path string
---@return string[]|nil devices that it added
---@return string? message
---@return string? code
function tensor.plugin(path) end

---The engines of ranks: "self", a world of one, then those of plug-ins.
---@return string[]
function tensor.comms() end

---The instruction set of the cpu device; results are bit-exact within one.
---@param set? string makes the device use this one from now on, if the processor and SEQRUN_ISA allow it
---@return "plain"|"avx2"|"avx512"|"avx512_bf16"|"amx"|nil
---@return string? message why each higher one is not used; or why `set` cannot be
---@return string? code
function tensor.instructions(set) end

---Multiply-adds in registers on all threads of the current device, which must be cpu; to be timed.
---@param rounds integer 12 vectors each
---@param dtype? "f32"|"bf16"
---@return number|nil flops 0 if the instruction set has no such probe
---@return string? message
---@return string? code
function tensor.burst(rounds, dtype) end

---Calls fn; the processor time of each task of each job that the current device, cpu with one thread, ran meanwhile.
---`whole` of a job is its time together with that of the recording.
---@param fn fun()
---@return number[][]|nil seconds
---@return string? message
---@return string? code
function tensor.jobs(fn) end

---The number of threads of the device.
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

---Turns recording on or off; returns the previous state.
---@param on boolean
---@return boolean before
function tensor.set_recording(on) end

---An uninitialised tensor.
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

---A tensor from bytes, little-endian.
---@param bytes string
---@param sizes integer[]
---@param dtype string
---@param device? string
---@return seqrun.Tensor
function tensor.from_string(bytes, sizes, dtype, device) end

---Statistics of the finite elements, and the counts of the others.
---@param t seqrun.Tensor
---@return { mean?: number, deviation?: number, min?: number, max?: number, nan: integer, inf: integer }
function tensor.summary(t) end

---A layout from lists.
---@param fields { lens: integer[], starts?: integer[], uids?: integer[], epochs?: integer[], rows?: integer, seed?: integer }
---@return seqrun.Layout
function tensor.layout(fields) end

return tensor

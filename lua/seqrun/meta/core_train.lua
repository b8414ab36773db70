---@meta

---Parameters, optimizers, checkpoints and records; a thin layer over core/train.
---@class seqrun.core.train
local train = {}

---A store of parameters on the current device, all zero.
---@param list { name: string, shape: integer[], init?: string, std?: number, pad_rows_to?: integer, fuse?: string }[]
---@return seqrun.core.Params
function train.params(list) end

---The sum over the shares of an update; see Params:begin_update.
---@param params seqrun.core.Params
---@return seqrun.core.Shares
function train.shares(params) end

---The sums of shares that a rank holds during an update.
---@param total integer shares of the update
---@param rank integer from 0
---@param ranks integer
---@param joined? boolean the sum with its last share stays in the gradients
---@return integer own the most that wait beside its gradients
---@return integer left those that it leaves for other ranks
function train.share_sums(total, rank, ranks, joined) end

---The sum of shares over ranks; see Params:share_with.
---@param shares seqrun.core.Shares
---@param world seqrun.core.World
---@param options { library?: boolean, sharded?: boolean, overlap?: boolean, bucket?: integer } bucket: elements
---@return seqrun.core.Exchange
function train.exchange(shares, world, options) end

---An optimizer over a store, with zero moments.
---@param params seqrun.core.Params
---@param opts { method?: "adamw"|"lamb"|"stable_adamw"|"muon", beta1?: number, beta2?: number, momentum?: number, nesterov?: boolean, eps?: number, power?: number, average?: number, clip_eps?: boolean, max_skipped?: integer, first?: integer, last?: integer } first, last: the elements of the store that it owns; average: decay of a moving average of the values
---@param segments { rate?: number, decay?: number, trust?: boolean, frozen?: boolean, rows?: integer, columns?: integer, scale?: number }[] one for each parameter, or for each matrix of Muon in it, from the top; rows, columns, scale: of a matrix of Muon
---@return seqrun.core.Optim
function train.optim(params, opts, segments) end

---The elements of the store that the optimizer of a rank owns: cut between chunks, about as many for each.
---@param params seqrun.core.Params
---@param rank integer from 0
---@param ranks integer
---@return integer first from 0
---@return integer last one past the last
function train.cut(params, rank, ranks) end

---An optimizer that is sharded over the ranks of a world; it keeps both alive.
---@param optim seqrun.core.Optim which owns the range of this rank
---@param world seqrun.core.World
---@return seqrun.core.Sharded
function train.sharded(optim, world) end

---A second copy of the state of an optimizer, which it keeps alive: weights, moments and counts of steps.
---@param optim seqrun.core.Optim
---@return seqrun.core.Twin|nil
---@return string? message
---@return string? code
function train.twin(optim) end

---Hashes of chunks of the store in order, 8 bytes each: those in elements [first, last), by default all that this
---optimizer has.
---@param optim seqrun.core.Optim
---@param what "gradient"|"weights"|"copies"|"m"|"v"|"average"
---@param first? integer from 0
---@param last? integer
---@return string
function train.state_hashes(optim, what, first, last) end

---Chunks of the parameters before number i; of all with i = count + 1.
---@param params seqrun.core.Params
---@param i integer
---@return integer
function train.hash_before(params, i) end

---Opens a safetensors file and checks its header.
---@param path string
---@param header_limit? integer bytes
---@return seqrun.core.Safetensors|nil
---@return string? message
---@return string? code
function train.safetensors(path, header_limit) end

---Plans a safetensors file of contiguous tensors; the same tensors give the same bytes.
---@param tensors table<string, seqrun.Tensor>
---@param metadata? table<string, string>
---@return seqrun.core.SafetensorsPlan
function train.safetensors_plan(tensors, metadata) end

---Makes a run's directory, takes its lock and removes leftovers of dead runs.
---@param path string
---@return seqrun.core.RunDir|nil
---@return string? message
---@return string? code "lock" when another run holds it
function train.run_dir(path) end

---Whether a live process holds the lock of a run's directory.
---@param path string
---@return boolean? held
---@return string? message
---@return string? code
function train.run_held(path) end

---The directory of a step's checkpoint.
---@param run string
---@param step integer
---@return string
function train.checkpoint_path(run, step) end

---The steps of which a run has a directory, ascending, verified or not.
---@param run string
---@return integer[]|nil
---@return string? message
---@return string? code
function train.checkpoint_list(run) end

---Reads a whole checkpoint and compares it with its manifest.
---@param path string
---@return integer|nil step
---@return string? message
---@return string? code
function train.checkpoint_verify(path) end

---The newest checkpoint that verifies; newer ones that are damaged are named by warnings, one that cannot be read is an
---error.
---@param run string
---@return string|nil path
---@return integer|string step or message
---@return string? code
function train.checkpoint_latest(run) end

---Removes checkpoints older than `newest`, except the newest `keep` and the multiples of `every`.
---@param run string
---@param newest integer
---@param keep integer at least 2
---@param every? integer
---@return true|nil
---@return string? message
---@return string? code
function train.checkpoint_retain(run, newest, keep, every) end

---Renames the checkpoints after `step`, so that nothing loads them.
---@param run string
---@param step integer
---@return true|nil
---@return string? message
---@return string? code
function train.checkpoint_set_aside(run, step) end

---Begins a checkpoint in a run's directory.
---@param run string
---@param step integer
---@param bytes integer of all its files
---@return seqrun.core.Saving|nil
---@return string? message
---@return string? code
function train.saving(run, step, bytes) end

---For checkpoints of a run that are written in the background.
---@param run string
---@return seqrun.core.Background
function train.background(run) end

---Takes part in a checkpoint that another process has begun.
---@param draft string its temporary directory
---@param step integer
---@return seqrun.core.Saving|nil
---@return string? message
---@return string? code
function train.saving_join(draft, step) end

---Opens a file that grows by whole records, truncated to `size` bytes if it is longer.
---@param path string
---@param size? integer
---@return seqrun.core.Append|nil
---@return string? message
---@return string? code
function train.append(path, size) end

---Creates a TensorBoard event file in a directory.
---@param folder string
---@param wall number seconds since 1970
---@param first_step? integer of a resumed run
---@return seqrun.core.Events|nil
---@return string? message
---@return string? code
function train.events(folder, wall, first_step) end

---CRC-32C (Castagnoli).
---@param bytes string
---@return integer
function train.crc32c(bytes) end

---A store of parameters; parameters are counted from 1 in the order of the list.
---@class seqrun.core.Params
local Params = {}

---The parameter as a leaf; its grad is a view of the gradient store.
---@param i integer
---@return seqrun.Tensor
function Params:get(i) end

---The values of a parameter, which the optimizer updates and checkpoints hold.
---@param i integer
---@return seqrun.Tensor
function Params:master(i) end

---After writes to masters: updates the copies that ops read.
function Params:refresh() end

---All members of a fuse group as one leaf.
---@param name string
---@return seqrun.Tensor
function Params:fused(name) end

---The flat store of values, padding included.
---@return seqrun.Tensor
function Params:value() end

---The flat store of gradients.
---@return seqrun.Tensor
function Params:grad() end

---The range of a parameter in the stores: first element from 0, elements, elements with padding.
---@param i integer
---@return integer offset
---@return integer size
---@return integer stored
function Params:place(i) end

---Elements without padding, and elements of a store.
---@return integer
---@return integer
function Params:elements() end

---Writes the initial values of all parameters, or of one.
---@param seed integer
---@param i? integer
function Params:initialise(seed, i) end

---Parameter i belongs to one owner wherever the store is cut over ranks.
---@param i integer
function Params:keep_whole(i) end

---Clears all gradients.
function Params:zero_grad() end

---Frees the store; tensors held elsewhere stay live.
function Params:release() end

---The gradient of an update, summed over its shares.
---@class seqrun.core.Shares
local Shares = {}

---Begins an update of `total` shares.
---@param total integer
function Shares:begin(total) end

---Completes share number i, whose gradient is in the gradient store.
---@param i integer from 1
function Shares:end_share(i) end

---Adds up the remaining partial sums and ends the update.
function Shares:finish() end

---Drops the partial sums and ends the update.
function Shares:drop() end

---Frees the memory.
function Shares:release() end

---The gradient of an update, summed over the ranks of a world; all of them make the same calls.
---@class seqrun.core.Exchange
local Exchange = {}

---A micro-batch begins; `last` is the last share of this rank, if it ends with it.
---@param total integer shares of the update
---@param last? integer from 1
---@return true|nil
---@return string? message
---@return string? code
function Exchange:batch(total, last) end

---The micro-batches of this rank have ended: sends what has not been sent, with the share that is in the gradients.
---@param total integer
---@param last? integer from 1
---@return true|nil
---@return string? message
---@return string? code
function Exchange:rest(total, last) end

---Ends an update of `total` shares: the gradients of this rank's piece of the store are its sum.
---@param total integer
---@return true|nil
---@return string? message
---@return string? code
function Exchange:reduce(total) end

---After reduce: all gradients, on all ranks.
---@return true|nil
---@return string? message
---@return string? code
function Exchange:gather() end

---Frees the memory.
function Exchange:release() end

---An optimizer; it keeps its parameters alive.
---@class seqrun.core.Optim
local Optim = {}

---One step with the gradients in the store.
---@param rate number
---@param clip number 0: none
---@param loss? seqrun.Tensor scalar that must be finite
---@return true|nil
---@return string? message
---@return string? code "numeric" when too many steps in a row were skipped
function Optim:step(rate, clip, loss) end

---Waits for the results of all pending steps.
---@return true|nil
---@return string? message
---@return string? code "numeric" when too many steps in a row were skipped
function Optim:read_results() end

---The result of a step that was read.
---@param serial integer counts the steps, from 1
---@return { serial: integer, norm: number, finite: boolean, applied: boolean } zeros if the step is long past
function Optim:result(serial) end

---How many steps are pending, and how many may be.
---@return integer pending
---@return integer room
function Optim:pending() end

---Steps applied, steps skipped, steps skipped in a row, and steps that moved the average.
---@return integer
---@return integer
---@return integer
---@return integer
function Optim:counts() end

---Restores the counts of a checkpoint.
---@param applied integer
---@param skipped integer
---@param in_a_row integer
---@param power? number of the betas
---@param averaged? integer default 0
function Optim:set_counts(applied, skipped, in_a_row, power, averaged) end

---The part of the moments of a parameter that this optimizer owns, as flat views; nothing if it owns none.
---@param i integer
---@return seqrun.Tensor? m
---@return seqrun.Tensor? v
---@return integer? first element of the parameter, from 0
---@return integer? last one past the last element
function Optim:piece(i) end

---The part of the average of a parameter that this optimizer owns, as a flat view; nothing if there is none.
---@param i integer
---@return seqrun.Tensor? average
---@return integer? first element of the parameter, from 0
---@return integer? last one past the last element
function Optim:average_piece(i) end

---Whether later steps move the average.
---@param on boolean
function Optim:set_averaging(on) end

---The values and their average change places, with what ops read.
---@return true|nil
---@return string? message
---@return string? code
function Optim:swap_average() end

---The elements of the store that this optimizer owns.
---@return integer first from 0
---@return integer last one past the last
function Optim:range() end

---Frees the moments.
function Optim:release() end

---An optimizer of which each rank owns a range.
---@class seqrun.core.Sharded
local Sharded = {}

---One step; all ranks make it, each with the gradients of its range.
---@param rate number
---@param clip number 0: none
---@param loss? seqrun.Tensor scalar of this rank that must be finite
---@return true|nil
---@return string? message
---@return string? code "numeric" when too many steps in a row were skipped; "peer" when another rank failed
function Sharded:step(rate, clip, loss) end

---The values and their average change places on all ranks; all ranks call it.
---@return true|nil
---@return string? message
---@return string? code
function Sharded:swap_average() end

---Makes the masters of a bf16 copy whole on rank 0; all ranks call it.
---@return true|nil
---@return string? message
---@return string? code
function Sharded:gather() end

---Frees the buffers.
function Sharded:release() end

---A run's directory, locked.
---@class seqrun.core.RunDir
local RunDir = {}

---Releases the lock.
function RunDir:close() end

---A second copy of the state of an optimizer; results of its steps must have been read before each call.
---@class seqrun.core.Twin
local Twin = {}

---The twin becomes a copy of the state.
function Twin:take() end

---The twin and the state change places.
function Twin:swap() end

---The first difference between the two; nil if there is none.
---@return { what: string, param: integer, element: integer, elements: integer }|nil
function Twin:compare() end

---Frees the copy.
function Twin:release() end

---A file that grows by whole records.
---@class seqrun.core.Append
local Append = {}

---Appends a record, whole or not at all.
---@param record string
---@return true|nil
---@return string? message
---@return string? code
function Append:write(record) end

---Syncs the file: its records survive a power cut.
---@return true|nil
---@return string? message
---@return string? code
function Append:sync() end

---Closes the file.
function Append:close() end

---Tells of work that does not end, while it does not.
---@class seqrun.core.Alarm
local Alarm = {}

---Tells in some seconds, if it is not armed again or disarmed before.
---@param seconds number
---@param warning string for standard error
---@param record string for the file
---@param command? string for sh
---@return true|nil
---@return string? message
---@return string? code
function Alarm:arm(seconds, warning, record, command) end

---Whether it has told since it was armed; it is armed no more.
---@return boolean
function Alarm:disarm() end

---Ends it.
function Alarm:close() end

---An alarm that writes its records to a file of append(); it is closed with the file at the latest.
---@param file seqrun.core.Append
---@return seqrun.core.Alarm|nil
---@return string? message
---@return string? code
function train.alarm(file) end

---A TensorBoard event file.
---@class seqrun.core.Events
local Events = {}

---One record with some scalars, at most 64.
---@param wall number
---@param step integer
---@param scalars table<string, number>
---@return true|nil
---@return string? message
---@return string? code
function Events:scalars(wall, step, scalars) end

---One record with a text.
---@param wall number
---@param step integer
---@param tag string
---@param text string
---@return true|nil
---@return string? message
---@return string? code
function Events:text(wall, step, tag, text) end

---Closes the file.
function Events:close() end

return train

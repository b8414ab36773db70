---@meta

---Loaders, and the updates they make.
---@class seqrun.core.batch
local batch = {}

---A loader; it keeps its data set alive.
---@class seqrun.core.batch.loader
local loader = {}

---The examples that metrics have unlocked, and draws from them.
---@class seqrun.core.batch.sampler
local sampler = {}

---An update: batches whose weights carry the denominators of the whole.
---@class seqrun.core.batch.update
local update = {}

---Words and phrases that loaders mask as a whole.
---@class seqrun.core.batch.concepts
local concepts = {}

---Opens a loader and builds its first epoch; for the options see seqrun.LoaderOptions.
---@param dataset seqrun.core.data.dataset
---@param options table
---@return seqrun.core.batch.loader? loader
---@return string? message
---@return string? code
function batch.loader(dataset, options) end

---Where i goes in the keyed order of an epoch, a permutation of 0 to count - 1.
---@param i integer from 0
---@param count integer
---@param seed integer
---@param epoch integer
---@return integer
function batch.permuted(i, count, seed, epoch) end

---A table of concepts: forms, which are sequences of tokens of the data set's tokenizer, with the stage of each, from 1.
---@param dataset seqrun.core.data.dataset
---@param ids integer[] of all forms, one after the other
---@param lengths integer[] tokens of each form
---@param stages integer[] of each form
---@return seqrun.core.batch.concepts? concepts
---@return string? message
---@return string? code
function batch.concepts(dataset, ids, lengths, stages) end

---How often each form is found in a part of a data set: the longest one at each word.
---@param dataset seqrun.core.data.dataset
---@param part? "train"|"held"
---@return integer[]? counts
---@return string? message
---@return string? code
function concepts:counts(dataset, part) end

---Stops the workers and frees the memory.
function loader:close() end

---The next update; nil alone after the last epoch.
---@return seqrun.core.batch.update? update
---@return string? message
---@return string? code
function loader:next() end

---Where the next update begins.
---@return seqrun.Cursor
function loader:cursor() end

---Goes to a cursor.
---@param cursor table
---@return true? done
---@return string? message
---@return string? code
function loader:seek(cursor) end

---By order: queues the order of one more update.
---@param uids integer[]
---@param ends? integer[] where each group of uids ends; nil: every sequence is a group
---@param max_len? integer
---@return true? done
---@return string? message
---@return string? code
function loader:push(uids, ends, max_len) end

---The figures of an epoch's plan and examples.
---@param epoch? integer
---@return table? figures
---@return string? message
---@return string? code
function loader:plan(epoch) end

---The plan of an epoch as text.
---@param epoch? integer
---@return string? text
---@return string? message
---@return string? code
function loader:plan_text(epoch) end

---Tokens of each example of an epoch, by uid + 1.
---@param epoch? integer
---@return integer[]? lengths
---@return string? message
---@return string? code
function loader:lengths(epoch) end

---The origin of a fixed example of an epoch: its number in the data set (from 1), the number of its tokens before
---this piece, and with such columns its source and its offset there.
---@param uid integer
---@param epoch? integer
---@return { example: integer, first: integer, source?: integer, offset?: integer }
function loader:origin(uid, epoch) end

---A sampler of an epoch, with nothing unlocked; everything if there are no metrics.
---@param metrics (seqrun.core.metric.metric|false)[] false is a random order
---@param reversed boolean[]
---@param epoch? integer the first by default
---@return seqrun.core.batch.sampler? sampler
---@return string? message
---@return string? code
function loader:sampler(metrics, reversed, epoch) end

---By order: queues the updates of a window; see seqrun.Window.
---@param own seqrun.core.batch.sampler that has unlocked what the window draws from
---@param window table
---@return { update: integer, sequences: integer, raw_tokens: integer, real_tokens: integer }? totals after it
---@return string? message
---@return string? code
function loader:push_window(own, window) end

---Seconds that next() waited, in all.
---@return number
function loader:waited() end

---An update of the chosen examples of an epoch, in this order.
---@param uids integer[]
---@param epoch integer
---@param arrange "packed"|"padded"|"single"
---@return seqrun.core.batch.update? update
---@return string? message
---@return string? code
function loader:update_of(uids, epoch, arrange) end

---Frees the memory.
function sampler:close() end

---Unlocks the first `prefixes[i]` examples of the order of metric i.
---@param prefixes integer[]
---@return integer? unlocked
---@return string? message
---@return string? code
function sampler:unlock(prefixes) end

---How many examples all metrics have unlocked.
---@return integer
function sampler:unlocked() end

---How many examples there are.
---@return integer
function sampler:examples() end

---Tokens of what is unlocked, cut to the limit (0: not cut) or into pieces.
---@param limit integer
---@param pieces? boolean
---@return integer
function sampler:tokens(limit, pieces) end

---How many updates from `from` on draw n each without repetition.
---@param from integer update
---@param n integer
---@return integer
function sampler:run(from, n) end

---The draws of `updates` updates.
---@param from integer update
---@param n integer of each
---@param updates? integer 1
---@return integer[] uids
function sampler:draw(from, n, updates) end

---Its tallies, and the cursors before (from) and after it (upto).
---@return table
function update:info() end

---The tallies of batch i, from 1, its epoch, and the facts of its targets: { name, reads, count, denominator }.
---@param i integer
---@return table
function update:batch(i) end

---The layout of batch i.
---@param i integer
---@return seqrun.Layout
function update:layout(i) end

---The layout of the rows that the targets of batch i need; nothing without targets.
---@param i integer
---@return seqrun.Layout?
function update:last_layout(i) end

---The tensors of batch i, on the current device in the open scope, transferred as one block: ids, types, original_ids
---(when the loader keeps them), last_rows (with targets), and for each target its rows, places, labels, weights.
---@param i integer
---@return { ids: seqrun.Tensor, types: seqrun.Tensor, original_ids?: seqrun.Tensor, last_rows?: seqrun.Tensor,
---  targets: { rows: seqrun.Tensor, places: seqrun.Tensor, labels: seqrun.Tensor, weights: seqrun.Tensor }[] }
function update:upload(i) end

---Sets a target that a Lua function makes; then finish().
---@param i integer the batch, from 1
---@param number integer of the target, from 1
---@param rows integer[]
---@param labels number[]
function update:set_target(i, number, rows, labels) end

---Weighs targets that Lua functions made, and finds the rows they need.
function update:finish() end

---Numbers of a micro-batch, without a device; nil if it has none.  separators: the last row of each segment.
---@param i integer
---@param what "ids"|"types"|"original_ids"|"separators"
---@return integer[]?
function update:host(i, what) end

---Rows that a target reads, without a device; nil without such a target.
---@param i integer
---@param target string
---@return integer[]?
function update:host_rows(i, target) end

return batch

---@meta

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

---Sum of the squared lengths, the cost of attention at any distance.
---@return integer
function Layout:squares() end

---Pairs of a query and a key of one sequence that attention keeps: the cost of attention with these options.
---@param window? integer only |i - j| <= window
---@param causal? boolean only j <= i
---@return integer
function Layout:scores(window, causal) end

---Seed of the random decisions about these rows.
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

---The layout of some rows: the same sequences and keys, fewer rows, contiguous.  The rows are given, or
---sampled: max(forced, round(fraction * length)) positions of each sequence, keyed by its uid and epoch, the seed and the
---layer, so that packing does not change them.  Sampled rows are returned as a tensor for ops.on_rows.
---@param rows integer[]|{ fraction: number, layer?: integer, layers?: integer, first?: boolean, last?: boolean,
---  rows?: integer[], unit?: integer } rows
---  from 0, in any order; first, last: keep these tokens of every sequence; rows: keep these rows too; layers: draw for
---  this number of layers, which share the layout; unit: the layout has a multiple of this number of rows
---@return seqrun.Layout
---@return integer[]|seqrun.Tensor rows in the order of the new layout; with layers: (layers, M)
function Layout:shorten(rows) end

---Releases the layout at once.
function Layout:release() end

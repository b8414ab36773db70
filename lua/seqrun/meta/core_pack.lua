---@meta

---Packing: histograms, solvers, plans, certificates and instances.
---@class seqrun.core.pack
local pack = {}

---How many sequences there are of each length.
---@class seqrun.core.pack.Histogram
local Histogram = {}

---Which lengths share a pack, and how often.
---@class seqrun.core.pack.Plan
local Plan = {}

---A proof that no packing needs fewer packs.
---@class seqrun.core.pack.Certificate
local Certificate = {}

---A plan bound to a list of sequences; `#packing` is the number of packs in an epoch.
---@class seqrun.core.pack.Packing
---@operator len: integer
local Packing = {}

---@alias seqrun.PackOptions { solver?: string, max_seqs?: integer, iterations?: integer, seconds?: number, seed?: integer, open?: integer }

---The names of all solvers, the default first.
---@return string[]
function pack.solvers() end

---Counts lengths; `too_long` decides about those above max_len.
---@param lengths integer[]|string
---@param max_len integer
---@param too_long? "error"|"truncate"|"split"
---@return seqrun.core.pack.Histogram? histogram
---@return string? message
---@return string? code
function pack.count(lengths, max_len, too_long) end

---The pieces that too_long = "split" makes of these lengths, in the order of the sequences: for each its length,
---uid and first token, the last two from 0.
---@param lengths integer[]|string
---@param max_len integer
---@return integer[]? pieces
---@return integer[]|string uids
---@return integer[]|string starts
function pack.split(lengths, max_len) end

---A histogram from counts: counts[l] sequences of l tokens.
---@param counts integer[]
---@param max_len integer
---@param too_long? "error"|"truncate"|"split"
---@return seqrun.core.pack.Histogram? histogram
---@return string? message
---@return string? code
function pack.histogram(counts, max_len, too_long) end

---Reads a .hist file; max_len is the number of its lines when nil.
---@param path string
---@param max_len? integer
---@param too_long? "error"|"truncate"|"split"
---@return seqrun.core.pack.Histogram? histogram
---@return string? message
---@return string? code
function pack.load_histogram(path, max_len, too_long) end

---Packs a histogram; raises for an unknown solver or a depth that it does not support.
---@param histogram seqrun.core.pack.Histogram
---@param options? seqrun.PackOptions
---@return seqrun.core.pack.Plan? plan
---@return string? message
---@return string? code
function pack.solve(histogram, options) end

---Packs a stream of lengths in order of arrival: best fit over options.open packs.
---@param lengths integer[]|string
---@param max_len integer
---@param options? seqrun.PackOptions
---@param too_long? "error"|"truncate"|"split"
---@return seqrun.core.pack.Plan? plan
---@return string? message
---@return string? code
function pack.online(lengths, max_len, options, too_long) end

---Makes a plan of given patterns, { count = packs, length, length, ... } each, and checks it.
---@param histogram seqrun.core.pack.Histogram
---@param patterns table[]
---@param options? { solver?: string, max_seqs?: integer }
---@return seqrun.core.pack.Plan? plan
---@return string? message
---@return string? code
function pack.plan(histogram, patterns, options) end

---Reads a plan file.
---@param path string
---@return seqrun.core.pack.Plan? plan
---@return string? message
---@return string? code
function pack.load(path) end

---Reads the text of a plan; `name` replaces the path in messages.
---@param text string
---@param name? string
---@return seqrun.core.pack.Plan? plan
---@return string? message
---@return string? code
function pack.parse(text, name) end

---The smallest depth whose packs are within `tolerance` (0.0005) of the bound without a limit, and why.
---@param histogram seqrun.core.pack.Histogram
---@param options? seqrun.PackOptions
---@param tolerance? number
---@return integer? depth
---@return string? reason
---@return integer|string|nil packs
---@return integer? bound
function pack.choose_depth(histogram, options, tolerance) end

---The strongest certificate available.
---@param histogram seqrun.core.pack.Histogram
---@param options? seqrun.PackOptions
---@return seqrun.core.pack.Certificate? certificate
---@return string? message
---@return string? code
function pack.prove(histogram, options) end

---Reads a certificate file.
---@param path string
---@return seqrun.core.pack.Certificate? certificate
---@return string? message
---@return string? code
function pack.load_certificate(path) end

---Binds a plan to the lengths that it was made from.
---@param plan seqrun.core.pack.Plan
---@param lengths integer[]|string
---@param seed? integer
---@return seqrun.core.pack.Packing? packing
---@return string? message
---@return string? code
function pack.packing(plan, lengths, seed) end

---Assigns packs to groups of equal size by cost; the imbalance is the most expensive group over the mean.
---@param costs number[]
---@param groups integer
---@param balance? "cost"|"random" cost by default
---@return integer[] group
---@return number imbalance
function pack.assign(costs, groups, balance) end

---The counts, by length.
---@return integer[]
function Histogram:counts() end

---max_len, sequences, tokens, distinct; longer and lost are the sequences and tokens that too_long affected.
---@return { max_len: integer, sequences: integer, tokens: integer, distinct: integer, longer: integer, lost: integer }
function Histogram:info() end

---The lengths in an order drawn by the seed, 16 bits each: accepted as a list of lengths.
---@param seed? integer
---@return string
function Histogram:shuffled(seed) end

---The cheap lower bounds on the packs.
---@param max_seqs? integer
---@return { tokens: integer, count: integer, l2: integer }
function Histogram:bounds(max_seqs) end

---The same sequences for packs of another size.
---@param max_len integer
---@param too_long? "error"|"truncate"|"split"
---@return seqrun.core.pack.Histogram? histogram
---@return string? message
---@return string? code
function Histogram:fit(max_len, too_long) end

---Writes a .hist file.
---@param path string
---@return true? done
---@return string? message
---@return string? code
function Histogram:save(path) end

---The figures of the plan; max_seqs is nil if unlimited.
---@return table<string, number|string>
function Plan:info() end

---Pattern i, from 1: { count = packs, length, length, ... }.
---@param i integer
---@return table
function Plan:pattern(i) end

---The histogram that the plan packs.
---@return seqrun.core.pack.Histogram
function Plan:histogram() end

---The plan file as a string.
---@return string
function Plan:text() end

---Writes the plan file.
---@param path string
---@return true? done
---@return string? message
---@return string? code
function Plan:save(path) end

---max_len, max_seqs, heaviest (V), total (S) and the bound, ceil(S / V).
---@return table<string, integer>
function Certificate:info() end

---Checks the proof for these lengths by an exact knapsack.
---@param histogram seqrun.core.pack.Histogram
---@return true? holds
---@return string? message
---@return string? code
function Certificate:check(histogram) end

---Writes the certificate file; it lists the lengths of the histogram.
---@param path string
---@param histogram seqrun.core.pack.Histogram
---@return true? done
---@return string? message
---@return string? code
function Certificate:save(path, histogram) end

---Pack i of an epoch, from 1: the uids of its sequences (from 0) and the pattern that it follows.
---@param epoch integer from 0
---@param i integer
---@return integer[] uids
---@return integer pattern
function Packing:at(epoch, i) end

---Walks packs first..last of an epoch: their sequences, and the sum of the squares of the uids modulo
---2^64, which shows whether each came once.
---@param epoch integer
---@param first integer
---@param last integer
---@return integer sequences
---@return integer squares
function Packing:tally(epoch, first, last) end

return pack

---@meta

---Metrics: one number for each sequence of a data set.
---@class seqrun.core.metric
local core = {}

---@class seqrun.core.metric.metric
local metric = {}

---Metrics being computed, over the examples of one epoch.
---@class seqrun.core.metric.analysis
local analysis = {}

---Opens a metric file.
---@param path string
---@return seqrun.core.metric.metric? metric
---@return string? message
---@return string? code
function core.open(path) end

---The arguments that make `seqrun analyze DATA --metric NAME` measure the examples of a loader with these options.
---@param dataset seqrun.core.data.dataset
---@param options table part, max_len, nsp, short_seq_prob, seed, too_long
---@return string
function core.arguments(dataset, options) end

---A metric in memory: values[uid + 1].
---@param values number[]
---@return seqrun.core.metric.metric
function core.of(values) end

---An index of DeepSpeed: rows of integers.
---@class seqrun.core.metric.index
local index = {}

---An index being written.
---@class seqrun.core.metric.indexwriter
local indexwriter = {}

---Opens NAME.idx and NAME.bin.
---@param name string
---@return seqrun.core.metric.index? index
---@return string? message
---@return string? code
function core.index(name) end

---Begins NAME.idx and NAME.bin, which appear when they are committed.
---@param name string
---@param type "u8"|"i8"|"i16"|"i32"|"i64"|"u16"|"u32"|"u64"
---@return seqrun.core.metric.indexwriter? writer
---@return string? message
---@return string? code
function core.index_writer(name, type) end

---Writes a metric of integers as the files of DeepSpeed's analysis.
---@param of seqrun.core.metric.metric
---@param name string
---@return true? done
---@return string? message
---@return string? code
function core.index_of(of, name) end

---The metric that files of DeepSpeed's analysis have, in memory.
---@param name string
---@return seqrun.core.metric.metric? metric
---@return string? message
---@return string? code
function core.from_index(name) end

---Metrics over the examples that a loader with these options draws.
---@param dataset seqrun.core.data.dataset
---@param options table part, max_len, nsp, short_seq_prob, seed, epoch, too_long
---@param threads? integer 0: all processors
---@return seqrun.core.metric.analysis? analysis
---@return string? message
---@return string? code
function core.analysis(dataset, options, threads) end

---The weights of rarity, -ln p of each of `slots` tokens: unseen tokens count once, before counts are normalised.
---@param counts integer[] by id + 1
---@param slots? integer at least #counts; the others are unseen
---@return number[] weights
---@return number denominator
---@return number largest weight
function core.rarity(counts, slots) end

---The factor of the length in length_rarity, for sequences of at most `most` tokens.
---@param largest number weight of a token
---@param most integer
---@return number
function core.rarity_coefficient(largest, most) end

---Its name, count, whether it is whole (all integers) and accumulated; of a file its path, bytes and metadata: data and vocab (digests), examples, options, distinct.
---@return table
function metric:info() end

---The value of a sequence (accumulated: of an index), from 0.
---@param uid integer
---@return number? value
---@return string? message
---@return string? code
function metric:value(uid) end

---The values of `count` sequences from uid `first` on, all by default.
---@param first? integer from 0
---@param count? integer
---@return number[]? values
---@return string? message
---@return string? code
function metric:values(first, count) end

---Uids by ascending value, ties by uid: `count` of them from position `first` on, all by default.
---@param first? integer from 0
---@param count? integer
---@return integer[]? uids
---@return string? message
---@return string? code
function metric:order(first, count) end

---The value at a position of the order.
---@param i integer from 0
---@return number? value
---@return string? message
---@return string? code
function metric:at(i) end

---The number of sequences whose value is at most `value`; they come first in the order.
---@param value number
---@return integer? count
---@return string? message
---@return string? code
function metric:upto(value) end

---Whether it is of this data set and of the examples that a loader with these options draws; the failure says what differs.
---@param dataset seqrun.core.data.dataset
---@param options? table of a loader
---@param examples? integer that the loader has
---@return true? done
---@return string? message
---@return string? code
function metric:check(dataset, options, examples) end

---Closes the file.
function metric:close() end

---How many parts the examples have; parts are the unit of progress.
---@return integer
function analysis:parts() end

---What the examples are, in one line.
---@return string
function analysis:subject() end

---Occurrences of each token by id + 1, [CLS] and [SEP] included, and the numbers of sequences and tokens.
---@return integer[]? counts
---@return integer|string sequences the message on failure
---@return integer|string tokens
function analysis:counts() end

---The examples of a part: ids with [CLS] and [SEP], length, a_tokens, b_tokens.
---@param part integer from 0
---@return { ids: integer[], length: integer, a_tokens: integer, b_tokens: integer }[]? sequences
---@return string? message
---@return string? code
function analysis:read(part) end

---Chooses what step() computes.
---@param name "length"|"rarity"|"rarity_integer"|"length_rarity"|"tfidf"|"compressibility"
---@param options? { counts?: integer[], slots?: integer, most?: integer, corpus?: seqrun.core.data.dataset, part?: string }
---@return { denominator: number, coefficient: number }? facts
---@return string? message
---@return string? code
function analysis:measure(name, options) end

---Opens the file of progress; values that an earlier call of the same identity has computed are kept.
---@param path string
---@param identity string
---@return integer? count values so far
---@return integer|string next what append() stored, or parts so far
---@return string? code
function analysis:begin(path, identity) end

---Computes the values of some more parts, on all threads.
---@return boolean? done
---@return integer|string count values so far
---@return integer|string parts so far
function analysis:step() end

---Appends values of the next sequences, and a number to go on from.
---@param values number[]
---@param next integer
---@return true? done
---@return string? message
---@return string? code
function analysis:append(values, next) end

---Removes the progress of the metric that was begun.
function analysis:drop() end

---Writes the metric that was begun, and removes its progress.
---@param path string
---@param name string
---@param options string
---@return true? done
---@return string? message
---@return string? code
function analysis:finish(path, name, options) end

---Writes an accumulated metric.
---@param path string
---@param name string
---@param options string
---@param totals number[]
---@return true? done
---@return string? message
---@return string? code
function analysis:totals(path, name, options, totals) end

---Closes it; progress is kept.
function analysis:close() end

---Its type, rows, documents, and bytes of values.
---@return { type: string, rows: integer, documents: integer, bytes: integer }
function index:info() end

---The values of a row.
---@param i integer from 0
---@return integer[]? values
---@return string? message
---@return string? code
function index:row(i) end

---Closes the files.
function index:close() end

---Appends a row.
---@param values integer[]
---@return true? done
---@return string? message
---@return string? code
function indexwriter:row(values) end

---Moves the files to their names.
---@return true? done
---@return string? message
---@return string? code
function indexwriter:commit() end

---Removes them unless they were committed.
function indexwriter:close() end

return core

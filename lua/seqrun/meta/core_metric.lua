---@meta

---Metrics: one number for each sequence of a data set.
---@class seqrun.core.metric
local core = {}

---@class seqrun.core.metric.metric
local metric = {}

---Opens a metric file.
---@param path string
---@return seqrun.core.metric.metric? metric
---@return string? message
---@return string? code
function core.open(path) end

---A metric in memory: values[uid + 1].
---@param values number[]
---@return seqrun.core.metric.metric
function core.of(values) end

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

---How many sequences have a value of at most `value`: the first so many of the order.
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

return core

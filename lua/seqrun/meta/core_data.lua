---@meta

---Data sets: .sqr files written and read.
---@class seqrun.core.data
local data = {}

---An opened data set; it lives as long as the loaders that use it.
---@class seqrun.core.data.dataset
local dataset = {}

---A .sqr file of text being written.
---@class seqrun.core.data.ingest
local ingest = {}

---A .sqr file being written.
---@class seqrun.core.data.writer
local writer = {}

---Opens a data set and splits off the held-out part.
---@param path string
---@param options { held?: number, split?: "tail"|"keyed", seed?: integer, folds?: integer, fold?: integer, vocab?: seqrun.core.text.vocab, cache?: integer }
---@return seqrun.core.data.dataset? dataset
---@return string? message
---@return string? code
function data.open(path, options) end

---Begins a data set of text; step() until it is done, then commit().
---@param path string
---@param inputs string|string[]
---@param tokenizer seqrun.core.text.tokenizer
---@param options { format?: "prose"|"lines", document_start?: string, source?: string, threads?: integer, records?: { field?: string, where?: seqrun.Condition, all?: boolean } } records: how JSONL is read
---@return seqrun.core.data.ingest? ingest
---@return string? message
---@return string? code
function data.ingest(path, inputs, tokenizer, options) end

---Begins a .sqr file of any columns, which appears when it is committed.
---@param path string
---@return seqrun.core.data.writer? writer
---@return string? message
---@return string? code
function data.writer(path) end

---Its contents: kind, tokens, sentences, documents or examples, vocab_size, tokenizer (its model), fingerprint (of it), lowercase, cut, labelled, digest, bytes, and for train and held { units, tokens, words }; words only where they were counted.
---@return table
function dataset:info() end

---The metadata of the file.
---@return table<string, string>
function dataset:meta() end

---The columns of the file.
---@return { name: string, type: string, count: integer, bytes: integer, per?: string, size?: integer }[]
function dataset:columns() end

---How often each token occurs in a part: counts[id + 1].
---@param part? "train"|"held"
---@return integer[]? counts
---@return string? message
---@return string? code
function dataset:counts(part) end

---How many sentences and documents repeat an earlier one, token by token.
---@return integer? sentences
---@return integer|string documents the message on failure
---@return string? code
function dataset:repeats() end

---The numbers of a part's documents (examples), from 1.
---@param part? "train"|"held"
---@return integer[]
function dataset:units(part) end

---Examples of `other` that this one has too, word for word: how many, the first of them and its twin here, from 1.
---@param other seqrun.core.data.dataset
---@return integer? count
---@return integer|string|nil first the message on failure
---@return integer|string|nil twin
function dataset:overlap(other) end

---Fixed examples of more than `max_len` tokens, [CLS] and [SEP] included.
---@param max_len integer
---@return integer count
---@return integer? first from 1
---@return integer longest tokens of the longest of all examples
function dataset:longer(max_len) end

---Reads every block and checks it.
---@return true? good
---@return string? message
---@return string? code
function dataset:verify() end

---The tokenizer inside; special tokens written in a text are plain text to it.
---@return seqrun.core.text.tokenizer
function dataset:tokenizer() end

---Document (or example) i, from 1: its ids, and the lengths of its sentences (of A and B).
---@param i integer
---@return integer[]? ids
---@return integer[]|string lengths the message on failure
---@return string? code
function dataset:unit(i) end

---The value of a column for example i, from 1: a number, a list, or a string.
---@param name string
---@param i integer
---@return number|number[]|string|nil value
---@return string? message
---@return string? code
function dataset:value(name, i) end

---Works on the next megabyte of text; true at the end.
---@return boolean? done
---@return string? message
---@return string? code
function ingest:step() end

---What was read, stored and dropped so far.
---@return table<string, integer>
function ingest:counts() end

---Completes the file, after the last step: the digest that the data set will have.
---@return string? digest
---@return string? message
---@return string? code
function ingest:digest() end

---Renames the file into place.
---@return true? done
---@return string? message
---@return string? code
function ingest:commit() end

---Aborts and leaves no file; harmless after commit().
function ingest:close() end

---Adds a column and returns its number.
---@param name string
---@param type "bytes"|"u8"|"u16"|"u32"|"u64"|"i32"|"f32"|"f64"|"i64"
---@return integer
function writer:column(name, type) end

---Adds a column of values that belong to examples or to their tokens, and declares its shape.
---@param name string
---@param type "i32"|"i64"|"f32"|"bytes"
---@param per "example"|"token"
---@param size integer values of each; 0: lists of any length
---@return integer column
---@return integer? lengths the column of the lengths of lists
function writer:field(name, type, per, size) end

---Appends numbers, each checked against the type of the column.
---@param column integer
---@param list number[]
---@param name string what messages call the column
---@param example integer its number, for messages
---@param most? integer the largest allowed
---@param each? boolean one value for each example, from `example` on
---@return true? done
---@return string? message
---@return string? code
function writer:values(column, list, name, example, most, each) end

---Appends whole elements, little-endian as string.pack writes them.
---@param column integer
---@param bytes string
---@return true? done
---@return string? message
---@return string? code
function writer:append(column, bytes) end

---Adds the ids of other programs' files, and all columns but those of the tokenizer.
---@param kind "indexed"|"hdf5" Megatron's .idx, NVIDIA's BERT data
---@param paths string|string[]
---@param t seqrun.core.text.tokenizer that the ids are of
---@return { files: integer, documents: integer, sentences: integer, examples: integer, tokens: integer, left_out: integer }? counts
---@return string? message
---@return string? code
function writer:import(kind, paths, t) end

---Adds the tokenizer that the ids are of.
---@param t seqrun.core.text.tokenizer
---@return true? done
---@return string? message
---@return string? code
function writer:tokenizer(t) end

---Sets a metadata entry.
---@param key string
---@param value string
---@return true? done
---@return string? message
---@return string? code
function writer:meta(key, value) end

---Renames the file into place.
---@return true? done
---@return string? message
---@return string? code
function writer:commit() end

---Aborts and leaves no file; harmless after commit().
function writer:close() end

return data

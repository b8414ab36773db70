---@meta

---Vocabularies, tokenizers, sentences and vocabulary training.
---@class seqrun.core.text
local text = {}

---A vocabulary; `#vocab` is its size.
---@class seqrun.core.text.vocab
---@operator len: integer
local vocab = {}

---A tokenizer; one thread at a time.  `#tokenizer` is its largest id plus one.
---@class seqrun.core.text.tokenizer
---@operator len: integer
local tokenizer = {}

---A stream of sentences.
---@class seqrun.core.text.sentences
local sentences = {}

---Rows of delimited text.
---@class seqrun.core.text.rows
local rows = {}

---Reads a vocabulary file: one token per line.
---@param path string
---@return seqrun.core.text.vocab? vocab
---@return string? message
---@return string? code
function text.vocab(path) end

---Reads a vocabulary from a string; `name` replaces the path in messages.
---@param lines string
---@param name? string
---@return seqrun.core.text.vocab? vocab
---@return string? message
---@return string? code
function text.parse_vocab(lines, name) end

---Makes a tokenizer; without options it lower-cases, strips accents and recognises special tokens in the text.
---@param v seqrun.core.text.vocab
---@param options? { lowercase?: boolean, keep_accents?: boolean, specials?: boolean }
---@return seqrun.core.text.tokenizer
function text.tokenizer(v, options) end

---Reads a tokenizer from a directory, a tokenizer.json or a vocab.txt.  `lowercase` and `keep_accents` are of a vocab.txt;
---`config` is the text of a tokenizer_config.json, for the roles of special tokens.
---@param path string
---@param options? { lowercase?: boolean, keep_accents?: boolean, specials?: boolean, config?: string }
---@return seqrun.core.text.tokenizer? tokenizer
---@return string? message
---@return string? code
function text.load_tokenizer(path, options) end

---Reads a tokenizer from the text of a tokenizer.json or vocab.txt; `name` replaces the path in messages.
---@param content string
---@param name? string
---@param options? { lowercase?: boolean, keep_accents?: boolean, specials?: boolean, config?: string }
---@return seqrun.core.text.tokenizer? tokenizer
---@return string? message
---@return string? code
function text.parse_tokenizer(content, name, options) end

---A text as SQuAD compares answers: lower case, without ASCII punctuation and articles, words separated by one space.
---@param s string
---@return string
function text.answer(s) end

---Opens files, directories, patterns or "-", compressed or not, as a stream of sentences.
---@param paths string|string[]
---@param options? { format?: "prose"|"lines", limit?: integer, line_limit?: integer, any_bytes?: boolean }
---@return seqrun.core.text.sentences? sentences
---@return string? message
---@return string? code
function text.sentences(paths, options) end

---Opens files, directories, patterns or "-" as rows of cells: "quoted" is CSV, "literal" TSV, "words" separated by a tab or
---spaces, "lines" whole lines.  Rows longer than `limit` bytes, 1 MiB by default, are an error.
---@param paths string|string[]
---@param options { format?: "quoted"|"literal"|"words"|"lines", delimiter?: string, limit?: integer }
---@return seqrun.core.text.rows? rows
---@return string? message
---@return string? code
function text.rows(paths, options) end

---The files that paths mean, directories and patterns taken apart, in the order in which they are read.
---@param paths string|string[]
---@return string[]? files
---@return string? message
---@return string? code
function text.files(paths) end

---Makes a vocabulary from text; `counts` has words, distinct, forgotten, merges, too_long, out_of_reach, bytes, invalid.
---@param paths string|string[]
---@param options { size?: integer, min_frequency?: integer, limit_alphabet?: integer, lowercase?: boolean, keep_accents?: boolean, word_limit?: integer, threads?: integer, records?: { field?: string, where?: seqrun.Condition, all?: boolean } } records: how JSONL is read
---@return seqrun.core.text.vocab? vocab
---@return table<string, integer>|string|nil counts
---@return string? code
function text.train(paths, options) end

---Trains byte-level BPE on text: the text of a tokenizer.json; `counts` as train() has them.
---@param paths string|string[]
---@param options { size?: integer, min_frequency?: integer, word_limit?: integer, threads?: integer, records?: table } records: as for train()
---@return string? made
---@return table<string, integer>|string counts the message on failure
---@return string? code
function text.train_bpe(paths, options) end

---Writes a line of ids (or offsets, or tokens) for each line of text to a file descriptor, 1 by default.
---A closed pipe is not a failure.  With `count_only` nothing is written.
---@param t seqrun.core.text.tokenizer
---@param paths string|string[]
---@param options { ids?: boolean, offsets?: boolean, frame?: boolean, json?: boolean, count_only?: boolean, threads?: integer, fd?: integer }
---@return { lines: integer, bytes: integer, tokens: integer, unknown: integer, invalid: integer, long_cut: integer }? counts
---@return string? message
---@return string? code
function text.encode(t, paths, options) end

---The id of a token, nil when it is not in the vocabulary.
---@param token string
---@return integer?
function vocab:id(token) end

---The token of an id, nil if the id is out of range.
---@param id integer
---@return string?
function vocab:token(id) end

---The id of a special token.
---@param name "pad"|"unk"|"cls"|"sep"|"mask"
---@return integer
function vocab:special(name) end

---Writes a vocabulary file, replacing an existing one.
---@param path string
---@return true? done
---@return string? message
---@return string? code
function vocab:save(path) end

---A fingerprint of the contents: 16 hex digits.
---@return string
function vocab:fingerprint() end

---Text from ids; special tokens only on request.
---@param ids integer[]
---@param specials? boolean
---@return string
function vocab:decode(ids, specials) end

---The ids of a text and, on request, { first, last } of each token in code points.
---@param line string
---@param offsets? boolean
---@return integer[] ids
---@return integer[][]? offsets
function tokenizer:ids(line, offsets) end

---The ids of a text, and where each token is in it: first byte, from 0, and the byte after its last, one list for all.
---@param line string
---@return integer[] ids
---@return integer[] places
function tokenizer:places(line) end

---The ids of a text as a string, as the column `ids` of a data set holds them: u16, or u32 for more than 65,536 tokens.
---@param line string
---@return string ids
---@return integer count
function tokenizer:packed(line) end

---The ids of a text, and whether each begins a word.
---@param line string
---@return integer[] ids
---@return boolean[] starts
function tokenizer:starts(line) end

---The ids of a text given as a list of words, each of which keeps the space before it; the number of each token's word;
---{ first, last } of each token in code points of its word.
---@param list string[]
---@return integer[] ids
---@return integer[] numbers
---@return integer[][] offsets
function tokenizer:words(list) end

---The model.
---@return "WordPiece"|"BPE"|"Unigram"
function tokenizer:kind() end

---Whether texts are lower-cased as BERT's uncased vocabularies need it.
---@return boolean
function tokenizer:lowercase() end

---The id of a token, nil when there is none.
---@param token string
---@return integer?
function tokenizer:id(token) end

---The token of an id, nil when there is none.
---@param id integer
---@return string?
function tokenizer:token(id) end

---The id with a role, nil when no token has it; "cls" begins a sequence, "sep" ends it.
---@param role "pad"|"unk"|"cls"|"sep"|"mask"
---@return integer?
function tokenizer:special(role) end

---All special ids, ascending.
---@return integer[]
function tokenizer:specials() end

---The special tokens around a text, or around a pair, with their token types; `types` are those of the texts.
---@param pair? boolean
---@return { lead: { ids: integer[], types: integer[] }, middle: { ids: integer[], types: integer[] }, tail: { ids: integer[], types: integer[] }, types: integer[] }
function tokenizer:frame(pair) end

---A fingerprint of all that changes ids: 16 hex digits.
---@return string
function tokenizer:fingerprint() end

---The text to store: a tokenizer.json or a vocab.txt; whether it is the former; the roles of special tokens as JSON, for
---the option `config` of text.parse_tokenizer().
---@return string content
---@return boolean json
---@return string config
function tokenizer:text() end

---Text from ids; special tokens only on request.
---@param ids integer[]
---@param specials? boolean
---@return string
function tokenizer:decode(ids, specials) end

---The text of a vocab.txt, where that and two options say everything: BERT's WordPiece; nil for all others.
---@return string? vocab
---@return boolean? lowercase
---@return boolean? keep_accents
function tokenizer:plain() end

---The vocabulary of BERT's WordPiece, nil for all others.
---@return seqrun.core.text.vocab?
function tokenizer:vocab() end

---How many unknown words and how many invalid UTF-8 sequences it has seen so far.
---@return { unknown: integer, invalid: integer }
function tokenizer:counts() end

---The next sentence and the number of its document; nil at the end.
---@return string? sentence
---@return integer|string|nil document the message on failure
---@return string? code
function sentences:next() end

---Puts the cells of the next row into list[1 .. count], and removes what is after them; an empty line has none.  Nil at
---the end.  A row that cannot be used says what is wrong with it.
---@param list string[]
---@return integer? count
---@return integer|string|nil line the row's first, from 1; the message on failure
---@return string? file
---@return string? wrong
---@return integer? column of what is wrong
function rows:next(list) end

---Closes the files.
function rows:close() end

---What has been read so far.
---@return { documents: integer, sentences: integer, long_cut: integer, bytes: integer, invalid: integer }
function sentences:counts() end

return text

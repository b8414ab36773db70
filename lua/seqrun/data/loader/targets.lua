-- targets.lua - the loader's option `targets`: what batches predict.
--
--     targets = { "mlm" }                                          masked tokens
--     targets = { "mlm", "nsp" }                                   and next sentence, of text
--     targets = { "causal" }                                       every token, from those before it
--     targets = { "score", { name = "tag", column = "tags" } }     columns of a data set of examples
--     targets = { { name = "answer", reads = "spans" } }           first and last token, from two integers
--     targets = { { name = "long", make = function(update) ... end } }
--
-- Text is masked only when "mlm" is among the targets, or `mask` is given.
--
-- `make` is called on the main thread, once for each update as it is delivered, and returns for every batch
-- { rows = {...}, labels = {...} }: rows of the batch from 0, sequence by sequence, and `columns` labels for
-- each; with reads = "sequences", rows may be left out when every sequence has its labels.

local check = require("seqrun.base.check")

---@class seqrun.TargetOptions
---@field name string
---@field kind? "mlm"|"causal"|"tokens"|"nsp"|"column" "column"; tokens: the ids of all tokens before they are masked
---@field column? string of the data set; `name` by default
---@field reads? "rows"|"sequences"|"spans" by the shape of the column; of `make`: "sequences" or "rows"
---@field ignore? number label that is ignored, -100 for integers; NaN always is
---@field outside? "cls"|"ignore" a span that was cut off becomes [CLS], or is ignored
---@field mean? "token"|"sequence" what the loss is the mean of; the loader's `loss` by default
---@field make? fun(update: seqrun.Update): { rows?: integer[], labels: number[] }[]
---@field type? "i32"|"f32" of the labels of `make`
---@field columns? integer labels per item of `make`, 1
---@field causal? number of causal and mlm: fraction of the sequences that are causal; the others are masked, and read
---one token earlier
---@field fixed? boolean of mlm: a sequence has the same masked positions in every epoch
---@field fim? { rate: number, spm?: number, characters?: boolean, prefix: integer, suffix: integer, middle: integer }
---of causal: fill-in-the-middle: the fraction of sequences, and of these that in the order SPM; characters: cut
---between characters; ids of its tokens

local TARGET = {
  name = true, kind = true, column = true, reads = true, ignore = true, outside = true, mean = true, make = true,
  type = true, columns = true, causal = true, fim = true, fixed = true,
}

local BUILT_IN = { mlm = "mlm", nsp = "nsp", causal = "causal" }

local targets = {}

---One target as the core takes it.
local function read_one(given)
  if type(given) == "string" then return { name = given, kind = BUILT_IN[given] or "column" } end
  local o = {}
  for key, value in pairs(given) do o[key] = value end
  o.make = nil
  if given.make then o.kind = "deferred" end
  if not o.kind and not o.column then o.kind = BUILT_IN[o.name] end
  return o
end

local function check_one(given, i)
  local what = ("data.loader: targets[%d]"):format(i)
  if type(given) == "string" then return end
  if type(given) ~= "table" then
    check.fail("%s is a %s; give a name, or a table of options", what, type(given))
  end
  check.options(what, given, TARGET)
  if type(given.name) ~= "string" then check.fail("%s", what .. " needs a name") end
  if given.make ~= nil and type(given.make) ~= "function" then
    check.fail("%s: make must be a function, got a %s", what, type(given.make))
  end
  if not given.make and (given.type or given.columns) then
    check.fail("%s: type and columns go with make; a column has its own", what)
  end
end

---Reconciles the targets with `mask`.
local function add_mask(list, mask)
  local masked = false
  for _, o in ipairs(list) do masked = masked or o.kind == "mlm" end
  if masked and mask == false then
    check.fail("data.loader: targets has 'mlm', but mask is false; remove one of them")
  end
  if mask and not masked then table.insert(list, 1, { name = "mlm", kind = "mlm" }) end
end

---The targets of a loader's options as the core takes them, and the functions that make some of them.
---@param options seqrun.LoaderOptions
---@return table[]? list nil: the usual ones
---@return table<integer, function> makers by the number of the target
function targets.read(options)
  local given, list, makers = options.targets, {}, {}
  if given == nil then return nil, makers end
  if type(given) ~= "table" then
    check.fail("data.loader: targets is a %s; it is a list of names and tables", type(given))
  end
  for i, one in ipairs(given) do
    check_one(one, i)
    list[i] = read_one(one)
  end
  if #list == 0 and next(given) ~= nil then
    check.fail("data.loader: targets is a list; put the table of one target in braces")
  end
  local first = #list
  add_mask(list, options.mask)
  local shift = #list - first
  for i, one in ipairs(given) do
    if type(one) == "table" then makers[i + shift] = one.make end
  end
  return list, makers
end

local function set_target(update, number, name, make)
  local made, what = make(update), ("target '%s': make(update)%s must return"):format(name, check.place(make))
  if type(made) ~= "table" or #made ~= update.count then
    local got = type(made) == "table" and #made .. " tables" or type(made)
    check.fail("%s a table for each of the %d batches, got %s", what, update.count, got)
  end
  for i = 1, update.count do
    local batch, part = update:batch(i), made[i]
    local rows = part.rows
    if not rows and batch.facts[number].reads == "sequences" then rows = batch.layout:starts() end
    if not rows or not part.labels then
      check.fail("%s rows and labels for batch %d", what, i)
    end
    update.core:set_target(i, number, rows, part.labels)
  end
end

---Calls the functions that make targets.
---@param update seqrun.Update
---@param makers table<integer, function>
---@return seqrun.Update update
function targets.make(update, makers)
  if next(makers) == nil or update.count == 0 then return update end
  local facts = update:batch(1).facts
  for number = 1, #facts do
    local make = makers[number]
    if make then set_target(update, number, facts[number].name, make) end
  end
  update.core:finish()
  return update
end

return targets

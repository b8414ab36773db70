-- help - what the annotations say, as text for the prompt: an entry, a part, a search, examples.

local check = require("seqrun.base.check")
local elsewhere = require("seqrun.help.elsewhere")
local guess = require("seqrun.base.guess")
local index = require("seqrun.help.index")
local names = require("seqrun.base.names")
local sys = require("seqrun.core.sys")
local tasks = require("seqrun.help.tasks")

local help = {}

local MOST_FOUND, WIDTH, NAMED = 40, 120, 46

---The first sentence of a text, on one line that fits beside a name of `named` columns (default NAMED).
local function brief(text, named)
  local room = (sys.is_terminal(1) and math.max(80, sys.columns(1)) or WIDTH) - (named or NAMED)
  local line = (text or ""):gsub("%s+", " ")
  local sentence = line:match("^(.-[^%.]%.)%s") or line
  if #sentence > room then sentence = sentence:sub(1, (utf8.offset(sentence, 0, room - 2) or room) - 1) .. "..." end
  return sentence
end

-- ---- one entry -------------------------------------------------------------------------------------

---A type without the names of modules.
---@param kind? string
---@return string
function help.type(kind) return ((kind or ""):gsub("seqrun%.core%.", ""):gsub("seqrun%.", "")) end

local short_type = help.type

---"sr.pack.pack(source, options?) -> Plan?".
---@param entry seqrun.HelpEntry
---@return string
function help.signature(entry)
  if not entry.parameters then return entry.name end
  local list, results = {}, {}
  for i, p in ipairs(entry.parameters) do list[i] = p.name .. (p.optional and "?" or "") end
  for i, r in ipairs(entry.returns or {}) do results[i] = short_type(r.type) end
  local arrow = #results > 0 and " -> " .. table.concat(results, ", ") or ""
  return ("%s(%s)%s"):format(entry.name, table.concat(list, ", "), arrow)
end

local function add_rows(lines, title, list)
  if not list or #list == 0 then return end
  if title then lines[#lines + 1] = title end
  for _, row in ipairs(list) do
    local name = row.name and ("%-12s "):format(row.name .. (row.optional and "?" or "")) or ""
    local text = row.text and row.text ~= "" and "  " .. row.text or ""
    lines[#lines + 1] = ("  %s%s%s"):format(name, short_type(row.type), text)
  end
end

local function add_code(lines, code)
  lines[#lines + 1] = "Example:"
  for line in (code .. "\n"):gmatch("([^\n]*)\n") do lines[#lines + 1] = "    " .. line end
end

local function has_notes(list)
  for _, row in ipairs(list or {}) do
    if row.type then return true end
  end
  return false
end

local function text_of(entry)
  local lines = { help.signature(entry) }
  if entry.text ~= "" then lines[#lines + 1] = "  " .. entry.text:gsub("\n", "\n  ") end
  if has_notes(entry.parameters) then add_rows(lines, "Parameters:", entry.parameters) end
  for _, options in ipairs(index.options_of(entry)) do add_rows(lines, options.name .. ":", options.fields) end
  if entry.returns and #entry.returns > 0 then add_rows(lines, "Returns:", entry.returns) end
  add_rows(lines, "Fields:", entry.fields)
  if entry.methods and #entry.methods > 0 then
    lines[#lines + 1] = "Methods:"
    for _, method in ipairs(entry.methods) do
      local call = help.signature(method):gsub("^[^:]*", ""):gsub(" %->.*", "")
      lines[#lines + 1] = ("  %-28s %s"):format(call, brief(method.text))
    end
  end
  if entry.example then add_code(lines, entry.example) end
  return table.concat(lines, "\n")
end

-- ---- parts ----------------------------------------------------------------------------------------------

---A part such as sr.pack: what it is for, and its functions.
local function part_text(name)
  local lines = { ("sr.%s: %s"):format(name, index.summary(name)) }
  for _, key in ipairs(index.names()) do
    if key:find("sr." .. name .. ".", 1, true) == 1 then
      local entry = index.entries()[key]
      local call = help.signature(entry):gsub(" %->.*", "")
      lines[#lines + 1] = #call > 44 and ("  %s\n  %-44s %s"):format(call, "", brief(entry.text))
        or ("  %-44s %s"):format(call, brief(entry.text))
    end
  end
  if name == "tasks" then table.move(tasks.lines(), 1, #tasks.lines(), #lines + 1, lines) end
  local sections = elsewhere.sections(name)
  if #sections > 0 then lines[#lines + 1] = "Documents:" end
  for _, section in ipairs(sections) do lines[#lines + 1] = "  help " .. section end
  return table.concat(lines, "\n")
end

local SESSION = {
  { "help(x)", "explains a function, an object, a part or a word: help(sr.pack), help \"attention\"" },
  { "help \"cookbook\"", "lists the sections of a document; help \"C4\" prints one" },
  { "help \"seqrun\"", "lists the commands; help \"seqrun fill\" explains one" },
  { "apropos \"word\"", "lists the entries that mention a word" },
  { "examples()", "lists the recipes; examples \"pack\" shows the examples of a topic" },
  { "sample", "a tiny corpus, model and batch to try things on: sample.model, sample.batch" },
  { "plot(values)", "draws numbers, a tensor, a schedule or the loss of a run" },
  { "histogram(t)", "draws how the numbers of a tensor are spread" },
  { "attention(dir, s)", "draws what each token of a text attends to in a layer of a model" },
  { "show_batch(b, data)", "prints the sequences of a batch as text, with its masks in place" },
  { "time(f, ...)", "calls f, prints how long it took, returns its results" },
  { "run \"FILE\"", "runs a Lua file in this session; edit \"FILE\" opens it in an editor" },
  { "_, _1 .. _9", "the last values; a line that ends with ; prints nothing" },
}

---What `help()` prints.
---@return string
function help.overview()
  local lines = { "At the prompt:" }
  for _, row in ipairs(SESSION) do lines[#lines + 1] = ("  %-19s %s"):format(row[1], row[2]) end
  lines[#lines + 1] = "The library (Tab after `sr.` lists all of it):"
  for _, part in ipairs(index.parts()) do
    lines[#lines + 1] = ("  %-16s %s"):format("sr." .. part, brief(index.summary(part), 20))
  end
  lines[#lines + 1] = "  sr.tensor, ...   making tensors; help \"Tensor\" lists their methods"
  return table.concat(lines, "\n")
end

-- ---- finding ------------------------------------------------------------------------------------------------

---Entries whose last name is this word: "attention" is sr.ops.attention.
local function by_last_name(word)
  local found = {}
  for _, name in ipairs(index.names()) do
    if name:match("[^.:]*$"):lower() == word:lower() then found[#found + 1] = name end
  end
  return found
end

local function lines_of(found)
  local lines = {}
  for i, name in ipairs(found) do
    if i > MOST_FOUND then
      lines[i] = ("... %d more"):format(#found - MOST_FOUND)
      break
    end
    lines[i] = ("%-34s %s"):format(name, brief(index.entries()[name].text, 36))
  end
  return table.concat(lines, "\n")
end

---The entries, commands, config keys and documents that mention a word.
---@param word string
---@return string
function help.search(word)
  if type(word) ~= "string" or word == "" then check.fail("%s", 'apropos: expected a word, as in apropos "pack"') end
  local found, wanted = {}, word:lower()
  for _, name in ipairs(index.names()) do
    local text = name .. " " .. index.entries()[name].text
    if text:lower():find(wanted, 1, true) then found[#found + 1] = name end
  end
  local lines = elsewhere.lines(wanted, WIDTH)
  if #found > 0 then table.insert(lines, 1, lines_of(found)) end
  if #lines > 0 then return table.concat(lines, "\n") end
  return ("nothing mentions '%s'%s"):format(word, guess.hint(word, help.names()))
end

---The line of a word that only the prompt has, such as show_batch.
local function session_line(topic)
  for _, row in ipairs(SESSION) do
    if row[1]:match("^[%w_]+") == topic then return ("At the prompt: %s %s"):format(row[1], row[2]) end
  end
end

---What the library has of a name, or nil.
local function library_text(topic)
  local name, task = topic:gsub("^sr%.", ""), tasks.find(topic)
  if topic == "sr" then return help.overview() end
  if task then return tasks.text(task) end
  if index.summary(name) then return part_text(name) end
  local entry = index.entries()[topic] or index.entries()["sr." .. topic] or index.method(topic)
  if entry then return text_of(entry) end
  local options = index.options_named(topic)
  if options then
    local lines = {}
    add_rows(lines, options.name .. ":", options.fields)
    return table.concat(lines, "\n")
  end
  local found, line = by_last_name(topic), session_line(topic)
  local text = #found == 1 and text_of(index.entries()[found[1]]) or #found > 1 and lines_of(found) or nil
  return text and line and text .. "\n" .. line or text or line
end

---A command's --help; with what else has its name, a line about the command.
local function about_text(topic)
  if topic == "seqrun" then return elsewhere.commands() end
  local command, line = elsewhere.command(topic)
  if command and topic:find("^seqrun ") then return command end
  local text = library_text(topic)
  if not command then return text or elsewhere.document(topic) or help.search(topic) end
  return text and text .. "\n" .. line or command
end

---The entry or section of this name; nil if there is none.
---@param topic string
---@return string|nil
function help.find(topic) return library_text(topic) or elsewhere.document(topic) end

---What mentions a topic; nil if nothing does.
---@param topic string
---@return string|nil
function help.mentions(topic)
  local found = help.search(topic)
  return not found:find("^nothing mentions") and found or nil
end

---What is known of a function, an object, a part or a word.
---@param topic any
---@return string
function help.about(topic)
  if type(topic) == "string" then return about_text(topic) end
  if type(topic) == "function" then
    local entry = index.entry_of(topic)
    return entry and text_of(entry) or "a function without annotations: " .. require("seqrun.draw.show").show(topic)
  end
  for _, part in ipairs(index.parts()) do
    if rawequal(package.loaded[index.module_of(part)], topic) then return part_text(part) end
  end
  local task = tasks.find(topic)
  if task then return tasks.text(task) end
  local class = index.class_of(topic)
  if class then return text_of(class) end
  if topic == require("seqrun") then return help.overview() end
  local list = names.of(topic)
  if #list == 0 then return ("a %s: %s"):format(type(topic), tostring(topic)) end
  return ("a %s with %s"):format(type(topic), table.concat(list, ", "))
end

---A function in a line or two: its signature and what it does; nil without annotations.
---@param fn function
---@return string|nil
function help.line(fn)
  local entry = index.entry_of(fn)
  if not entry then return nil end
  return help.signature(entry) .. (entry.text ~= "" and "\n  " .. brief(entry.text, 2) or "")
end

---All that help knows by name, for completion and guesses.
---@return string[]
function help.names()
  local list = {}
  for _, name in ipairs(index.names()) do list[#list + 1] = name:match("[^.:]*$") end
  table.move(index.parts(), 1, #index.parts(), #list + 1, list)
  table.sort(list)
  local unique = {}
  for _, name in ipairs(list) do
    if name ~= unique[#unique] then unique[#unique + 1] = name end
  end
  return unique
end

-- ---- examples -------------------------------------------------------------------------------------------------

local function recipes()
  local folder = require("seqrun.base.shipped").root .. "/recipes"
  local lines = { "Recipes, run as `seqrun recipes/NAME.lua`; --help lists their keys:" }
  for _, file in ipairs(sys.list(folder) or {}) do
    local first = file:find("%.lua$") and (sys.read_file(folder .. "/" .. file) or ""):match("^%-%- %S+ %- ([^\n]*)")
    if first then lines[#lines + 1] = ("  %-26s %s"):format(file, brief(first, 30)) end
  end
  lines[#lines + 1] = 'Examples of a topic: examples "pack", examples "Tensor"'
  return table.concat(lines, "\n")
end

---The recipes, or the examples of the entries whose names contain a topic.
---@param topic? string
---@return string
function help.examples(topic)
  if topic == nil then return recipes() end
  if type(topic) ~= "string" then check.fail("%s", 'examples: expected a topic, as in examples "pack"') end
  local lines = {}
  for _, name in ipairs(index.names()) do
    local example = index.entries()[name].example
    if example and name:lower():find(topic:lower(), 1, true) then
      lines[#lines + 1] = "-- " .. name .. "\n" .. example
    end
  end
  if #lines == 0 then return ("no examples of '%s'%s"):format(topic, guess.hint(topic, help.names())) end
  return table.concat(lines, "\n\n")
end

return help

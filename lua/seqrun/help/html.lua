-- html.lua - the API reference: everything that help() knows as one page of HTML, without scripts or network.

local help = require("seqrun.help")
local html = require("seqrun.draw.html")
local index = require("seqrun.help.index")

local STYLE = [[
body { max-width: 62rem } h3 { font: 600 .98rem/1.4 ui-monospace, monospace; margin: 2rem 0 .3rem;
  overflow-wrap: anywhere } td { padding: .1rem .9rem .1rem 0; overflow-wrap: anywhere } td:first-child {
  font-family: ui-monospace, monospace; overflow-wrap: normal } nav { display: flex; flex-wrap: wrap; gap: .2rem .9rem }
h3:target, h2:target { background: var(--soft) } .type { color: var(--faint) }]]

local escaped = html.escape

---A text with code between back quotes.
local function prose(text) return (escaped(text):gsub("`([^`\n]+)`", "<code>%1</code>")) end

local function anchor(name) return (name:gsub("[^%w]", "-")) end

local function rows(out, title, list)
  local shown = {}
  for _, row in ipairs(list or {}) do
    if row.type then
      local name = (row.name or title) .. (row.optional and "?" or "")
      shown[#shown + 1] = ("<tr><td>%s</td><td><span class=\"type\">%s</span> %s</td></tr>"):format(escaped(name),
        escaped(help.type(row.type)), prose(row.text or ""))
    end
  end
  if #shown > 0 then out[#out + 1] = '<div class="scroll"><table>' .. table.concat(shown, "\n") .. "</table></div>" end
end

local function add_entry(out, entry)
  out[#out + 1] = ("<h3 id=\"%s\">%s</h3>"):format(anchor(entry.name), escaped(help.signature(entry)))
  if entry.text ~= "" then out[#out + 1] = "<p>" .. prose(entry.text):gsub("\n\n", "<p>") .. "</p>" end
  rows(out, "", entry.parameters)
  for _, options in ipairs(index.options_of(entry)) do
    out[#out + 1] = ("<p class=\"type\">%s</p>"):format(escaped(options.name))
    rows(out, "", options.fields)
  end
  rows(out, "returns", entry.returns)
  rows(out, "", entry.fields)
  if entry.example then out[#out + 1] = "<pre>" .. escaped(entry.example) .. "</pre>" end
end

---Entries by section: sr itself, each part, then each class with its methods.
local function sections()
  local list, by_title = {}, {}
  local function section(title, text)
    if not by_title[title] then
      by_title[title] = { title = title, text = text or "", entries = {} }
      list[#list + 1] = by_title[title]
    end
    return by_title[title]
  end
  section("sr", "Making tensors, devices and scopes.")
  for _, part in ipairs(index.parts()) do section("sr." .. part, index.summary(part)) end
  local classes = {}
  for _, name in ipairs(index.names()) do
    local entry = index.entries()[name]
    if entry.methods then
      classes[#classes + 1] = entry
    elseif name:find("^sr%.") then
      local part = name:match("^(sr%.[%w_]+)%.")
      table.insert(section(part or by_title[name] and name or "sr").entries, entry)
    end
  end
  for _, class in ipairs(classes) do
    local entries = section(class.name, "").entries
    entries[1] = class
    table.move(class.methods, 1, #class.methods, 2, entries)
  end
  return list
end

---The page.
---@return string
return function()
  local list = sections()
  local out = { "<h1>seqrun: API reference</h1>", "<p>The same as <code>help()</code> at the prompt.</p>", "<nav>" }
  for _, section in ipairs(list) do
    if #section.entries > 0 then
      out[#out + 1] = ("<a href=\"#section-%s\">%s</a>"):format(anchor(section.title), escaped(section.title))
    end
  end
  out[#out + 1] = "</nav>"
  for _, section in ipairs(list) do
    if #section.entries > 0 then
      out[#out + 1] = ("<h2 id=\"section-%s\">%s</h2>"):format(anchor(section.title), escaped(section.title))
      if section.text ~= "" then out[#out + 1] = "<p>" .. prose(section.text) .. "</p>" end
      for _, entry in ipairs(section.entries) do add_entry(out, entry) end
    end
  end
  return html.page("seqrun: API reference", STYLE, out)
end

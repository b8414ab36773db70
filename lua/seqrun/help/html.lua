-- html.lua - the API reference: everything that help() knows as one page of HTML, without scripts or network.

local help = require("seqrun.help")
local index = require("seqrun.help.index")

local STYLE = [[
:root { color-scheme: light dark; --ink: #1d2330; --paper: #fff; --faint: #667; --rule: #dde; --code: #f4f5f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dfe3ea; --paper: #14171d; --faint: #99a; --rule: #2c313b; --code: #1d212a; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 60rem; padding: 1rem; overflow-wrap: break-word; }
h2 { border-bottom: 1px solid var(--rule); margin-top: 3rem; }
h3 { font: 600 1rem/1.4 ui-monospace, monospace; margin: 2rem 0 .3rem; }
pre { background: var(--code); padding: .6rem .8rem; overflow-x: auto; font: .9rem/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; font-size: .92rem; }
td { padding: .1rem .9rem .1rem 0; vertical-align: top; }
td:first-child { font-family: ui-monospace, monospace; white-space: nowrap; }
nav a { margin-right: .8rem; }
a { color: inherit; }
.type { color: var(--faint); }
@media print { pre { white-space: pre-wrap; } }]]

local function escaped(text)
  return (tostring(text):gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local function anchor(name) return (name:gsub("[^%w]", "-")) end

local function rows(out, title, list)
  local shown = {}
  for _, row in ipairs(list or {}) do
    if row.type then
      local name = (row.name or title) .. (row.optional and "?" or "")
      shown[#shown + 1] = ("<tr><td>%s</td><td><span class=\"type\">%s</span> %s</td></tr>"):format(escaped(name),
        escaped(help.type(row.type)), escaped(row.text or ""))
    end
  end
  if #shown > 0 then out[#out + 1] = "<table>" .. table.concat(shown, "\n") .. "</table>" end
end

local function add_entry(out, entry)
  out[#out + 1] = ("<h3 id=\"%s\">%s</h3>"):format(anchor(entry.name), escaped(help.signature(entry)))
  if entry.text ~= "" then out[#out + 1] = "<p>" .. escaped(entry.text):gsub("\n\n", "<p>") .. "</p>" end
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
  local out = {
    "<!doctype html>", "<html lang=\"en\"><head><meta charset=\"utf-8\"><title>seqrun: API reference</title>",
    "<meta name=\"viewport\" content=\"width=device-width\">", "<style>" .. STYLE .. "</style></head><body>",
    "<h1>seqrun: API reference</h1>", "<p>The same as <code>help()</code> at the prompt.</p>", "<nav>",
  }
  for _, section in ipairs(list) do
    if #section.entries > 0 then
      out[#out + 1] = ("<a href=\"#section-%s\">%s</a>"):format(anchor(section.title), escaped(section.title))
    end
  end
  out[#out + 1] = "</nav>"
  for _, section in ipairs(list) do
    if #section.entries > 0 then
      out[#out + 1] = ("<h2 id=\"section-%s\">%s</h2>"):format(anchor(section.title), escaped(section.title))
      if section.text ~= "" then out[#out + 1] = "<p>" .. escaped(section.text) .. "</p>" end
      for _, entry in ipairs(section.entries) do add_entry(out, entry) end
    end
  end
  out[#out + 1] = "</body></html>"
  return table.concat(out, "\n") .. "\n"
end

-- html.lua - pages of HTML that need neither scripts nor a network: escaping, elements, tables, the common style.

local svg = require("seqrun.draw.svg")

local html = { escape = svg.escape }

---The look of all pages; its colours are those of the charts.
local STYLE = svg.STYLE .. [[

* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100% }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 84rem; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 4rem; overflow-wrap: break-word }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem }
h2 { font-size: 1.15rem; margin: 3rem 0 .8rem; padding-top: .8rem; border-top: 1px solid var(--rule) }
h3 { font-size: 1rem; margin: 1.6rem 0 .5rem } p { margin: .4rem 0; max-width: 46rem } a { color: var(--c1) }
code, pre, .code { font-family: ui-monospace, monospace; font-size: .92em }
pre { overflow-x: auto; padding: .6rem .8rem; background: var(--soft); border-radius: 4px }
:root { --soft: #f5f7f9 } @media screen and (prefers-color-scheme: dark) { :root { --soft: #1c222b } }
.faint { color: var(--faint) } .scroll { overflow-x: auto; max-width: 100% }
table { border-collapse: collapse; font-size: .93em }
@media screen and (max-width: 50rem) { .scroll > table { min-width: max-content } .scroll td, .scroll th {
  max-width: 16rem } }
th, td { text-align: left; vertical-align: top; padding: .28rem 1.1rem .28rem 0 } th { font-weight: 600 }
thead th { border-bottom: 1px solid var(--rule) } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
@page { margin: 16mm } @media print { body { max-width: none; padding: 0; font-size: 10pt } a { color: inherit }
  .scroll, pre { overflow: visible } pre { white-space: pre-wrap } h2, h3 { break-after: avoid }
  figure, tr, .keep { break-inside: avoid } }]]

---A page.
---@param title string
---@param style string further rules
---@param body string[] markup
---@return string
function html.page(title, style, body)
  return table.concat({
    "<!doctype html>", '<html lang="en"><head><meta charset="utf-8">', "<title>" .. html.escape(title) .. "</title>",
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    "<style>" .. STYLE .. "\n" .. style .. "</style></head>", "<body>", table.concat(body, "\n"), "</body></html>\n",
  }, "\n")
end

---A table that scrolls in a narrow page.  Cells are text, or { markup }; columns named in `numbers` are right-aligned.
---@param head (string|table)[]|nil
---@param rows (string|table)[][] the first cell of a row is its heading
---@param numbers? table<integer, boolean>
---@param class? string
---@return string
function html.table(head, rows, numbers, class)
  local function cells(row, tag, plain)
    local parts = {}
    for i, cell in ipairs(row) do
      local name = i == 1 and not plain and "th" or tag
      local kind = numbers and numbers[i] and ' class="n"' or ""
      local scope = name == "th" and (plain and ' scope="col"' or ' scope="row"') or ""
      local content = type(cell) == "table" and cell[1] or html.escape(cell)
      parts[i] = ("<%s%s%s>%s</%s>"):format(name, kind, scope, content, name)
    end
    return "<tr>" .. table.concat(parts) .. "</tr>"
  end
  local out = { ('<div class="scroll" tabindex="0"><table%s>'):format(class and (' class="%s"'):format(class) or "") }
  if head then out[#out + 1] = "<thead>" .. cells(head, "th", true) .. "</thead>" end
  out[#out + 1] = "<tbody>"
  for _, row in ipairs(rows) do out[#out + 1] = cells(row, "td") end
  out[#out + 1] = "</tbody></table></div>"
  return table.concat(out, "\n")
end

return html

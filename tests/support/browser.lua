-- browser.lua - opens pages in headless Chromium: what it prints to the console, how wide it is, which text is pale.
--
-- Pages of ours allow no scripts, so a page beside them holds each in a frame of the wanted width and measures it.

local json = require("seqrun.core.json")
local program = require("tests.support.program")
local sys = require("seqrun.core.sys")

local browser = {}

local FLAGS = "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --disable-extensions --no-first-run "
  .. "--disable-background-networking --disable-component-update --allow-file-access-from-files "
  .. "--user-data-dir='%s/profile' --blink-settings=preferredColorScheme=%d "

---Measures the frame: elements beyond its right edge that nothing around them scrolls or clips, and texts whose
---contrast to the page is below 4.5 (3 for large ones).
local MEASURE = [[<!doctype html><html><body><pre id="out"></pre><script>
const page = "%s", widths = [%s], results = [];
const rgb = c => (c.match(/[\d.]+/g) || []).map(Number);
const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b };
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05) };
const measure = e => {
  const win = e.target.contentWindow, doc = win.document, root = doc.documentElement, result = { wide: [], pale: [] };
  const name = n => n.tagName + "." + (n.getAttribute("class") || "") + " " + (n.textContent || "").slice(0, 40);
  const scrolls = n => { for (let p = n.parentElement; p; p = p.parentElement)
    if (win.getComputedStyle(p).overflowX != "visible" && p != root && p != doc.body && p.tagName != "svg") return true;
    return false };
  result.width = root.scrollWidth; result.height = root.scrollHeight;
  result.paper = win.getComputedStyle(doc.body).backgroundColor;
  for (const n of doc.body.querySelectorAll("*")) {
    const box = n.getBoundingClientRect();
    if (box.width && box.right > root.clientWidth + 1 && !scrolls(n)) result.wide.push(name(n));
    const own = [...n.childNodes].some(c => c.nodeType == 3 && c.data.trim());
    if (!own || !box.width || n.closest("title, desc, style")) continue;
    const style = win.getComputedStyle(n), svg = n instanceof win.SVGElement;
    const behind = n.classList.contains("inside") ? null : result.paper;
    const large = parseFloat(style.fontSize) >= 24;
    const ink = rgb(svg ? style.fill : style.color);
    if (behind && contrast(ink, rgb(behind)) < (large ? 3 : 4.5)) result.pale.push(name(n));
  }
  result.wide = result.wide.slice(0, 5); result.pale = [...new Set(result.pale)].slice(0, 5);
  results[widths.indexOf(+e.target.width)] = result;
  document.getElementById("out").textContent = JSON.stringify(results);
};
for (const width of widths) {
  const frame = document.createElement("iframe");
  Object.assign(frame, { width, height: 900, onload: measure, src: page, style: "border: 0" });
  document.body.append(frame);
}</script></body></html>]]

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

---Runs Chromium; returns stdout and stderr.
local function run(folder, scheme, words)
  local out, err = folder .. "/browser.out", folder .. "/browser.err"
  local flags = FLAGS:format(folder, scheme == "dark" and 0 or 1)
  local ok = os.execute(("timeout 300 chromium %s %s >%s 2>%s"):format(flags, words, quote(out), quote(err)))
  local log = assert(sys.read_file(err))
  assert(ok, "chromium failed:\n" .. log)
  return assert(sys.read_file(out)), log
end

---What a page prints to the console when it is opened by itself.
---@return string[]
function browser.console(folder, page, scheme)
  local _, log = run(folder, scheme, "--enable-logging=stderr --dump-dom " .. quote("file://" .. page))
  local list = {}
  for line in log:gmatch("[^\n]+") do
    if line:find("CONSOLE", 1, true) then list[#list + 1] = line end
  end
  return list
end

---The measures of a page in windows of these widths.
---@return { width: integer, height: integer, paper: string, wide: string[], pale: string[] }[]
function browser.measure(folder, page, widths, scheme)
  local frame = program.write(folder, "frame.html", MEASURE:format("file://" .. page, table.concat(widths, ",")))
  local dom = run(folder, scheme, "--virtual-time-budget=5000 --dump-dom " .. quote("file://" .. frame))
  local text = dom:match('<pre id="out">(.-)</pre>'):gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&amp;", "&")
  return assert(json.decode(text), "the page was not measured:\n" .. dom:sub(1, 500))
end

---A picture of a page.
function browser.picture(folder, page, file, width, height, scheme)
  run(folder, scheme, ("--window-size=%d,%d --screenshot=%s %s"):format(width, height, quote(file),
    quote("file://" .. page)))
end

---A page as PDF.
function browser.print(folder, page, file)
  run(folder, "light", ("--no-pdf-header-footer --print-to-pdf=%s %s"):format(quote(file), quote("file://" .. page)))
end

return browser

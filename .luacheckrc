-- luacheck reads this; `make lint` runs it.
std = "lua54"
max_line_length = 120
cache = false
self = false
unused_args = false
-- 581, 582: `not (x <= y)` is meant so, it holds for NaN.  The names are held until the end of their
-- block by <close>.
ignore = { "581", "582", "211/scope", "211/no_grad", "211/guard", "211/quiet" }
files["lua/seqrun/cli/init.lua"] = { globals = { "arg" } } -- a script sees its own words
files["lua/seqrun/help/examples"] = { max_line_length = false }
files["tests/spec"] = { std = "lua54+busted" }
exclude_files = { "tests/data" }

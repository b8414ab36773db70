--- Whether this is `make test-long`: matrices in full, large sizes.
---@type boolean
return os.getenv("LONG") == "1"

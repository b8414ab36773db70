-- Golden tables of curricula: every row matches, and a changed row is reported.

local golden = require("tests.support.golden.check")

local FOLDER = "tests/data/curriculum"

describe("the golden tables of curricula", function()
  it("match in every row", function()
    local report = golden.check(FOLDER)
    assert.equal("", table.concat(report.mismatches, "\n"))
    assert.is_true(report.rows > 180)
  end)

  it("are checked: a changed value and a row of another step are noticed", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute(("mkdir %s && cp %s/lr_tokens_*.tsv %s"):format(folder, FOLDER, folder)))
    local path = folder .. "/lr_tokens_golden.tsv"
    local text = assert(io.open(path)):read("a")
    assert(io.open(path, "w")):write((text:gsub("\t130\t0\t1040", "\t131\t0\t1040"))):close()
    local pipe = assert(io.popen("build/seqrun tests/golden_curriculum.lua " .. folder))
    local out = pipe:read("a")
    local _, how, code = pipe:close()
    os.execute("rm -r " .. folder)
    assert.same({ "exit", 1 }, { how, code })
    assert.truthy(out:find("t1_linear_cl_ltd step 1: effective_seqlen is 130, expected 131", 1, true), out)
    assert.truthy(out:find("50 rows, 1 mismatches", 1, true), out)
  end)
end)

-- Golden tables of curricula: every row matches, and a changed row is reported.

local golden = require("tests.support.golden.check")

local FOLDER = "tests/data/curriculum"

---Runs the program on copies of some tables, after `change(text, name)`; "" leaves a table out.
local function check_copy(names, change)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir " .. folder))
  for _, name in ipairs(names) do
    local from = assert(io.open(("%s/%s.tsv"):format(FOLDER, name)))
    local text = change(from:read("a"), name)
    from:close()
    if text ~= "" then
      local file = assert(io.open(("%s/%s.tsv"):format(folder, name), "w"))
      file:write(text)
      file:close()
    end
  end
  local pipe = assert(io.popen(((arg[-1] or "build/seqrun") .. " tests/golden_curriculum.lua %s 2>&1"):format(folder)))
  local out = pipe:read("a")
  local _, _, code = pipe:close()
  os.execute("rm -r " .. folder)
  return code or 0, out
end

local ALL = {
  "configs", "schedule_golden", "lr_tokens_configs", "lr_tokens_golden", "selection_tables", "selection_golden",
  "cluster_scenarios", "cluster_golden", "rarity_golden",
}

describe("the golden tables of curricula", function()
  it("match in every row", function()
    local report = golden.check(FOLDER)
    assert.equal("", table.concat(report.mismatches, "\n"))
    assert.is_true(report.rows > 180)
  end)

  it("are checked: a changed value and a row of another step are noticed", function()
    local code, out = check_copy({ "lr_tokens_configs", "lr_tokens_golden" }, function(text)
      return (text:gsub("\t130\t0\t1040", "\t131\t0\t1040"))
    end)
    assert.equal(1, code)
    assert.truthy(out:find("t1_linear_cl_ltd step 1: effective_seqlen is 130, expected 131", 1, true), out)
    assert.truthy(out:find("50 rows, 1 mismatches", 1, true), out)
  end)

  it("have a warmup by tokens if it has no steps: -, none or 0", function()
    local head = "config_id\tstyle\tmax_lr\tmin_lr\twarmup_steps\twarmup_tokens\tdecay_tokens\tglobal_batch\tseq_len\t"
      .. "layers\tltd_layers\tcl_total:min:step\tltd_total:min:step\n"
    local rows = "config_id\tstep\tcurriculum_seqlen\tltd_reserved\teffective_seqlen\ttokens_before\ttokens_after\t"
      .. "lr_used\tlr_next\n"
    local rates = { 0.0, 2.5e-5, 5e-5, 7.5e-5, 1e-4, 1e-4 * (1 - 500 / 8000) }
    for step, rate in ipairs(rates) do
      rows = rows .. ("w\t%d\t500\t500\t500\t%d\t%d\t%.17g\t%.17g\n"):format(step, 500 * (step - 1), 500 * step,
        rates[step - 1] or 0, rate)
    end
    for _, steps in ipairs { "-", "0", "0.0" } do
      local config = ("w\tlinear\t0.0001\t0\t%s\t2000\t10000\t1\t500\t12\t0\t-\t-\n"):format(steps)
      local code, out = check_copy({ "lr_tokens_configs", "lr_tokens_golden" }, function(_, name)
        return name == "lr_tokens_configs" and head .. config or rows
      end)
      assert.equal(0, code, out)
      assert.truthy(out:find("total +6 rows, 0 mismatches"), out)
    end
  end)

  it("may have lines that end in CR LF and a byte order mark", function()
    local code, out = check_copy(ALL, function(text) return "\u{FEFF}" .. text:gsub("\n", "\r\n") end)
    assert.equal(0, code, out)
    assert.truthy(out:find("total +241 rows, 0 mismatches"), out)
  end)

  it("are counted as wrong if the table that explains them is missing; an empty one has no rows", function()
    for _, name in ipairs { "configs", "lr_tokens_configs", "selection_tables", "cluster_scenarios" } do
      local code, out = check_copy(ALL, function(text, which) return which == name and "" or text end)
      assert.equal(1, code)
      assert.truthy(out:find(name .. ".tsv is missing", 1, true), out)
    end
    local code, out = check_copy(ALL, function(text, which)
      return which == "selection_golden" and text:match("^[^\n]*\n") or text
    end)
    assert.equal(0, code, out)
    assert.truthy(out:find("total +222 rows, 0 mismatches"), out)
  end)

  it("have fractional difficulties, as lists and as quanta", function()
    local configs = "config_id\tkind\tmin\tmax\tschedule_type\ttotal_step\tdifficulty_step\troot_degree\t"
      .. "difficulty_list\tmax_step_list\n"
      .. "half\tcurriculum\t52\t54\tfixed_linear\t1000\t1.5\t-\t-\t-\n"
      .. "list\tcurriculum\t0.5\t2.5\tfixed_discrete\t-\t-\t-\t[0.5,2.5]\t[3]\n"
    local rows = "config_id\tstep\tget\tupdate\n" .. "half\t250\t51.0\t51.0\n" .. "half\t1000\t54\t54\n"
      .. "list\t3\t0.5\t0.5\n" .. "list\t4\t2.5\t2.5\n"
    local code, out = check_copy({ "configs", "schedule_golden" }, function(_, name)
      return name == "configs" and configs or rows
    end)
    assert.equal(0, code, out)
    assert.truthy(out:find("total +4 rows, 0 mismatches"), out)
  end)
end)

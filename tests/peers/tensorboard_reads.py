#!/usr/bin/env python3
"""TensorBoard reads seqrun's event files: the same numbers and text, without steps that a resume discarded.

    pip install tensorboard
    tests/peers/tensorboard_reads.py build/seqrun

Outside `make test`, since TensorBoard is large.
"""
import glob
import json
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

WRITER = """
local metrics = require "seqrun.history.metrics"
local function write(from, first, last, offset)
  local m = assert(metrics.open(arg[1], { step = from }))
  m:text("config", "seed: 1")
  for step = first, last do
    assert(m:write { step = step, loss = step / 3 + offset, lr = 1e-4 * step, grad_norm = step == 4 and 0 / 0 or 1.5 })
  end
  assert(m:write { type = "eval", step = last, mlm_loss = 5.5 })
  m:close()
end
write(0, 1, 1000, 0)
write(500, 501, 800, 10)
"""


def main() -> int:
    seqrun = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        script = folder + "/write.lua"
        with open(script, "w", encoding="utf-8") as f:
            f.write(WRITER)
        subprocess.run([seqrun, script, folder], check=True)
        files = glob.glob(folder + "/events.out.tfevents.*")
        assert len(files) == 2, files
        events = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()

        with open(folder + "/metrics.jsonl", encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        wanted = [(line["step"], line["loss"]) for line in lines if line["type"] == "train"]
        found = [(e.step, e.value) for e in events.Scalars("train/loss")]
        assert [s for s, _ in found] == list(range(1, 801)) == [s for s, _ in wanted], "steps differ"
        worst = max(abs(a - b) / max(1, abs(b)) for (_, a), (_, b) in zip(found, wanted))
        assert worst < 1e-6, worst  # stored as f32
        norms = {e.step: e.value for e in events.Scalars("train/grad_norm")}
        assert norms[4] != norms[4] and norms[5] == 1.5
        assert events.Scalars("eval/mlm_loss")[-1].value == 5.5
        assert events.Tensors("config")[-1].tensor_proto.string_val[0] == b"seed: 1"
    print(f"TensorBoard reads {len(found)} steps in two files, largest relative difference {worst:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

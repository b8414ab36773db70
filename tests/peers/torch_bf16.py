"""Errors of PyTorch's bf16 on the small golden BERT, written to tests/data/model/tiny/bf16.tsv.

    python3 tests/peers/torch_bf16.py tests/data/model/tiny > tests/data/model/tiny/bf16.tsv

Two ways to train in bf16 are run, one sequence at a time: `bf16`, all parameters and activations in bf16, and
`autocast`, f32 parameters with torch.autocast.  A row is a tensor and the error of each against expected.safetensors
(double precision): of outputs and losses the largest error over the largest magnitude, of gradients the norm of the
error over the larger of the norm of the gradient and a thousandth of that of all gradients; `gradients` is all of them
together.
"""

import json
import sys

import torch
import transformers
from safetensors.torch import load_file
from transformers import BertForPreTraining

torch.manual_seed(0)
folder = sys.argv[1]
expected = {k: v.double() for k, v in load_file(folder + "/expected.safetensors").items()}
sequences = json.load(open(folder + "/input.json"))["sequences"]
masked = sum(len(s["masked_positions"]) for s in sequences)


def measure(model, autocast):
    """Outputs, losses and gradients of all sequences as one update."""
    model.eval()
    found = {"mlm_logits": [], "nsp_logits": [], "hidden": []}
    mlm_loss = nsp_loss = 0.0
    for s in sequences:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = model(input_ids=torch.tensor([s["ids"]]), token_type_ids=torch.tensor([s["types"]]),
                        output_hidden_states=True)
        logits = out.prediction_logits[0, s["masked_positions"]].float()
        nsp = out.seq_relationship_logits.float()
        found["mlm_logits"].append(logits)
        found["nsp_logits"].append(nsp)
        found["hidden"].append(out.hidden_states[-1][0].float())
        mlm = torch.nn.functional.cross_entropy(logits, torch.tensor(s["masked_labels"]), reduction="sum") / masked \
            if s["masked_positions"] else torch.zeros(())
        one = torch.nn.functional.cross_entropy(nsp, torch.tensor([s["nsp"]])) / len(sequences)
        (mlm + one).backward()
        mlm_loss, nsp_loss = mlm_loss + mlm.item(), nsp_loss + one.item()
    found = {k: torch.cat([t.detach() for t in v]).double() for k, v in found.items()}
    found["mlm_loss"], found["nsp_loss"] = torch.tensor(mlm_loss).double(), torch.tensor(nsp_loss).double()
    for name, p in model.named_parameters():
        if "grad." + name in expected:
            found["grad." + name] = p.grad.double()
    return found


def errors(found):
    total = torch.sqrt(sum((v ** 2).sum() for k, v in expected.items() if k.startswith("grad.")))
    rows, off = {}, 0.0
    for name, want in expected.items():
        got = found[name].reshape(want.shape)
        if name.startswith("grad."):
            difference = (got - want).norm()
            rows[name] = (difference / max(want.norm(), 1e-3 * total)).item()
            off += difference.item() ** 2
        else:
            rows[name] = ((got - want).abs().max() / want.abs().max()).item()
    rows["gradients"] = off ** 0.5 / total.item()
    return rows


def model(dtype):
    return BertForPreTraining.from_pretrained(folder, dtype=dtype, attn_implementation="eager")


low, cast = errors(measure(model(torch.bfloat16), False)), errors(measure(model(torch.float32), True))
print(f"# tests/peers/torch_bf16.py: PyTorch {torch.__version__}, Transformers {transformers.__version__}, cpu")
print("tensor\tbf16\tautocast")
for name in sorted(low):
    print(f"{name}\t{low[name]:.3e}\t{cast[name]:.3e}")

# optim_golden.py - writes tests/data/optim: weights after steps of optimizers of other libraries.
#
#     python3 tests/peers/optim_golden.py tests/data/optim          (torch, torch-optimi)
#
# Everything is in f64.  Muon of PyTorch casts to bf16 before its products; here it is compiled again without that cast.
import importlib.metadata
import inspect
import json
import math
import sys

import numpy as np
import optimi
import torch
import torch.optim._muon as torch_muon


def start(i, n):
    """Values of tensor i (from 0) of n elements."""
    return np.cos(0.9 * np.arange(n, dtype=np.float64) + i)


def gradient(t, i, n):
    """The gradient of tensor i at step t (from 1); now and then it is large."""
    k = np.arange(n, dtype=np.float64)
    x = np.sin(0.7 * t + 1.3 * i + 0.37 * k * (1 + t % 7) + 0.11 * k * k) * 10.0 ** (-(t % 5) / 2)
    return x * 30 if t % 20 == 0 else x


def rate(t):
    return 1e-2 * (1 + 0.5 * math.sin(t / 9))


def stable_adamw(fully, sizes=(7, 5)):
    w = [torch.tensor(start(i, n), requires_grad=True) for i, n in enumerate(sizes)]
    opt = optimi.StableAdamW(
        [{"params": [w[0]], "weight_decay": 0.1}, {"params": [w[1]], "weight_decay": 0.0}],
        lr=1e-2, betas=(0.9, 0.98), eps=1e-6, decouple_lr=fully, max_lr=2e-2 if fully else None,
        foreach=False, triton=False)
    rows = []
    for t in range(1, 101):
        for group in opt.param_groups:
            group["lr"] = rate(t)
        for i, p in enumerate(w):
            p.grad = torch.tensor(gradient(t, i, sizes[i]))
        opt.step()
        if t in (1, 2, 20, 50, 100):
            rows.append({"step": t, "w": [p.detach().tolist() for p in w]})
    return rows


def without_cast():
    source = inspect.getsource(torch_muon._zeropower_via_newtonschulz)
    assert "torch.bfloat16" in source
    names = dict(vars(torch_muon))
    exec(source.replace("torch.bfloat16", "torch.float64"), names)
    torch_muon._zeropower_via_newtonschulz = names["_zeropower_via_newtonschulz"]


def muon(nesterov, scale, rows, columns):
    n = rows * columns
    w = torch.tensor(start(0, n).reshape(rows, columns), requires_grad=True)
    opt = torch.optim.Muon([w], lr=2e-2, weight_decay=0.1, momentum=0.95, nesterov=nesterov,
                           adjust_lr_fn={"rms": "match_rms_adamw", "shape": "original"}[scale])
    steps = []
    for t in range(1, 11):
        w.grad = torch.tensor(gradient(t, 0, n).reshape(rows, columns))
        opt.step()
        if t in (1, 2, 10):
            steps.append({"step": t, "w": w.detach().flatten().tolist()})
    return {"nesterov": nesterov, "scale": scale, "rows": rows, "columns": columns, "steps": steps}


def write(name, content):
    with open(f"{sys.argv[1]}/{name}.json", "w") as f:
        json.dump(content, f)
        f.write("\n")


without_cast()
write("stable_adamw", {"made": "torch-optimi " + importlib.metadata.version("torch-optimi"),
                       "decoupled": stable_adamw(False), "fully": stable_adamw(True)})
write("muon", {"made": "torch " + torch.__version__.split("+")[0],
               "cases": [muon(True, "rms", 4, 6), muon(True, "shape", 6, 4), muon(False, "rms", 5, 5)]})

#!/usr/bin/env python3
"""What Transformers and sentence-transformers make of the directories in tests/data/directories/cases.json: the ids of
their tokenizers, the vectors of their texts.  tests/spec/directories_spec.lua wants the same from seqrun.

    python3 tests/peers/directories.py           compares with tests/data/directories/wanted.json
    python3 tests/peers/directories.py --write   writes it

Made with Transformers 5.24 and sentence-transformers 6.2.  Not part of `make test`, since PyTorch is large.
"""
import json
import pathlib
import sys
import tempfile

import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer
from transformers.utils import logging

logging.disable_progress_bar()
torch.set_num_threads(1)
DATA = pathlib.Path(__file__).parents[1] / "data"
WANTED = DATA / "directories/wanted.json"
CASES = json.loads((DATA / "directories/cases.json").read_text())


def formula(rows, columns, a, b, modulus):
    """Weights that Lua and Python compute alike."""
    return torch.tensor([[((i * a + j * b) % modulus - modulus // 2) / 64 for j in range(columns)] for i in range(rows)])


def make(folder, case):
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((DATA / "model/tiny" / name).read_bytes())
    kind = case.get("json")
    if kind in (None, "bert"):
        (folder / "vocab.txt").write_text("\n".join(CASES["words"].split()) + "\n")
    if kind == "bert":
        AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
        for name in ("vocab.txt", "tokenizer_config.json"):
            (folder / name).unlink(missing_ok=True)
    elif kind:
        for name in ("config.json", "tokenizer.json"):
            (folder / name).write_bytes((DATA / "families" / kind / name).read_bytes())
    for name, value in case["files"].items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    dense = case.get("dense")
    if dense:
        outputs = dense["outputs"]
        tensors = {"linear.weight": formula(outputs, 32, 31, 17, 23), "linear.bias": formula(outputs, 1, 7, 0, 5)[:, 0]}
        if dense["residual"]:
            tensors["residual.weight"] = formula(outputs, 32, 13, 29, 19)
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / dense["path"] / "model.safetensors")


def tokens(folder, case):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [tokenizer(text)["input_ids"] for text in case.get("texts", CASES["texts"])]


def vectors(folder, case):
    model = SentenceTransformer(str(folder), device="cpu")
    encode = {"query": model.encode_query, "document": model.encode_document}.get(case.get("role"), model.encode)
    prompt = case.get("prompt")
    options = {} if prompt is None else {"prompt_name": prompt} if prompt in model.prompts else {"prompt": prompt}
    return [[float(f"{x:.6g}") for x in v] for v in encode(case.get("sentences", CASES["sentences"]), show_progress_bar=False, **options)]


def main():
    found = {}
    for kind, function in (("tokens", tokens), ("vectors", vectors)):
        found[kind] = {}
        for case in CASES[kind]:
            with tempfile.TemporaryDirectory() as place:
                make(pathlib.Path(place), case)
                found[kind][case["name"]] = function(pathlib.Path(place), case)
    if "--write" in sys.argv:
        lines = [f"{json.dumps(k)}: {{\n" + ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in cases.items()) +
                 "}" for k, cases in found.items()]
        WANTED.write_text("{" + ",\n".join(lines) + "}\n")
        return 0
    wanted, bad = json.loads(WANTED.read_text()), 0
    for kind, cases in found.items():
        for name, values in cases.items():
            good = torch.allclose(*(torch.tensor(sum(x, []), dtype=torch.float64) for x in (values, wanted[kind][name])),
                                  atol=1e-5)
            bad += not good
            print(f"{'ok' if good else 'DIFFERS'}  {kind}: {name}")
    return 1 if bad else 0


sys.exit(main())

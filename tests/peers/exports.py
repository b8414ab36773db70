#!/usr/bin/env python3
"""Models of every family with every kind of tokenizer and every task, exported by seqrun, predict the same in
Transformers, from raw text and from words; tests/spec/exports_spec.lua wants what they predict there.

    python3 tests/peers/exports.py [--seqrun build/seqrun]           compares with seqrun
    python3 tests/peers/exports.py --write                           writes tests/data/directories/exports.json

Made with Transformers 5.24.  Not part of `make test`, since PyTorch is large.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer

transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
ROOT = pathlib.Path(__file__).parents[2]
WANTED = ROOT / "tests/data/directories/exports.json"
TOLERANCE = 1e-4


def classify(model, tokenizer, item):
    return model(**tokenizer(item["text"], item.get("pair"), return_tensors="pt")).logits[0].softmax(-1)


def tokens(model, tokenizer, item):
    split = tokenizer(item["words"], is_split_into_words=True, return_tensors="pt")
    raw = tokenizer(" ".join(item["words"]))["input_ids"]
    if raw != split["input_ids"][0].tolist():
        raise ValueError(f"raw text {raw}, words {split['input_ids'][0].tolist()}")
    p, ids = model(**split).logits[0].softmax(-1), split.word_ids()
    return torch.stack([p[ids.index(i)].max() for i in range(len(item["words"]))])


def squad(model, tokenizer, item):
    encoded = tokenizer(item["question"], item["context"], return_tensors="pt")
    out, parts = model(**encoded), encoded.sequence_ids()
    inside = [i for i, part in enumerate(parts) if part == 1]
    start, end = out.start_logits[0], out.end_logits[0]
    return torch.stack([max(start[i] + end[j] for i in inside for j in inside if i <= j < i + 30), start[0] + end[0]])


def choice(model, tokenizer, item):
    encoded = tokenizer([item["text"]] * len(item["choices"]), item["choices"], return_tensors="pt", padding=True)
    return model(**{k: v[None] for k, v in encoded.items()}).logits[0].softmax(-1)


def predict(case):
    name = AutoConfig.from_pretrained(case["out"]).architectures[0]
    model, report = getattr(transformers, name).from_pretrained(case["out"], output_loading_info=True)
    wrong = [key for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in report[kind]]
    if wrong:
        raise ValueError(f"keys {wrong}")
    tokenizer, ids = AutoTokenizer.from_pretrained(case["out"]), model.config
    for role in ("cls", "sep", "bos", "eos", "pad", "mask"):
        wanted = {"bos": "cls", "eos": "sep"}.get(role, role)
        given, token = getattr(ids, role + "_token_id", None), getattr(tokenizer, wanted + "_token_id", None)
        if given is not None and given != token:
            raise ValueError(f"{role}_token_id is {given}, the tokenizer's {wanted} is {token}")
    with torch.no_grad():
        return [globals()[case["task"]](model.eval(), tokenizer, item).tolist() for item in case["items"]]


def main():
    seqrun = sys.argv[sys.argv.index("--seqrun") + 1] if "--seqrun" in sys.argv else "build/seqrun"
    bad, found = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([seqrun, "tests/peers/exports.lua", folder], check=True, cwd=ROOT, stderr=subprocess.DEVNULL)
        for case in json.loads(pathlib.Path(folder, "cases.json").read_text()):
            try:
                theirs = predict(case)
                found[case["name"]] = [[float(f"{x:.6g}") for x in row] for row in theirs]
                error = max(abs(a - b) for x, y in zip(theirs, case["predicted"]) for a, b in zip(x, y))
                good, text = error <= TOLERANCE, f"largest error {error:.1e}"
            except Exception as problem:
                good, text = False, f"{type(problem).__name__}: {str(problem)[:300]}"
            bad += not good
            print(f"{'ok  ' if good else 'FAIL'} {case['name']}: {text}")
    if "--write" in sys.argv and not bad:
        WANTED.write_text("{" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "}\n")
    return 1 if bad else 0


sys.exit(main())

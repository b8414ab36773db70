#!/usr/bin/env python3
"""The task models of Transformers predict the same here, and those saved here load there without a missing or an
unexpected key and predict the same.

    python3 tests/peers/task_models.py [--seqrun build/seqrun] [--checkpoint DIR ...]

Small random models are made by Transformers; --checkpoint adds models fine-tuned here.  Not part of `make test`, since
PyTorch is large.  Prints one line a check; the exit code is 1 when a check fails.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, BertConfig

VOCAB = pathlib.Path(__file__).parents[1] / "data/model/tiny/vocab.txt"
TEXTS = ["the cat is here", "a", "it was not the same as that , and he was there", "", "she had it"]
TOLERANCE = 1e-4


def make(folder, name, **more):
    torch.manual_seed(1)
    words = VOCAB.read_text().split("\n")
    config = BertConfig(vocab_size=len(words) - 1, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=128, max_position_embeddings=64, **more)
    model = getattr(transformers, name)(config)
    for p in model.parameters():  # large enough to expose errors
        torch.nn.init.normal_(p, std=0.2)
    model.save_pretrained(folder)
    pathlib.Path(folder, "vocab.txt").write_text(VOCAB.read_text())
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def load(folder):
    name = AutoConfig.from_pretrained(folder).architectures[0]
    model, report = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    wrong = {k: sorted(map(str, report[k])) for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if report[k]}
    return model.eval(), AutoTokenizer.from_pretrained(folder), name, wrong


def softmax(x):
    return torch.softmax(x, -1)


def theirs_sequences(model, tok, pairs):
    for a, b in pairs:
        logits = model(**tok(a, b, return_tensors="pt")).logits[0]
        kind = model.config.problem_type or ("regression" if model.config.num_labels == 1 else "")
        if kind == "regression":
            yield logits
        else:
            yield torch.sigmoid(logits) if kind.startswith("multi") else softmax(logits)


def theirs_tokens(model, tok, pairs):
    for a, _ in pairs:
        words = a.split()
        if not words:
            yield torch.zeros(0)
            continue
        enc = tok(words, is_split_into_words=True, return_tensors="pt")
        p, first, seen = softmax(model(**enc).logits[0]), [], set()
        for i, w in enumerate(enc.word_ids()):
            if w is not None and w not in seen:
                seen.add(w)
                first.append(p[i].max())
        yield torch.stack(first)


def theirs_choice(model, tok, pairs):
    for a, _ in pairs:
        enc = tok([a] * 3, TEXTS[:3], return_tensors="pt", padding=True)
        yield softmax(model(**{k: v[None] for k, v in enc.items()}).logits[0])


def theirs_answers(model, tok, pairs):
    for a, b in pairs:
        enc = tok(a, b, return_tensors="pt")
        out = model(**enc)
        ids = enc.sequence_ids()
        inside = [i for i in range(len(ids)) if ids[i] == 1]
        scores = [out.start_logits[0, i] + out.end_logits[0, j] for i in inside for j in inside if i <= j < i + 30]
        yield torch.stack([max(scores), out.start_logits[0, 0] + out.end_logits[0, 0]])


def ours(seqrun, folder, name, pairs):
    lines = []
    for a, b in pairs:
        if name.endswith("MultipleChoice"):
            lines.append({"text": a, "choices": TEXTS[:3]})
        elif name.endswith("QuestionAnswering"):
            lines.append({"question": a, "context": b})
        else:
            lines.append({"text": a} | ({"pair": b} if b else {}))
    text = "".join(json.dumps(line) + "\n" for line in lines)
    out = subprocess.run([seqrun, "predict", folder, "--format", "jsonl", "--null-threshold", "1e9"], input=text,
                         capture_output=True, text=True, check=True).stdout
    labels = AutoConfig.from_pretrained(folder).id2label
    for line in map(json.loads, out.splitlines()):
        if "score" in line:
            yield torch.tensor([line["score"], line["null_score"]])
        elif isinstance(line.get("probabilities"), dict):
            yield torch.tensor([line["probabilities"][labels[i]] for i in range(len(labels))])
        else:
            yield torch.tensor(line.get("probabilities", line.get("values", [line.get("value")])))


def check(name, good, text):
    print(f"{'ok  ' if good else 'FAIL'} {name}: {text}")
    return good


def same(title, seqrun, folder):
    model, tok, name, wrong = load(folder)
    pairs = [(t, None) for t in TEXTS] + [(TEXTS[0], TEXTS[2]), (TEXTS[2], TEXTS[4])]
    if name.endswith("QuestionAnswering"):
        pairs = [(a, b) for a in TEXTS[:3] for b in TEXTS if b]
    theirs = {"Se": theirs_sequences, "To": theirs_tokens, "Mu": theirs_choice, "Qu": theirs_answers}[name[7:9]]
    with torch.no_grad():
        wanted = list(theirs(model, tok, pairs))
    got = list(ours(seqrun, folder, name, pairs))
    error = max([((a - b).abs().max() / max(1, b.abs().max())).item() for a, b in zip(got, wanted) if b.numel()])
    whole = check(title, not wrong, wrong or "no missing, no unexpected key")
    return check(title, len(got) == len(wanted) and error <= TOLERANCE, f"largest error {error:.1e}") and whole


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seqrun", default="build/seqrun")
    parser.add_argument("--checkpoint", nargs="*", default=[], help="step-* directories of runs")
    args = parser.parse_args()
    models = [
        ("BertForSequenceClassification", {"id2label": {0: "no", 1: "yes", 2: "maybe"}}),
        ("BertForSequenceClassification", {"num_labels": 1, "problem_type": "regression"}),
        ("BertForSequenceClassification", {"num_labels": 4, "problem_type": "multi_label_classification"}),
        ("BertForTokenClassification", {"id2label": {0: "O", 1: "B-X", 2: "I-X"}}),
        ("BertForQuestionAnswering", {}), ("BertForMultipleChoice", {}),
    ]
    good = True
    with tempfile.TemporaryDirectory() as tmp:
        for i, (name, more) in enumerate(models):
            theirs, run = f"{tmp}/theirs{i}", f"{tmp}/run{i}"
            make(theirs, name, **more)
            good &= same(f"{name} {more.get('problem_type', '')}, made there", args.seqrun, theirs)
            subprocess.run([args.seqrun, "tests/peers/task_models.lua", f"from={theirs}", f"out={run}"], check=True)
            saved = str(next(pathlib.Path(run).glob("step-*")))
            good &= same(f"{name} {more.get('problem_type', '')}, saved here", args.seqrun, saved)
        for folder in args.checkpoint:
            good &= same(folder, args.seqrun, folder)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Names in texts (task=tokens) beside Transformers: same directory, same CoNLL files, same settings, several seeds.

    python3 tests/peers/ner.py DIR OUT [--seqrun build/seqrun] [--seeds 1 2 3] [--rate 1e-3] [--epochs 4]

DIR is an encoder that both load, with a byte-level BPE or another tokenizer, as `seqrun export` writes it.  Writes
OUT/train.conll and OUT/dev.conll, sentences of Emma labelled by rules, fine-tunes with both programs and prints the F1
of entities of each seed, with mean and deviation.
Needs torch and transformers.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForTokenClassification, AutoTokenizer, get_linear_schedule_with_warmup

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
TITLES = {"Mr", "Mrs", "Miss", "Dr", "Sir", "Lady", "Captain"}
NAMES = set("""Emma Harriet Knightley Elton Weston Churchill Jane Fairfax Bates Woodhouse Frank Fanny Edmund Crawford Bertram Norris
Tom Julia Maria Rushworth Mary Henry Thomas Yates Grant William Susan Price Robert Martin George John Isabella""".split())
PLACES = set("""Highbury Hartfield Randalls Donwell Enscombe London Weymouth Kingston Mansfield Portsmouth Northamptonshire Sotherton
Norfolk Bath Surry Ireland England Richmond Antigua Oxford Yorkshire""".split())
DAYS = set("""Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August September
October November December Christmas Michaelmas Easter""".split())


# ---- data -------------------------------------------------------------------------------------------------------

def sentences(path):
    text = " ".join(open(path, encoding="utf-8").read().replace("_", "").split())
    for sentence in re.split(r"(?<=[a-z][.!?])\s+(?=[\"A-Z])", text):
        words = re.findall(r"\w+(?:['-]\w+)*|[^\w\s]", sentence)
        if 6 <= len(words) <= 50:
            yield words


def tags(words):
    """IOB2 by rules: titles with names, names, places, days."""
    out = ["O"] * len(words)
    i = 0
    while i < len(words):
        end, kind = i + 1, None
        if words[i] in TITLES:
            if end < len(words) and words[end] == ".":
                end += 1
            kind = "PER" if end < len(words) and words[end][0].isupper() else None
            while kind and end < len(words) and words[end][0].isupper():
                end += 1
        elif words[i] in PLACES:
            kind = "LOC"
        elif words[i] in NAMES:
            kind = "PER"
            while end < len(words) and words[end] in NAMES:
                end += 1
        elif words[i] in DAYS:
            kind = "DATE"
        if kind:
            out[i:end] = ["B-" + kind] + ["I-" + kind] * (end - i - 1)
        i = end
    return out


def draw(train, dev):
    """Sentences with names, none of them in both parts."""
    rows = [(words, tags(words)) for words in sentences(os.path.join(ROOT, "recipes/data/emma.txt"))]
    named = random.Random(7).sample([row for row in rows if any(tag != "O" for tag in row[1])], train + dev)
    return {"train": named[:train], "dev": named[train:]}


def write(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        for words, labels in rows:
            f.writelines("%s %s\n" % pair for pair in zip(words, labels))
            f.write("\n")


# ---- scores -----------------------------------------------------------------------------------------------------

def spans(labels):
    """Entities as conlleval has them: I- after another kind begins one."""
    found, start, kind = set(), None, None
    for i, label in enumerate(labels + ["O"]):
        head, _, this = label.partition("-")
        if start is not None and (head != "I" or this != kind):
            found.add((start, i, kind))
            start = None
        if head == "B" or (head == "I" and start is None):
            start, kind = i, this
    return found


def f1(wanted, given):
    right = sum(len(spans(a) & spans(b)) for a, b in zip(wanted, given))
    total = sum(len(spans(a)) for a in wanted) + sum(len(spans(b)) for b in given)
    return 2 * right / total if total else 0.0


# ---- Transformers -----------------------------------------------------------------------------------------------

def words_tokenizer(folder):
    """Every word keeps the space before it; a directory without a class of tokenizers ignores add_prefix_space=True."""
    tokenizer = AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    backend = tokenizer.backend_tokenizer
    if isinstance(backend.pre_tokenizer, pre_tokenizers.ByteLevel):
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return tokenizer


def encode(tokenizer, rows, names, longest):
    out = []
    for words, labels in rows:
        e = tokenizer(words, is_split_into_words=True, truncation=True, max_length=longest)
        ids, before, wanted = e.word_ids(), None, []
        for word in ids:
            wanted.append(names.index(labels[word]) if word is not None and word != before else -100)
            before = word
        out.append((e["input_ids"], wanted))
    return out


def pad(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def batch_of(rows, tokenizer):
    ids = [row[0] for row in rows]
    return {"input_ids": pad(ids, tokenizer.pad_token_id), "attention_mask": pad([[1] * len(i) for i in ids], 0),
            "labels": pad([row[1] for row in rows], -100)}


def transformers_f1(args, rows, seed):
    torch.manual_seed(seed)
    names = sorted({label for _, labels in rows["train"] for label in labels})
    tokenizer = words_tokenizer(args.dir)
    model = AutoModelForTokenClassification.from_pretrained(args.dir, num_labels=len(names))
    data = {part: encode(tokenizer, rows[part], names, args.length) for part in rows}
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "norm" in n.lower()]
    seen = set(map(id, plain))
    groups = [{"params": [p for p in model.parameters() if id(p) not in seen], "weight_decay": 0.01},
              {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, eps=1e-8)
    updates = -(-len(data["train"]) // args.batch) * args.epochs
    schedule = get_linear_schedule_with_warmup(optimizer, round(0.1 * updates), updates)
    model.train()
    for epoch in range(args.epochs):
        order = torch.randperm(len(data["train"])).tolist()
        for at in range(0, len(order), args.batch):
            batch = batch_of([data["train"][i] for i in order[at:at + args.batch]], tokenizer)
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    wanted, given = [], []
    with torch.no_grad():
        for at in range(0, len(data["dev"]), 64):
            batch = batch_of(data["dev"][at:at + 64], tokenizer)
            best = model(**batch).logits.argmax(-1)
            for labels, guess in zip(batch["labels"].tolist(), best.tolist()):
                wanted.append([names[a] for a in labels if a >= 0])
                given.append([names[b] for a, b in zip(labels, guess) if a >= 0])
    return f1(wanted, given)


# ---- seqrun -----------------------------------------------------------------------------------------------------

def seqrun_f1(args, seed):
    folder = os.path.join(args.out, "seqrun-%d" % seed)
    subprocess.run(
        [args.seqrun, os.path.join(ROOT, "recipes/finetune.lua"), "task=tokens", "init.from=" + args.dir,
         "data.train=" + args.out + "/train.conll", "data.dev=" + args.out + "/dev.conll", "data.folder=" + args.out,
         "data.max_len=%d" % args.length, "epochs=%d" % args.epochs, "rate.peak=%g" % args.rate,
         "batch.sequences=%d" % args.batch, "seed=%d" % seed, "eval.epochs=0", "--force", "--quiet",
         "--threads", str(args.threads), "--out", folder], check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(os.path.join(folder, "metrics.jsonl"))]
    return [line["f1"] for line in lines if line["type"] == "eval"][-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("out")
    parser.add_argument("--seqrun", default=os.path.join(ROOT, "build/seqrun"))
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--train", type=int, default=500)
    parser.add_argument("--dev", type=int, default=300)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    os.makedirs(args.out, exist_ok=True)
    rows = draw(args.train, args.dev)
    for part, some in rows.items():
        write(os.path.join(args.out, part + ".conll"), some)
    scores = {"seqrun": [], "Transformers": []}
    for seed in args.seeds:
        scores["seqrun"].append(seqrun_f1(args, seed))
        scores["Transformers"].append(transformers_f1(args, rows, seed))
        print("seed %d: seqrun %.4f, Transformers %.4f" % (seed, scores["seqrun"][-1], scores["Transformers"][-1]), flush=True)
    means = {}
    for name, all_of_them in scores.items():
        means[name] = statistics.mean(all_of_them)
        print("%-12s %.4f +- %.4f" % (name, means[name], statistics.stdev(all_of_them)))
    noise = max(statistics.stdev(s) for s in scores.values())
    far = abs(means["seqrun"] - means["Transformers"])
    print("difference of the means %.4f, larger deviation %.4f" % (far, noise))
    sys.exit(far > 2 * noise)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The updates of recipes/bench/embed.lua with sentence-transformers: forward, loss, backward, clipping, AdamW.

    embed.py TRAIN.csv MODEL [--batch 32] [--epochs 1] [--updates 0] [--threads 1] [--seed 1] [--bf16] [--dev DEV.csv]

TRAIN.csv has the columns anchor, positive, or sentence1, sentence2, score.  Texts of an update are padded to its
longest anchor and its longest positive, as the library does.  Prints real tokens per second, by the clock and by
processor time, and with --dev the correlations of cosines and scores.  Needs sentence-transformers and torch.
"""
import argparse
import csv
import json
import random
import time

import torch
from scipy.stats import pearsonr, spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.losses import CoSENTLoss, MultipleNegativesRankingLoss


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("train")
    p.add_argument("model")
    for name, kind, value in [("batch", int, 32), ("epochs", int, 1), ("updates", int, 0), ("threads", int, 1),
                              ("seed", int, 1), ("rate", float, 2e-5), ("max-len", int, 128)]:
        p.add_argument("--" + name, type=kind, default=value)
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--dev")
    return p.parse_args()


def rows_of(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def evaluate(model, path):
    rows = rows_of(path)
    a = model.encode([r["sentence1"] for r in rows], normalize_embeddings=True)
    b = model.encode([r["sentence2"] for r in rows], normalize_embeddings=True)
    gold, cosines = [float(r["score"]) for r in rows], (a * b).sum(1)
    return {"spearman": float(spearmanr(gold, cosines)[0]), "pearson": float(pearsonr(gold, cosines)[0])}


def main():
    t = arguments()
    torch.manual_seed(t.seed)
    random.seed(t.seed)
    torch.set_num_threads(t.threads)
    model = SentenceTransformer(t.model, device="cpu")
    model.max_seq_length = t.max_len
    rows = rows_of(t.train)
    scored = "score" in rows[0]
    first, second = ("sentence1", "sentence2") if scored else ("anchor", "positive")
    loss = CoSENTLoss(model) if scored else MultipleNegativesRankingLoss(model)
    each = (len(rows) + t.batch - 1) // t.batch
    total = each * t.epochs
    decayed = [p for n, p in model.named_parameters() if "bias" not in n and "LayerNorm" not in n]
    others = [p for n, p in model.named_parameters() if "bias" in n or "LayerNorm" in n]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}],
                                  lr=t.rate, fused=True)
    warmup = round(0.1 * total)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: (s + 1) / max(1, warmup) if s < warmup else max(0, (total - s) / max(1, total - warmup)))
    model.train()
    done, tokens = 0, 0
    for epoch in range(t.epochs):
        random.shuffle(rows)
        for i in range(0, len(rows), t.batch):
            if done == 1:  # the first update warms up
                began, cpu, tokens = time.time(), time.process_time(), 0
            part = rows[i:i + t.batch]
            features = [model.tokenize([r[c] for r in part]) for c in (first, second)]
            tokens += sum(int(f["attention_mask"].sum()) for f in features)
            labels = torch.tensor([float(r["score"]) for r in part]) if scored else None
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=t.bf16):
                value = loss(features, labels)
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done += 1
            if done == t.updates:
                break
        if done == t.updates:
            break
    seconds, cpu = time.time() - began, time.process_time() - cpu
    found = {"updates": done, "tokens_per_second": tokens / seconds, "tokens_per_cpu_second": tokens / cpu,
             "loss": float(value)}
    if t.dev:
        model.eval()
        found.update(evaluate(model, t.dev))
    print(json.dumps(found))


main()

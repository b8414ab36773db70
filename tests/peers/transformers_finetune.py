#!/usr/bin/env python3
"""Repeats the updates of tests/peers/finetune.lua with Transformers, padded, and compares losses and weights.

    transformers_finetune.py KIND OUT

Needs torch, transformers, safetensors.  Exits with 1 if a loss differs by more than 1e-4 (relative).
"""
import json
import sys
import time

import torch
import transformers
from safetensors.torch import load_file

CLASSES = {
    "classify": "BertForSequenceClassification", "regress": "BertForSequenceClassification",
    "multilabel": "BertForSequenceClassification", "tokens": "BertForTokenClassification",
    "squad": "BertForQuestionAnswering", "choice": "BertForMultipleChoice",
}


def pad(rows, value=0):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def inputs_of(sequences):
    ids = [s["ids"] for s in sequences]
    return {
        "input_ids": pad(ids), "token_type_ids": pad([s["types"] for s in sequences]),
        "attention_mask": pad([[1] * len(row) for row in ids]),
    }


def loss_of(kind, model, sequences):
    if kind == "choice":
        sequences = sorted(sequences, key=lambda s: s["group"])
    inputs = inputs_of(sequences)
    first = [s["labels"][0]["label"] if s["labels"] else None for s in sequences]
    if kind == "tokens":
        labels = torch.full(inputs["input_ids"].shape, -100)
        for i, s in enumerate(sequences):
            for item in s["labels"]:
                labels[i, item["position"]] = item["label"]
        return model(**inputs, labels=labels).loss
    if kind == "squad":
        # Transformers lets padding take part in the softmax; masked here, as for a sequence alone.
        out, outside = model(**inputs), inputs["attention_mask"] == 0
        ends = [out.start_logits.masked_fill(outside, -1e30), out.end_logits.masked_fill(outside, -1e30)]
        return sum(torch.nn.functional.cross_entropy(x, torch.tensor([f[i] for f in first]))
                   for i, x in enumerate(ends)) / 2
    if kind == "choice":
        questions = len({s["group"] for s in sequences})
        inputs = {k: v.view(questions, -1, v.shape[1]) for k, v in inputs.items()}
        right = torch.tensor([f is not None for f in first]).view(questions, -1).int().argmax(1)
        return model(**inputs, labels=right).loss
    if kind == "regress":
        wanted = torch.tensor(first, dtype=torch.float32)
        return model(**inputs, labels=wanted).loss
    if kind == "multilabel":
        return model(**inputs, labels=torch.tensor(first, dtype=torch.float32)).loss
    return model(**inputs, labels=torch.tensor(first)).loss


def main():
    kind, out = sys.argv[1:3]
    start, end = f"{out}/start/step-000000000", f"{out}/end/step-000000000"
    cls = getattr(transformers, CLASSES[kind])
    weights = load_file(f"{start}/model.safetensors")
    outputs = weights["classifier.weight"].shape[0] if "classifier.weight" in weights else 2
    problem = {"regress": "regression", "multilabel": "multi_label_classification"}.get(kind)
    model, report = cls.from_pretrained(start, num_labels=outputs, problem_type=problem, output_loading_info=True)
    print({k: v for k, v in report.items() if v})
    model.train()  # dropout is 0
    decay = [p for n, p in model.named_parameters() if not (n.endswith("bias") or "LayerNorm" in n)]
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
                                  lr=1e-4, eps=1e-6)
    worst, began = 0.0, time.time()
    for i, line in enumerate(open(f"{out}/updates.jsonl")):
        update = json.loads(line)
        for group in optimizer.param_groups:
            group["lr"] = update["rate"]
        loss = loss_of(kind, model, update["sequences"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        difference = abs(loss.item() - update["loss"]) / max(abs(loss.item()), 1e-3)
        worst = max(worst, difference)
        if i % 10 == 0 or difference > 1e-4:
            print(f"update {i + 1}: {loss.item():.7f}, seqrun {update['loss']:.7f}, difference {difference:.1e}")
    seconds = time.time() - began
    ours, theirs = load_file(f"{end}/model.safetensors"), model.state_dict()
    far = max(((theirs[n] - w).abs().max().item(), n) for n, w in ours.items()
              if n in theirs and "key.bias" not in n)
    print(f"{kind}: largest difference of losses {worst:.1e}, of weights {far[0]:.1e} ({far[1]}); {seconds:.1f} s")
    sys.exit(worst > 1e-4)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Whether Transformers computes what seqrun does with an exported causal model, or ELECTRA's two networks.

    seqrun export runs/causal OUT && python3 tests/peers/causal_reads.py OUT lines.txt "$(which seqrun)"

Scores of `seqrun score` (causal, masked LM) are compared with those of Transformers, text by text.
"""
import json
import subprocess
import sys

import torch
import transformers

folder, lines, seqrun = sys.argv[1:4]
texts = [line.strip() for line in open(lines) if line.strip()]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
config = transformers.AutoConfig.from_pretrained(folder)
model, info = getattr(transformers, config.architectures[0]).from_pretrained(folder, output_loading_info=True)
print(config.architectures[0], {key: list(value) for key, value in info.items() if value})
model = model.eval()


def score(text):
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    special = torch.tensor(tokenizer.get_special_tokens_mask(ids[0].tolist(), already_has_special_tokens=True)).bool()
    if "CausalLM" in config.architectures[0] or "LMHead" in config.architectures[0]:
        logs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
        values = logs.gather(1, ids[0, 1:, None])[:, 0]
        return values[~special[1:]].sum().item()
    total = 0.0
    for i in torch.nonzero(~special)[:, 0]:
        own = ids.clone()
        own[0, i] = tokenizer.mask_token_id
        total += model(input_ids=own).logits[0, i].log_softmax(-1)[ids[0, i]].item()
    return total


with torch.no_grad():
    theirs = [score(text) for text in texts]
out = subprocess.run([seqrun, "score", folder, "-", "--json"], input="\n".join(texts), capture_output=True, text=True,
                     check=True).stdout
ours = [json.loads(line)["score"] for line in out.splitlines()]
print("largest difference of a score", max(abs(a - b) for a, b in zip(theirs, ours)), "of", max(abs(a) for a in theirs))

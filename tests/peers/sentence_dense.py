#!/usr/bin/env python3
"""Opens a directory that seqrun has written in sentence-transformers and compares the vectors of some texts: pooling,
linear layer and normalisation.

    seqrun recipes/embed.lua init.from=MINILM data.train=pairs.csv embed.dense=32 embed.dense_activation=tanh \
        --max-steps 5 --out runs/dense
    seqrun export runs/dense dense
    python3 tests/peers/sentence_dense.py build/seqrun dense
"""
import json
import subprocess
import sys

import numpy as np
from sentence_transformers import SentenceTransformer

TEXTS = ["the weather was good", "he sold his horse", "it", "a fine day in the garden, said the man who came late"]

program, folder = sys.argv[1:3]
out = subprocess.run([program, "encode", folder], input="\n".join(TEXTS) + "\n", capture_output=True, text=True,
                     check=True).stdout
ours = np.array([json.loads(line)["embedding"] for line in out.splitlines()])
model = SentenceTransformer(folder, device="cpu")
theirs = model.encode(TEXTS)
worst = float(np.abs(ours - theirs).max())
print(f"{' -> '.join(type(m).__name__ for m in model)}: {theirs.shape[1]} numbers, largest difference {worst:.2g}")
sys.exit(0 if ours.shape == theirs.shape and worst < 1e-5 else 1)

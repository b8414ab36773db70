#!/usr/bin/env python3
"""Pseudo-log-likelihoods by Transformers: one padded copy of the text for each of its tokens, which is masked there.

    python3 tests/peers/score.py golden              writes tests/data/scores/pseudo.json: the small models of
                                                     tests/data/families, in f64, one copy at a time
    python3 tests/peers/score.py compare DIR FILE [BATCH [LENGTH]]   scores of both, and the seconds of both, in turns
    python3 tests/peers/score.py model DIR VOCAB SIZE   a random BERT to time: SIZE is layers x hidden

`compare` reads a text a line, and pads batches of 64 copies to their longest, as the BabyLM pipeline does; BATCH is
another number, LENGTH pads to that many tokens.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import torch
import transformers

ROOT = pathlib.Path(__file__).parents[2]
NAMES = ["bert", "roberta", "distilbert", "electra", "modernbert", "eurobert", "xlm_roberta"]
TEXTS = ["a day", "the", "he said to her that it was in the end.", "The hat of the sailor, and his hand!",
         "one one one", "it's a-b 10?"]
transformers.utils.logging.disable_progress_bar()


def load(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="sdpa").eval()
    return tokenizer, model


def copies_of(tokenizer, text):
    """(ids with one mask, its position, the label) for each token that is not special."""
    encoded = tokenizer(text, return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], encoded["special_tokens_mask"]  # of the frame; [UNK] is a token of the text
    for i, label in enumerate(ids):
        if not special[i]:
            yield ids[:i] + [tokenizer.mask_token_id] + ids[i + 1:], i, label


def scores_of(tokenizer, model, texts, batch, length=None):
    """Score and tokens of each text; `batch` copies at a time, padded to the longest or to `length` tokens."""
    sums, counts, waiting = [0.0] * len(texts), [0] * len(texts), []

    def run():
        padded = tokenizer.pad({"input_ids": [c[0] for _, c in waiting]}, return_tensors="pt",
                               padding="max_length" if length else True, max_length=length)
        rows = model(**padded).logits[range(len(waiting)), [c[1] for _, c in waiting]]
        found = torch.log_softmax(rows, -1)[range(len(waiting)), [c[2] for _, c in waiting]]
        for (n, _), value in zip(waiting, found.tolist()):
            sums[n] += value
        waiting.clear()

    with torch.inference_mode():
        for n, text in enumerate(texts):
            for copy in copies_of(tokenizer, text):
                counts[n] += 1
                waiting.append((n, copy))
                if len(waiting) == batch:
                    run()
        if waiting:
            run()
    return sums, counts


def golden():
    golden = {"texts": TEXTS, "models": {}}
    for name in NAMES:
        tokenizer, model = load(ROOT / "tests/data/families" / name)
        sums, counts = scores_of(tokenizer, model.double(), TEXTS, 1)
        golden["models"][name] = {"scores": sums, "tokens": counts}
    (ROOT / "tests/data/scores/pseudo.json").write_text(json.dumps(golden, indent=1) + "\n")


def cpu():
    """Seconds of all cores, of this process and of those that it ran: a busy machine does not change them."""
    return sum(os.times()[:4])


def measured(what):
    begun, ticks = time.perf_counter(), cpu()
    return what(), (time.perf_counter() - begun, cpu() - ticks)


def ours(program, folder, file):
    words = [program, "score", folder, file, "--json"]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def compare(folder, file, batch="64", length=None, program="build/seqrun"):
    texts = pathlib.Path(file).read_text().splitlines()
    tokenizer, model = load(folder)
    best, worst = [(math.inf, math.inf)] * 2, 0.0
    for _ in range(2):
        (sums, counts), theirs = measured(lambda: scores_of(tokenizer, model, texts, int(batch), length and int(length)))
        lines, mine = measured(lambda: ours(program, folder, file))
        best = [min(best[0], theirs), min(best[1], mine)]
        for line, score, count in zip(lines, sums, counts, strict=True):
            assert line["tokens"] == count, (line, count)
            worst = max(worst, abs(line["score"] - score))
    print(f"{len(texts)} texts, {sum(counts)} tokens; seconds by the clock and of the cores: Transformers "
          f"{best[0][0]:.2f}, {best[0][1]:.2f}; seqrun with its start {best[1][0]:.2f}, {best[1][1]:.2f}: "
          f"{best[0][0] / best[1][0]:.1f} and {best[0][1] / best[1][1]:.1f} times; largest difference {worst:.1e}")


def make_model(folder, vocab, size):
    layers, hidden = (int(x) for x in size.split("x"))
    tokenizer = transformers.BertTokenizerFast(vocab)
    torch.manual_seed(1)
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


{"golden": golden, "compare": compare, "model": make_model}[sys.argv[1]](*sys.argv[2:])

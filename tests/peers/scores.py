#!/usr/bin/env python3
"""Makes tests/data/scores/golden.json: scores of random predictions by scikit-learn, SciPy and seqeval, and SQuAD's by
its official definition, written down again here.

    pip install scikit-learn scipy seqeval
    python3 tests/peers/scores.py > tests/data/scores/golden.json
"""
import collections
import json
import random
import re
import string
import sys
import warnings

import numpy as np
from scipy import stats
from sklearn import metrics

warnings.simplefilter("ignore")
random.seed(7)
rng = np.random.default_rng(7)


def class_cases():
    for n, k, right in [(1, 2, 1), (40, 2, 0.8), (40, 2, 0.0), (200, 2, 0.95), (60, 3, 0.6), (100, 5, 0.3), (30, 7, 0.9)]:
        gold = rng.integers(0, k, n)
        guess = np.where(rng.random(n) < right, gold, rng.integers(0, k, n))
        yield gold, guess
    yield np.array([0, 0, 0, 0]), np.array([0, 0, 0, 0])
    yield np.array([1, 1, 0, 1]), np.array([1, 1, 1, 1])
    yield np.array([0, 0, 3]), np.array([0, 3, 0])


def classes():
    for gold, guess in class_cases():
        case = {"gold": gold.tolist(), "guess": guess.tolist()}
        case["accuracy"] = metrics.accuracy_score(gold, guess)
        case["matthews"] = metrics.matthews_corrcoef(gold, guess)
        for mean in ["macro", "micro"]:
            case["f1_" + mean] = metrics.f1_score(gold, guess, average=mean)
        if max(gold.max(), guess.max()) < 2:
            case["f1_binary"] = metrics.f1_score(gold, guess, pos_label=1)
        yield {key: value if isinstance(value, list) else float(value) for key, value in case.items()}


def multilabels():
    for n, k, share in [(20, 3, 0.5), (50, 6, 0.2), (5, 2, 0.0)]:
        gold = (rng.random((n, k)) < share).astype(int)
        guess = np.where(rng.random((n, k)) < 0.8, gold, 1 - gold)
        yield {"gold": gold.tolist(), "guess": guess.tolist(),
               "accuracy": float(metrics.accuracy_score(gold, guess)),
               "micro": float(metrics.f1_score(gold, guess, average="micro", zero_division=0)),
               "macro": float(metrics.f1_score(gold, guess, average="macro", zero_division=0))}


def correlations():
    for n, digits, scale in [(2, 9, 1), (30, 9, 1), (100, 1, 5), (100, 0, 5), (60, 0, 1), (50, 9, 1e200), (50, 9, 1e-200)]:
        x = np.round(rng.random(n), digits) * scale
        y = np.round(rng.random(n) * 0.5 + 0.5 * x / scale, digits) * scale
        yield {"x": x.tolist(), "y": y.tolist(), "pearson": float(np.corrcoef(x / scale, y / scale)[0, 1]),
               "spearman": float(stats.spearmanr(x, y).statistic)}
    x = rng.random(40) * 5
    y = x + rng.random(40)
    yield {"x": x.tolist(), "y": y.tolist(), "pearson": float(stats.pearsonr(x, y).statistic),
           "spearman": float(stats.spearmanr(x, y).statistic)}


def spans():
    from seqeval.metrics import f1_score, precision_score, recall_score
    kinds = ["O"] * 4 + ["B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "E-ORG", "S-PER"]
    for n, used, right in [(1, 6, 1.0), (20, 8, 0.8), (20, 10, 0.5), (30, 12, 0.7), (3, 4, 1.0)]:
        gold = [[random.choice(kinds[:used]) for _ in range(random.randint(1, 12))] for _ in range(n)]
        guess = [[t if random.random() < right else random.choice(kinds[:used]) for t in tags] for tags in gold]
        yield {"gold": gold, "guess": guess, "f1": float(f1_score(gold, guess)),
               "precision": float(precision_score(gold, guess)), "recall": float(recall_score(gold, guess))}


def normal(text):
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_and_f1(guess, gold):
    gold = [a for a in gold if normal(a)] or [""]
    best = [0.0, 0.0]
    for answer in gold:
        ours, theirs = normal(guess).split(), normal(answer).split()
        same = sum((collections.Counter(ours) & collections.Counter(theirs)).values())
        if not ours or not theirs:
            f1 = float(ours == theirs)
        else:
            f1 = 2.0 * (same / len(ours)) * (same / len(theirs)) / (same / len(ours) + same / len(theirs)) if same else 0.0
        best = [max(best[0], float(normal(guess) == normal(answer))), max(best[1], f1)]
    return best


def answers():
    words = ["The", "a", "an", "river", "River,", "\u2013", "Thames", "u.s.", "A\u00e9ro", "the-end", "42", "\u00a0", "x_y", "\u0130z",
             "\u6771\u4eac", "an\u2019t", "and", "(the)", "$5", "\u2160", "e\u0301a"]
    for i in range(60):
        gold = [" ".join(random.choices(words, k=random.randint(0, 5))) for _ in range(random.randint(0, 3))]
        guess = random.choice(gold) if gold and random.random() < 0.3 else ""
        if not guess and random.random() < 0.8:
            guess = " ".join(random.choices(words, k=random.randint(1, 6)))
        exact, f1 = exact_and_f1(guess, gold)
        yield {"gold": gold, "guess": guess, "exact": exact, "f1": f1, "normal": normal(guess)}


def calibrations():
    for n in [1, 25, 200]:
        p = np.round(rng.random(n), 2)
        hit = rng.random(n) < p
        edges = np.ceil(p * 10).clip(1, 10)
        error = sum(abs((p[edges == b]).sum() - hit[edges == b].sum()) for b in range(1, 11)) / n
        yield {"p": p.tolist(), "hit": hit.tolist(), "error": float(error)}


golden = {"classes": list(classes()), "multilabels": list(multilabels()), "correlations": list(correlations()),
          "spans": list(spans()), "answers": list(answers()), "calibrations": list(calibrations())}
text = json.dumps(golden, ensure_ascii=False)
for name in golden:
    text = text.replace('"%s": [{' % name, '\n"%s": [\n{' % name)
sys.stdout.write(text.replace("}, {", "},\n{").replace("}]", "}\n]") + "\n")

#!/usr/bin/env python3
"""Compares `seqrun tokenize` with Hugging Face's tokenizers: every scalar value and random strings.

    pip install tokenizers==0.23.3
    python3 tests/peers/hf_sweep.py [--strings 20000] [--seed 1] [COMMAND]

COMMAND is the program, build/seqrun by default.  Each scalar value stands alone, between letters,
after a letter and an accent, and before one; random strings mix scripts, marks, specials and long
words.  Ids and offsets in three modes.  Outside `make test`: it needs the package.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import BertWordPieceTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = os.path.join(HERE, "../data/tokenizer/vocab.txt")
BREAKS = (0x0A,)  # cannot occur within a line


def scalars():
    for cp in range(0x110000):
        if not 0xD800 <= cp < 0xE000 and cp not in BREAKS:
            yield cp


def single_lines():
    for cp in scalars():
        c = chr(cp)
        yield "%s a%sb A%s\u0301\u0327B \U0001d16d%s\u302e\u0334%s" % (c, c, c, c, c)


def pick(rng, marks):
    kind = rng.random()
    if kind < 0.35:
        return chr(rng.randrange(0x20, 0x7F))
    if kind < 0.45:
        return chr(rng.randrange(0xA0, 0x600))
    if kind < 0.60:
        return chr(rng.choice(marks))
    if kind < 0.65:
        return rng.choice(["[MASK]", "[CLS]", "[mask]", "[SEP", "[UNK]", "[PAD]", "##", " ", "\t"])
    if kind < 0.70:
        return rng.choice("abcdefg") * rng.randrange(90, 110)
    if kind < 0.80:
        return chr(rng.choice([rng.randrange(0x3000, 0xA000), rng.randrange(0xAC00, 0xD7A4)]))
    if kind < 0.90:
        return chr(rng.randrange(0x600, 0x3000))
    while True:
        cp = rng.randrange(0x110000)
        if not 0xD800 <= cp < 0xE000 and cp not in BREAKS:
            return chr(cp)


def random_lines(count, seed):
    import unicodedata
    rng = random.Random(seed)
    marks = [cp for cp in scalars() if unicodedata.category(chr(cp)) in ("Mn", "Mc", "Me")]
    for _ in range(count):
        yield "".join(pick(rng, marks) for _ in range(rng.randrange(1, 40))).replace("\n", "")


MODES = {  # flags of seqrun, options of tokenizers
    "uncased": ([], dict(lowercase=True)),
    "cased": (["--cased"], dict(lowercase=False)),
    "uncased with accents": (["--keep-accents"], dict(lowercase=True, strip_accents=False)),
}


def ours(command, lines, flags, what):
    with tempfile.NamedTemporaryFile("wb") as f:
        f.write("".join(line + "\n" for line in lines).encode())
        f.flush()
        args = [command, "tokenize", "--vocab", VOCAB, what] + flags
        out = subprocess.run(args + [f.name], stdout=subprocess.PIPE, check=True).stdout
    return out.decode().split("\n")[:-1]


def theirs(tokenizer, lines):
    for start in range(0, len(lines), 4096):
        block = lines[start:start + 4096]
        for e in tokenizer.encode_batch(block, add_special_tokens=False):
            yield " ".join(map(str, e.ids)), " ".join("%d:%d" % o for o in e.offsets)


def compare(command, name, lines):
    wrong = 0
    for mode, (flags, options) in MODES.items():
        tokenizer = BertWordPieceTokenizer(VOCAB, **options)
        ids = ours(command, lines, flags, "--ids")
        offsets = ours(command, lines, flags, "--offsets")
        assert len(ids) == len(offsets) == len(lines), (len(ids), len(offsets), len(lines))
        for line, a, b, (x, y) in zip(lines, ids, offsets, theirs(tokenizer, lines)):
            if (a, b) == (x, y):
                continue
            wrong += 1
            if wrong <= 10:
                what = "ids" if a != x else "offsets"
                print("%s, %s, %s:\n  %s\n  ours   %s\n  theirs %s" % (
                    name, mode, what, ascii(line),
                    a if a != x else b, x if a != x else y))
    print("%s: %d lines, %d differ" % (name, len(MODES) * len(lines), wrong))
    return wrong


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--strings", type=int, default=20000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("command", nargs="?", default="build/seqrun")
    a = p.parse_args()
    bad = compare(a.command, "random strings", list(random_lines(a.strings, a.seed)))
    bad += compare(a.command, "scalar values", list(single_lines()))
    sys.exit(1 if bad else 0)

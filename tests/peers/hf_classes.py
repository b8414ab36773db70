#!/usr/bin/env python3
"""Generates core/unicode/hf_classes.inc: what Hugging Face's tokenizers takes each code point for.

    pip install tokenizers==0.23.3
    python3 tests/peers/hf_classes.py > core/unicode/hf_classes.inc      (--check compares instead)

Every scalar value goes through the package's own normalisers and pre-tokenisers: its libraries have
tables of several Unicode versions.  Outside `make test`: it needs the package.
"""
import base64
import json
import os
import struct
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

OUT = os.path.join(os.path.dirname(__file__), "../../core/unicode/hf_classes.inc")
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BLOCK = 4096


def blocks():
    for i in range(0, len(SCALARS), BLOCK):
        yield SCALARS[i:i + BLOCK]


def matching(pre):
    """The code points in the pieces of a pre-tokeniser that removes all others."""
    found = set()
    for block in blocks():
        for piece, _ in pre.pre_tokenize_str("".join(map(chr, block))):
            found.update(map(ord, piece))
    return found


def regex(pattern):
    return matching(pre_tokenizers.Split(Regex(pattern), "removed", invert=True))


def removed(normalizer):
    return {cp for cp in SCALARS if normalizer.normalize_str("a" + chr(cp)) == "a"}


def isolated(pre):
    """The code points that are a piece of their own between letters."""
    found = set()
    for block in blocks():
        text = "a".join(map(chr, block))
        found.update(ord(p) for p, _ in pre.pre_tokenize_str("a" + text + "a") if len(p) == 1 and p != "a")
    return found


def spaces():
    found = set()
    for block in blocks():
        text = "".join(map(chr, block))
        kept = {c for p, _ in pre_tokenizers.WhitespaceSplit().pre_tokenize_str(text) for c in p}
        found.update(ord(c) for c in text if c not in kept)
    return found


def words():
    """\\w of a word: one piece with letters around it, and none of its own after a full stop."""
    pre = pre_tokenizers.Whitespace()
    return {cp for cp in SCALARS if len(pre.pre_tokenize_str("a" + chr(cp) + "a")) == 1}


def extends():
    """What joins the grapheme of an 'a': a charsmap of one entry, a -> b, replaces both."""
    units = [0] * 512
    units[0] = 256 << 10
    units[256 ^ 0x61] = 0x61 | 1 << 8 | 352 << 10
    units[1] = 1 << 31
    blob = struct.pack("<I512I", 4 * 512, *units) + b"b\0"
    made = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "pre_tokenizer": None,
            "post_processor": None, "decoder": None,
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()},
            "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]], "byte_fallback": False}}
    normalizer = Tokenizer.from_str(json.dumps(made)).normalizer
    return {cp for cp in SCALARS if normalizer.normalize_str("a" + chr(cp)) == "b"}


def classes():
    rust = spaces()
    assert rust == regex(r"\s"), "the libraries disagree on white space"
    return [("LETTER", regex(r"\p{L}")), ("NUMBER", regex(r"\p{N}")), ("SPACE", rust),
            ("NUMERIC", isolated(pre_tokenizers.Digits(individual_digits=True))),
            ("WORD", words()), ("MARK", removed(normalizers.StripAccents())),
            ("PUNCT", isolated(pre_tokenizers.Punctuation("isolated"))), ("EXTENDS", extends())]


CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn").split()


def steps(values):
    """Rows of `code point << 8 | value` for every code point whose value differs from the one before."""
    row, before = [], None
    for cp in range(0x110000):
        now = values.get(cp, 0)
        if now != before:
            row.append("0x%X," % (cp << 8 | now))
            before = now
        if len(row) == 9:
            yield " ".join(row)
            row = []
    if row:
        yield " ".join(row)


def categories():
    """General categories by Oniguruma, which runs the patterns of pre-tokenisers."""
    of = dict.fromkeys(range(0xD800, 0xE000), CATEGORIES.index("Cn"))
    for number, name in enumerate(CATEGORIES):
        for cp in regex(r"\p{%s}" % name):
            assert cp not in of, hex(cp)
            of[cp] = number
    word = {cp for cp, n in of.items() if CATEGORIES[n][0] in "LM" or CATEGORIES[n] in ("Nd", "Pc")}
    print("onig's \\w less ours, ours less onig's:", len(regex(r"\w") - word), len(word - regex(r"\w")), file=sys.stderr)
    assert regex(r"\d") == {cp for cp, n in of.items() if CATEGORIES[n] == "Nd"}
    return of


def text():
    flags = {}
    for bit, (_, members) in enumerate(classes()):
        for cp in members:
            flags[cp] = flags.get(cp, 0) | 1 << bit
    yield "/* Made by tests/peers/hf_classes.py from tokenizers %s: code point << 8 | flags, from there on." % (
        tokenizers.__version__)
    yield " * The flags are those of core/unicode/classes.h. */"
    yield "static const uint32_t class_steps[] = {"
    yield from steps(flags)
    yield "};"
    yield "/* General categories: %s. */" % " ".join(CATEGORIES)
    yield "static const uint32_t category_steps[] = {"
    yield from steps(categories())
    yield "};"


if __name__ == "__main__":
    made = "\n".join(text()) + "\n"
    if sys.argv[1:] == ["--check"]:
        same = made == open(OUT).read()
        print("hf_classes.inc: " + ("as made" if same else "differs"))
        sys.exit(0 if same else 1)
    sys.stdout.write(made)

"""Writes tests/data/tokenizer/patterns.json: what `tokenizers` cuts texts of several lines into by patterns with anchors.

    python3 tests/peers/patterns.py [TEXTS [FILE]]

Each tokenizer has one pattern, as a pre-tokenizer or as a normalizer, and bytes as its tokens, so that offsets show the pieces.
"""
import json
import pathlib
import random
import sys

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PIECES = ["a", "B", "7", "_", " ", "  ", "\t", "\n", "\n\n", "\r", ".", "-", "é", "e\u0301", "²", "½", "Ⅷ", "ⓐ", "🄰", "中", "ß", "\u200d",
          "\u00a0", "\u2028", "\u0345", "೬", "৴", "the", "word", "'s", "👍", "\u203f", "\u0378", "ǅ", "\x85", "\x0b", "ªº"]
SPLITS = [r"\w+", r"\W+", r"\b\w", r"\w\b", r"\B\w", r"\b\w{1,3}\b", r"[^\w\s]+|\w+", r"[\W\d]", r"^\s*\w", r"^.", r".$", r"\s+$|^\s+",
          r"\A.", r".\z", r"^\w+$", r"(?i:\bTHE\b)|\w+\b", r"\W\b", r"\B.\B", r"\w(?=$)", r"(?<=^a).", r"(?i:\w)\B", r"[^\W_]+"]
NORMALIZERS = [r"\b", r"\B", r"^", r"$", r"\w+", r"^[ \t]+", r"\s+$"]


def whole_vocab():
    tokens = ["<unk>"] + ["<0x%02X>" % i for i in range(256)]
    return {token: i for i, token in enumerate(tokens)}


def tokenizer(pattern, replaces):
    t = Tokenizer(models.BPE(vocab=whole_vocab(), merges=[], unk_token="<unk>", byte_fallback=True, fuse_unk=False))
    if replaces:
        t.normalizer = normalizers.Replace(Regex(pattern), "|")
    else:  # a Metaspace in every piece shows where it begins
        t.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.Metaspace(prepend_scheme="always", split=False)])
    return t


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    draw, found, vocab = random.Random(11), [], json.dumps(whole_vocab(), separators=(",", ":"))
    for n, pattern in enumerate(SPLITS + NORMALIZERS):
        t = tokenizer(pattern, n >= len(SPLITS))
        texts = ["".join(draw.choice(PIECES) for _ in range(draw.randrange(1, 12))) for _ in range(count)]
        found.append({"json": t.to_str().replace(vocab, "VOCAB"), "texts": texts, "ids": [t.encode(text, add_special_tokens=False).ids for text in texts]})
    out = sys.argv[2] if len(sys.argv) > 2 else ROOT / "tests/data/tokenizer/patterns.json"
    pathlib.Path(out).write_text(json.dumps({"vocab": vocab, "rows": found}, ensure_ascii=False) + "\n")


main()

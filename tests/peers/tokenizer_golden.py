#!/usr/bin/env python3
"""Writes tests/data/tokenizer/kinds: small tokenizers of every make and what tokenizers 0.23.3 does with them.

    pip install tokenizers==0.23.3 sentencepiece
    python3 tests/peers/tokenizer_golden.py TEXT

lines.bin    lines of prose from TEXT, of code points that matter, and of hostile bytes
NAME.json    a tokenizer, trained on the first 600 lines of TEXT
NAME.ids     id:first:last of each token of each line, with the special tokens of the post-processor
NAME.text    the ids of each line decoded, without special tokens, as JSON strings; bytes that are not UTF-8 as U+FFFD
NAME.words   for three lists of words, id:word:first:last of each token, as is_split_into_words has it
"""
import itertools
import json
import os
import random
import sys
import tempfile

import tokenizers_lines as peer  # noqa: E402
from tokenizers import Tokenizer, pre_tokenizers, processors  # noqa: E402

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/tokenizer/kinds")
KINDS = ["roberta", "roberta_spaced", "llama3", "deepseek", "gemma", "llama2", "xlmr", "albert", "unigram_bytes", "clip",
         "wordpiece_odd", "bpe_plain"]
WORDS = [["Emma", "Woodhouse", ",", "handsome"], ["it's", "naïve", "", "x-y", "don't"], ["3,14", "Zoë", "ﬁn", " a"]]


def small_map(_files, _rule):
    """A map of a few characters, as SentencePiece compiles it."""
    import io
    import sentencepiece
    rules = [(chr(c), " ") for c in (9, 13, 0xA0, 0x2003, 0x3000)] + [("ﬁ", "fi"), ("™", "TM"), ("…", "..."), ("½", "1⁄2"),
             ("e\u0301", "é"), ("“", '"'), ("\x7f", ""), ("\u200b", " "), ("\u212b", "\u00c5"), ("ｶﾞ", "ガ")]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
        for a, b in rules:
            f.write("%s\t%s\n" % (" ".join("%X" % ord(c) for c in a), " ".join("%X" % ord(c) for c in b)))
        f.flush()
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["some words of a text", "and more of them"] * 50), model_writer=out, vocab_size=40,
            normalization_rule_tsv=f.name, minloglevel=2, hard_vocab_limit=False)
    return peer.field(peer.field(out.getvalue(), 3), 2)


def lines_of(files):
    rng = random.Random(25)
    for kind, count in ((peer.prose, 30), (peer.blocks, 40), (peer.mixed, 70), (peer.hostile, 30)):
        for line in itertools.islice(kind(rng, files), count):
            line = line if isinstance(line, bytes) else line.encode()
            yield line[:400]


def spaced(tokenizer):
    """With the space before words that the tokenizer itself leaves out."""
    made = json.loads(tokenizer.to_str())
    if (made["pre_tokenizer"] or {}).get("type") == "ByteLevel":
        tokenizer = Tokenizer.from_str(tokenizer.to_str())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        post = made["post_processor"]
        tokenizer.post_processor = processors.RobertaProcessing(tuple(post["sep"]), tuple(post["cls"]), True, True)
    return tokenizer


def write(name, lines):
    with open(os.path.join(OUT, name), "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in lines)


def main():
    text = sys.argv[1]
    os.makedirs(OUT, exist_ok=True)
    peer.SIZE, peer.charsmap = 500, small_map
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
        f.writelines(itertools.islice(open(text, encoding="utf-8"), 600))
        f.flush()
        lines = list(lines_of([text]))
        open(os.path.join(OUT, "lines.bin"), "wb").write(b"".join(line + b"\n" for line in lines))
        for name in KINDS:
            tokenizer = getattr(peer, name)([f.name])
            made = json.loads(tokenizer.to_str())
            write(name + ".json", [json.dumps(made, ensure_ascii=False, separators=(",", ":"))])
            tokenizer = Tokenizer.from_file(os.path.join(OUT, name + ".json"))
            write(name + ".ids", peer.theirs(tokenizer, lines))
            encoded = [tokenizer.encode(line.decode("utf-8", "replace")) for line in lines]
            write(name + ".text", (json.dumps(tokenizer.decode(e.ids), ensure_ascii=False) for e in encoded))
            if name in ("roberta", "roberta_spaced", "xlmr", "albert", "wordpiece_odd", "llama2"):
                encoded = [spaced(tokenizer).encode(words, is_pretokenized=True, add_special_tokens=False) for words in WORDS]
                write(name + ".words", (" ".join("%d:%d:%d:%d" % (i, w + 1, *s)
                                                 for i, w, s in zip(e.ids, e.word_ids, e.offsets)) for e in encoded))


if __name__ == "__main__":
    main()

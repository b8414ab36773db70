#!/usr/bin/env python3
"""Compares `seqrun tokenize` with Hugging Face's tokenizers, id by id and offset by offset.

    pip install tokenizers==0.23.3 sentencepiece
    python3 tests/peers/tokenizers_lines.py --text FOLDER [--json FILE ...] [--lines N] [--only NAME] [--keep DIR]

Trains small tokenizers of every make on the texts of FOLDER (and takes the tokenizer.json files given), then
tokenizes N lines with each: prose, code, every Unicode block, random words of code points that matter, hostile bytes.
Prints a line per tokenizer and the first differences; exits with 1 if there are any.
"""
import argparse
import base64
import glob
import io
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SIZE = 8000
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


# ---- tokenizers -------------------------------------------------------------------------------------------------

def charsmap(files, rule):
    """The precompiled map of a SentencePiece normalization rule, out of a model trained with it."""
    import sentencepiece
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=itertools.islice(open(files[0], encoding="utf-8"), 2000), model_writer=out, vocab_size=300,
        normalization_rule_name=rule, minloglevel=2)
    return field(field(out.getvalue(), 3), 2)  # ModelProto.normalizer_spec.precompiled_charsmap


def field(message, wanted):
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = number()
        kind = key & 7
        if kind == 2:
            size = number()
            if key >> 3 == wanted:
                return message[at:at + size]
            at += size
        elif kind == 0:
            number()
        else:
            at += 4 if kind == 5 else 8
    raise KeyError(wanted)


def train(tokenizer, trainer, files):
    tokenizer.train(files, trainer)
    return tokenizer


def byte_bpe(files, specials=("<s>", "<pad>", "</s>", "<unk>"), **options):
    t = Tokenizer(models.BPE(**options))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    return train(t, trainers.BpeTrainer(vocab_size=SIZE, min_frequency=2, special_tokens=list(specials), show_progress=False,
                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), files)


def roberta(files):
    t = byte_bpe(files)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return t


def roberta_spaced(files):
    t = roberta(files)
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return t


def llama3(files, pattern=LLAMA3):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<|begin_of_text|>", "<|end_of_text|>"], show_progress=False,
                                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), files)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", 0)])])
    return t


def o200k(files):
    return llama3(files, O200K)


def deepseek(files):
    t = byte_bpe(files, specials=("<bos>", "<eos>"))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[\r\n]"), "isolated"), pre_tokenizers.Split(Regex(r"\s?\p{L}+"), "isolated"),
        pre_tokenizers.Split(Regex(r"\s?\p{P}+"), "isolated"), pre_tokenizers.Split(Regex(r"[一-龥ࠀ-一가-퟿]+"), "isolated"),
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return t


def gemma(files):
    byte_tokens = ["<0x%02X>" % i for i in range(256)]
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    train(t, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=specials + byte_tokens, show_progress=False), files)
    made = json.loads(t.to_str())
    made["added_tokens"] = [a for a in made["added_tokens"] if a["content"] in specials]
    made["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    made["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    t = Tokenizer.from_str(json.dumps(made))
    t.add_tokens(["\n\n", "▁▁▁▁", "<start>"])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", 2)])
    return t


def llama2(files):
    made = json.loads(gemma(files).to_str())
    made["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    made["pre_tokenizer"] = None
    made["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return Tokenizer.from_str(json.dumps(made))


def unigram(files, normalizer, pre_tokenizer, specials, unk="<unk>", **options):
    t = Tokenizer(models.Unigram())
    t.normalizer, t.pre_tokenizer = normalizer, pre_tokenizer
    t.decoder = decoders.Metaspace()
    return train(t, trainers.UnigramTrainer(vocab_size=SIZE, special_tokens=specials, unk_token=unk, show_progress=False,
                                            **options), files)


def xlmr(files):
    t = unigram(files, normalizers.Precompiled(charsmap(files, "nmt_nfkc")),
                pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
                ["<s>", "<pad>", "</s>", "<unk>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return t


def t5(files):
    t = unigram(files, normalizers.Sequence([normalizers.Precompiled(charsmap(files, "nmt_nfkc")),
                                             normalizers.Replace(Regex(" {2,}"), "▁")]),
                pre_tokenizers.Metaspace(prepend_scheme="always"), ["<pad>", "</s>", "<unk>"])
    t.add_special_tokens([AddedToken("<extra_id_0>", lstrip=False, rstrip=True, special=True)])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def albert(files):
    t = unigram(files, normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Precompiled(charsmap(files, "nmt_nfkc"))]),
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]),
        ["<pad>", "<unk>", "[CLS]", "[SEP]"])
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    t.add_tokens([AddedToken("Emma", single_word=True, normalized=True), AddedToken("Zoë", lstrip=True, rstrip=True)])
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def unigram_bytes(files):
    made = json.loads(unigram(files, normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()]),
                              pre_tokenizers.Metaspace(prepend_scheme="first"),
                              ["<unk>"] + ["<0x%02X>" % i for i in range(256)]).to_str())
    made["model"]["byte_fallback"] = True
    made["pre_tokenizer"]["split"] = False
    made["added_tokens"] = [a for a in made["added_tokens"] if a["content"] == "<unk>"]
    made["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}]}
    return Tokenizer.from_str(json.dumps(made))


def clip(files):
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    train(t, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<|startoftext|>", "<|endoftext|>"], show_progress=False,
                                 end_of_word_suffix="</w>", initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), files)
    t.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False,
                                                    add_prefix_space=False)
    return t


def wordpiece(files, lowercase=True, **options):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase, **options)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    train(t, trainers.WordPieceTrainer(vocab_size=SIZE, special_tokens=specials, show_progress=False), files)
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def wordpiece_cased(files):
    return wordpiece(files, lowercase=False)


def wordpiece_odd(files):
    """WordPiece that the fast path does not take: other specials, normalizer and pre-tokenizer."""
    t = Tokenizer(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=40, continuing_subword_prefix="@@"))
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"),
                                               pre_tokenizers.Digits()])
    train(t, trainers.WordPieceTrainer(vocab_size=SIZE, special_tokens=["<unk>", "<mask>"], show_progress=False,
                                       continuing_subword_prefix="@@"), files)
    return t


def wordpiece_slow(files):
    """BERT's, but for one more added token."""
    t = wordpiece(files)
    t.add_tokens(["[unused0]"])
    return t


def bpe_plain(files):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.NFKC()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return train(t, trainers.BpeTrainer(vocab_size=SIZE, limit_alphabet=60, special_tokens=["<unk>", "<mask>"],
                                        show_progress=False), files)


MAKES = [roberta, roberta_spaced, llama3, o200k, deepseek, gemma, llama2, xlmr, t5, albert, unigram_bytes, clip, wordpiece,
         wordpiece_cased, wordpiece_odd, wordpiece_slow, bpe_plain]


# ---- lines ------------------------------------------------------------------------------------------------------

INTERESTING = ("aAbBzZ019 '\"-_.,;:!?()[]{}<>/\\\t\r\v\f\0\x1c\x7f\x85\xa0\xad§ß²½¼ÀÉéèïñøœſİıǅΣσςΩ\u0300\u0301\u0308\u0323\u0327\u0345"
               "Ййё\u05d0\u05b0\u0600ا\u064b\u0915\u094d\u093c\u0e01\u0e33\u1100\u1161\u11a8가각\u1e9e\u1ea4\u2003\u200b\u200c\u200d\u200e\u2019\u2028"
               "\u2029\u202f\u2060™№ﬁﬆ℃Å\u2126㎏㍿\u3000、。「」ーｶﾞＡ１々一龥\U0002b8200\ufb1d\ufdfa\ufe0f\ufeff\ufffd\ufff9\ue000\U0001f600\U0001f1e9\U0001f1ea"
               "\U0001f468\u200d\U0001f469\U0001d400\U0001d7ce\U000e0001\U0010ffff▁Ġ\u0378\U0001ccfa")
PIECES = ["<s>", "</s>", "<mask>", " <mask>", "<mask> ", "<pad>", "<unk>", "[MASK]", "[CLS]", "<|endoftext|>", "<bos>", "Emma", "emma",
          "Zoë", "ZOË ", " zoë", "<extra_id_0>", "<0x0A>", "[unused0]", "it's", "IT'S", "'ll", "'LL", "we've ", "  ", "    ", "\t", "▁",
          "▁▁▁▁", "<start>", "``", "''", "12345", "1,234.5", " the", "the ", "The", "'ſ", "don't", "\r", "|||IP_ADDRESS|||",
          "            ", "          ", "naïve", "café", "e\u0301", "ẛ̣", "\u1100\u1161\u11a8", "\u00a0", "…", "“", "”", "—"]


def prose(rng, files):
    lines = [line.rstrip("\n") for f in files for line in open(f, encoding="utf-8")]
    while True:
        start, count = rng.randrange(len(lines)), rng.choice([1, 1, 1, 2, 5, 20])
        yield " ".join(lines[start:start + count])


def code(rng, _files):
    lines = []
    for pattern in ("core/*/*.[ch]", "lua/seqrun/*/*.lua", "kernels/*/*.cu", "Makefile", "docs/*/*.md", "tests/peers/*.py"):
        for f in glob.glob(os.path.join(ROOT, pattern)):
            lines += open(f, encoding="utf-8").read().split("\n")
    while True:
        yield rng.choice(lines)


def blocks(rng, _files):
    while True:
        start = rng.choice([rng.randrange(0x3000), rng.randrange(0x20000), rng.randrange(0x110000)]) & ~63
        cps = [c for c in range(start, start + 64) if not 0xD800 <= c < 0xE000 and c != 10 and c < 0x110000]
        if cps:
            yield "".join(chr(rng.choice(cps)) + rng.choice(["", "", " ", "a"]) for _ in range(rng.randrange(1, 40)))


def mixed(rng, _files):
    while True:
        yield "".join(rng.choice(PIECES) if rng.random() < 0.3 else rng.choice(INTERESTING)
                      for _ in range(rng.choice([1, 2, 3, 8, 30])))


def hostile(rng, _files):
    while True:
        line = bytearray()
        for _ in range(rng.randrange(1, 30)):
            line += rng.choice([bytes([rng.randrange(256)]), rng.choice(INTERESTING).encode()[:rng.randrange(1, 5)], b"a ",
                                b"\xe2\x96", b"\xf0\x9f", b"\xed\xa0\x80", b"\xc0\x80", rng.choice(PIECES).encode()])
        yield bytes(line).replace(b"\n", b"")


def long(rng, files):
    words = open(files[0], encoding="utf-8").read().split()
    while True:
        yield rng.choice(["x" * 3000, "é" * 700, " " * 500, "▁" * 200, "ab" * 900, "\u0301" * 400, "".join(rng.sample(words, 300)),
                          " ".join(rng.sample(words, 800)), "1" * 333, "\U0001f600" * 99, "a\u0323\u0301" * 150])


def make_lines(count, files, seed):
    rng = random.Random(seed)
    shares = [(prose, 0.35), (code, 0.2), (blocks, 0.15), (mixed, 0.2), (hostile, 0.0995), (long, 0.0005)]
    for kind, share in shares:
        for line in itertools.islice(kind(rng, files), max(1, int(share * count))):
            yield line if isinstance(line, bytes) else line.encode()


# ---- comparing --------------------------------------------------------------------------------------------------

def ours(seqrun, vocab, lines):
    out = subprocess.run([seqrun, "tokenize", "--ids", "--offsets", "--specials", "--vocab", vocab, "--threads", "1"],
                         input=b"".join(line + b"\n" for line in lines), stdout=subprocess.PIPE, check=True).stdout
    return out.decode().split("\n")[:-1]


def theirs(tokenizer, lines):
    texts = [line.decode("utf-8", "replace") for line in lines]
    for i in range(0, len(texts), 20000):
        for e in tokenizer.encode_batch(texts[i:i + 20000]):
            yield " ".join("%d:%d:%d" % (id, *span) for id, span in zip(e.ids, e.offsets))


def compare(seqrun, path, lines):
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    mine, ids, spans, tokens = ours(seqrun, path, lines), 0, 0, 0
    assert len(mine) == len(lines), (len(mine), len(lines))
    for n, (line, a, b) in enumerate(zip(lines, mine, theirs(tokenizer, lines))):
        tokens += b.count(":") // 2
        if a == b:
            continue
        same = [x.split(":")[0] for x in a.split()] == [x.split(":")[0] for x in b.split()]
        ids, spans = ids + (not same), spans + same
        if (ids if not same else spans) <= 3:
            print("  line %d %r\n    seqrun     %s\n    tokenizers %s" % (n + 1, line[:200], a[:300], b[:300]))
    return ids, spans, tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", required=True)
    parser.add_argument("--json", nargs="*", default=[])
    parser.add_argument("--lines", type=int, default=60000)
    parser.add_argument("--only", action="append")
    parser.add_argument("--keep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seqrun", default=os.path.join(ROOT, "build/seqrun"))
    args = parser.parse_args()
    files = sorted(glob.glob(os.path.join(args.text, "*.txt")))
    folder = args.keep or tempfile.mkdtemp(prefix="seqrun-tokenizers-")
    os.makedirs(folder, exist_ok=True)
    total = bad = 0
    for make in MAKES + args.json:
        name = os.path.basename(make) if isinstance(make, str) else make.__name__
        if args.only and name not in args.only:
            continue
        path = make if isinstance(make, str) else os.path.join(folder, name + ".json")
        if not os.path.exists(path):
            make(files).save(path)
        lines = list(make_lines(args.lines, files, "%s %d" % (name, args.seed)))
        ids, spans, tokens = compare(args.seqrun, path, lines)
        print("%-18s %7d lines %9d tokens %6d lines with other ids %6d with other offsets" % (
            name, len(lines), tokens, ids, spans), flush=True)
        total += len(lines)
        bad += ids + spans
    print("%d lines, %d differences" % (total, bad))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

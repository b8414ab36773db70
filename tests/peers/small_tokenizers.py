"""Trains the small tokenizers of tests/data/tokenizer on a novel, and writes what Transformers makes of some lines.

    python3 tests/peers/small_tokenizers.py

A byte-level BPE as RoBERTa's, one as ModernBERT's, and a Unigram as XLM-RoBERTa's, each with 600 tokens or a few more.
"""
import json
import pathlib
import random

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "tests/data/tokenizer"
TEXT = ROOT / "recipes/data/emma.txt"
SIZE = 600


def bytes_bpe(specials, add_prefix_space):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    t.decoder = decoders.ByteLevel()
    t.train([str(TEXT)], trainers.BpeTrainer(
        vocab_size=SIZE, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return t


def roberta():
    t = bytes_bpe(["<s>", "<pad>", "</s>", "<unk>"], False)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    ids = {name: t.token_to_id(name) for name in ("<s>", "</s>")}
    t.post_processor = processors.RobertaProcessing(
        ("</s>", ids["</s>"]), ("<s>", ids["<s>"]), trim_offsets=True, add_prefix_space=False)
    return t


def modernbert():
    t = bytes_bpe(["[UNK]", "[CLS]", "[SEP]", "[PAD]"], False)
    t.normalizer = normalizers.NFC()
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    ids = [(name, t.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:0 [SEP]:0", special_tokens=ids)
    return t


def xlm_roberta():
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.train([str(TEXT)], trainers.UnigramTrainer(
        vocab_size=SIZE, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    ids = [(name, t.token_to_id(name)) for name in ("<s>", "</s>")]
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B:0 </s>:0", special_tokens=ids)
    return t


LINES = [
    ["Emma Woodhouse, handsome, clever, and rich"], ["  two  spaces, naïve café"],
    ["She was very", "happy to see Mr. Knightley."],
]
WORDS = ["Mr.", "Knightley", "seldom", "(", "naïve", ")", "came"]
MASKED = "She was very {} to see him, {}."


def golden(t, mask):
    """What Transformers makes of texts, pairs, a list of words, and a text with masks."""
    whole = {"texts": [], "mask": mask}
    for given in LINES:
        e = t.encode(*given)
        whole["texts"].append({"given": given, "ids": e.ids, "types": e.type_ids, "decoded": t.decode(e.ids)})
    split = Tokenizer.from_str(t.to_str())
    if isinstance(split.pre_tokenizer, pre_tokenizers.ByteLevel):
        split.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)  # as run_ner asks for
    e = split.encode(WORDS, is_pretokenized=True, add_special_tokens=False)
    whole["words"] = {"given": WORDS, "ids": e.ids, "numbers": e.word_ids}
    text = MASKED.format(mask, mask)
    e = t.encode(text)
    whole["masked"] = {"given": text, "ids": e.ids}
    return whole


PIECES = [
    "a", "\u2581b", "\u2581", "c\u2581d", "##e", "##", "f", "<0x41>", "<0xC3>", "<0xA9>", "<0xff>", "<0xZZ>",
    "\u0120", "\u0120h", "\u00c3", "\u00a9", "\u00e9", "n't", " ", "  x  ", "do not", " do not", ".", ",", "!",
    "'s", "'", "h</w>", "</w>",
]
DECODERS = [
    None, decoders.ByteLevel(), decoders.WordPiece(), decoders.WordPiece(prefix="\u2581", cleanup=False),
    decoders.Metaspace(), decoders.Metaspace(prepend_scheme="never"), decoders.BPEDecoder(), decoders.ByteFallback(),
    decoders.Fuse(), decoders.Replace(Regex("[a-e]+"), "<>"), decoders.Replace(Regex("x*"), "-"),
    decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                       decoders.Strip(" ", 1, 0)]),
]


def decoded():
    """What decoders make of random tokens."""
    draw, all_of_them = random.Random(5), []
    vocab = {token: i for i, token in enumerate(PIECES)}
    for decoder in DECODERS:
        t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
        if decoder is not None:
            t.decoder = decoder
        lists = [[draw.randrange(len(PIECES)) for _ in range(draw.randrange(9))] for _ in range(40)]
        all_of_them.append({"json": t.to_str(), "ids": lists, "texts": [t.decode(ids) for ids in lists]})
    return all_of_them


def main():
    found = {}
    for name, make, mask in (("roberta", roberta, "<mask>"), ("modernbert", modernbert, "[MASK]"),
                             ("xlm_roberta", xlm_roberta, "<mask>")):
        t = make()
        t.save(str(OUT / f"{name}.json"), pretty=False)
        found[name] = golden(t, mask)
    (OUT / "decoders.json").write_text(json.dumps(decoded(), ensure_ascii=False) + "\n")
    (OUT / "small.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


main()

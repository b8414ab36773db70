#!/usr/bin/env python3
"""Generates core/unicode/hf_unicode.inc: where the Unicode tables of Hugging Face and utf8proc differ.

    pip install tokenizers==0.23.3
    python3 tests/peers/hf_unicode.py > core/unicode/hf_unicode.inc      (--check compares instead)

Every scalar value goes through the package's own normalisers, each with one thing switched on, and
through libutf8proc.  What differs is written as ranges.  Outside `make test`: it needs the package.
"""
import ctypes
import itertools
import os
import sys

import tokenizers
from tokenizers import normalizers, pre_tokenizers

OUT = os.path.join(os.path.dirname(__file__), "../../core/unicode/hf_unicode.inc")
u8 = ctypes.CDLL("libutf8proc.so.2")
u8.utf8proc_category_string.restype = ctypes.c_char_p
u8.utf8proc_version.restype = ctypes.c_char_p
u8.utf8proc_unicode_version.restype = ctypes.c_char_p


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_int16), ("combining", ctypes.c_int16)]


u8.utf8proc_get_property.restype = ctypes.POINTER(Property)
STABLE_DECOMPOSE = 1 << 1 | 1 << 4
COMPAT = 1 << 2
buffer, boundclass = (ctypes.c_int32 * 32)(), ctypes.c_int()


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


clean, strip = bert(clean_text=True), bert(strip_accents=True)
nfkd = normalizers.NFKD().normalize_str
nfd, lower = normalizers.NFD().normalize_str, normalizers.Lowercase().normalize_str
split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str


def u8_nfd(cp, more=0):
    n = u8.utf8proc_decompose_char(cp, buffer, 32, STABLE_DECOMPOSE | more, ctypes.byref(boundclass))
    return "".join(map(chr, buffer[:n]))


def reorders(c):
    """True if a mark of the lowest class (U+0334) or of the highest (U+0345) is reordered."""
    return nfd(c + "\u0334") != nfd(c) + "\u0334" or nfd("\u0345" + c) != "\u0345" + nfd(c)


def difference(cp):
    """The flags of one code point, and the offset of its lower case if utf8proc has none."""
    c = chr(cp)
    category = u8.utf8proc_category_string(cp).decode()
    flags, delta = [], 0
    if cp not in (0, 0xFFFD, 9, 10, 13):
        if (clean(c) == "") != (category in ("Cc", "Cf", "Co")):
            flags.append("HF_CONTROL")
    if (strip("a" + c) == "a") != (category == "Mn"):
        flags.append("HF_MARK")
    if cp > 127 and (len(split("a" + c + "b")) == 3) != (category[0] == "P"):
        flags.append("HF_PUNCT")
    if nfd(c) != u8_nfd(cp):
        flags.append("HF_WHOLE")
    elif nfkd(c) != u8_nfd(cp, COMPAT):
        assert nfkd(c) == c, hex(cp)
        flags.append("HF_COMPAT")
    combining = u8.utf8proc_get_property(cp)[0].combining
    if len(u8_nfd(cp)) == 1 and (combining != 0) != reorders(c):
        flags.append("HF_STARTER")
    ours, theirs = chr(u8.utf8proc_tolower(cp)), lower(c)
    if ours != theirs and cp != 0x130:  # U+0130 maps to two code points; chars.c handles it
        assert len(theirs) == 1, hex(cp)
        delta = ord(theirs) - cp
    return " | ".join(flags) or "0", delta


def rows():
    scalars = itertools.chain(range(0xD800), range(0xE000, 0x110000))
    run = None
    for cp in scalars:
        d = difference(cp)
        if run and run[1] == cp - 1 and run[2] == d:
            run[1] = cp
            continue
        if run:
            yield run
        run = [cp, cp, d] if d != ("0", 0) else None
    if run:
        yield run


def text():
    yield "/* Made by tests/peers/hf_unicode.py from tokenizers %s against utf8proc %s (Unicode %s)." % (
        tokenizers.__version__, u8.utf8proc_version().decode(), u8.utf8proc_unicode_version().decode())
    yield " * A flag says that Hugging Face has it the other way round; see chars.c. */"
    for first, last, (flags, delta) in rows():
        yield "{0x%04X, 0x%04X, %s, %d}," % (first, last, flags, delta)


if __name__ == "__main__":
    made = "\n".join(text()) + "\n"
    if sys.argv[1:] == ["--check"]:
        same = made == open(OUT).read()
        print("hf_unicode.inc: " + ("as made" if same else "differs"))
        sys.exit(0 if same else 1)
    sys.stdout.write(made)

"""Throughput of Hugging Face tokenizers, one paragraph per line; run by recipes/bench/tokenize.lua.

    python3 hf_tokenizers.py VOCAB FILE THREADS...        (pip install tokenizers)
"""
import os
import subprocess
import sys
import time


def measure(vocab, path, threads):
    from tokenizers import BertWordPieceTokenizer, Tokenizer, __version__
    if vocab.endswith(".json"):
        tokenizer = Tokenizer.from_file(vocab)
    else:
        tokenizer = BertWordPieceTokenizer(vocab, lowercase=True)._tokenizer
    with open(path, encoding="utf-8", newline="\n") as f:
        lines = f.read().split("\n")[:-1]
    lines = lines[:len(lines) // 10]  # a tenth of the text suffices
    size = sum(len(line.encode()) + 1 for line in lines)
    ways = [("with offsets", tokenizer.encode_batch)]
    fast = getattr(tokenizer, "encode_batch_fast", None)
    if fast:
        ways.insert(0, ("ids only", fast))
    for what, encode in ways:
        best = min(timed(encode, lines) for _ in range(3))
        print("tokenizers  %d thread%s  %-22s %7.1f MB/s   (version %s)" % (
            threads, " " if threads == 1 else "s", what, size / best / 1e6, __version__), flush=True)


def timed(encode, lines):
    start = time.perf_counter()
    encode(lines, add_special_tokens=False)
    return time.perf_counter() - start


if __name__ == "__main__":
    vocab, path, threads = sys.argv[1], sys.argv[2], sys.argv[3:]
    if len(threads) == 1:
        measure(vocab, path, int(threads[0]))
    else:
        for n in threads:  # a process creates its thread pool only once
            env = dict(os.environ, RAYON_NUM_THREADS=n, TOKENIZERS_PARALLELISM="false" if n == "1" else "true")
            subprocess.run([sys.executable, __file__, vocab, path, n], env=env, check=True)

"""PyTorch's packed attention by length, beside tests/gpu/bench.c: 16,384 tokens, 16 heads of 64, bf16.

    python3 recipes/bench/peers/torch_attention.py --tsv FILE --label h100

Appends lines of label, `attention`, tokens, "PyTorch forward 128" (or backward), microseconds: the best of
torch.nn.attention.varlen, which has no dropout, and of the FlashAttention and cuDNN backends on equal lengths with dropout
0.1.  A backend that this PyTorch or GPU lacks is named and left out.
"""

import argparse

import torch
import torch.nn.functional as F

TOKENS, HEADS, SIZE = 16384, 16, 64


def microseconds(run, repeats=20):
    for _ in range(3):
        run()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return sorted(times)[len(times) // 2]


def both_ways(attend, q, k, v):
    """Times of forward and of backward alone."""
    dout = torch.randn_like(attend(q, k, v))
    forward = microseconds(lambda: attend(q, k, v))
    out = attend(q, k, v)
    backward = microseconds(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))
    return forward, backward


# What an arm needs it imports itself: a version of PyTorch that lacks it has the others.
def varlen(length):
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = (torch.randn(TOKENS, HEADS, SIZE, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in "qkv")
    cu = torch.arange(0, TOKENS + 1, length, device="cuda", dtype=torch.int32)
    return both_ways(lambda q, k, v: varlen_attn(q, k, v, cu, cu, length, length), q, k, v)


def dense(backend, length):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (TOKENS // length, HEADS, length, SIZE)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in "qkv")
    with sdpa_kernel(getattr(SDPBackend, backend)):
        return both_ways(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.1), q, k, v)


ARMS = (
    ("", varlen),
    (" dropout", lambda length: dense("FLASH_ATTENTION", length)),
    (" cudnn dropout", lambda length: dense("CUDNN_ATTENTION", length)),
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tsv", required=True)
    parser.add_argument("--label", required=True)
    o = parser.parse_args()
    with open(o.tsv, "a", encoding="ascii") as file:
        for length in (64, 128, 256, 512, 2048):
            for name, run in ARMS:
                try:
                    times = run(length)
                except (RuntimeError, ImportError, AttributeError, TypeError) as problem:
                    print(f"{length}{name}: not available: {(str(problem) or repr(problem)).splitlines()[0]}")
                    continue
                for way, us in zip(("forward", "backward"), times):
                    op = f"PyTorch {way} {length}{name}"
                    print(o.label, "attention", TOKENS, op, f"{us:.2f}", sep="\t", file=file, flush=True)
                    print(f"{way} {length}{name}: {us:.0f} us")


if __name__ == "__main__":
    main()

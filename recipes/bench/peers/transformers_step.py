"""Masked-LM steps of ModernBERT in Transformers (SDPA attention), on packs dumped by recipes/bench/step.lua.

    build/seqrun recipes/bench/step.lua model=modernbert dump=packs.txt only=packed
    python3 recipes/bench/peers/transformers_step.py packs.txt --layers 6

Each line of the file is an update: the lengths in each pack, with packs separated by ";".  A step is forward, backward
and AdamW; logits are computed at masked tokens only (sparse_prediction).  Local layers have a dense mask on a CPU.
Arrangements:
  padded    one sequence per row of the packs' slots
  sorted    sequences sorted by length, in batches of at most the packs' slots, padded to the longest of each batch
  sequence  one sequence at a time, without padding
--bf16 uses autocast; --pure converts the model to bf16; --cpu-time counts the CPU time of the process.
"""

import argparse
import math
import resource
import time

import torch
import transformers

transformers.utils.logging.disable_progress_bar()


def by_length(lengths, slots):
    lengths, batches = sorted(lengths, reverse=True), []
    while lengths:
        count = max(1, slots // lengths[0])
        batches.append(lengths[:count])
        lengths = lengths[count:]
    return batches


def arrange(packs, how, capacity):
    """Batches of lengths, and the width of each."""
    lengths = [n for pack in packs for n in pack]
    if how == "padded":
        return [(lengths, capacity)]
    batches = by_length(lengths, len(packs) * capacity) if how == "sorted" else [[n] for n in lengths]
    return [(some, some[0]) for some in batches]


def batch_of(lengths, width, vocabulary):
    ids = torch.randint(0, vocabulary - 100, (len(lengths), width))
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for i, n in enumerate(lengths):
        mask[i, :n] = 1
        places = [j for j in range(n) if (i + j) % 7 == 0]
        labels[i, places] = ids[i, places]
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def seconds_of(model, optimizer, packs, how, o):
    batches = [batch_of(some, width, model.config.vocab_size) for some, width in arrange(packs, how, o.capacity)]
    best = math.inf
    for turn in range(o.repeats + 1):
        begin = o.now()
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=o.bf16):
                loss = model(**batch).loss
            (loss / len(batches)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if turn > 0 or o.repeats == 0:  # none: the first one counts
            best = min(best, o.now() - begin)
    return best, sum(n for pack in packs for n in pack)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs")
    parser.add_argument("--model", default="modernbert")
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--capacity", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cpu-time", dest="now", action="store_const", const=time.process_time,
                        default=time.perf_counter)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--pure", action="store_true")
    parser.add_argument("--only", default="sorted,sequence")
    o = parser.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    with open(o.packs, encoding="ascii") as file:
        updates = [[[int(n) for n in pack.split()] for pack in line.split(";")] for line in file]
    config = transformers.ModernBertConfig(num_hidden_layers=o.layers, sparse_prediction=True)
    config._attn_implementation = "sdpa"
    model = transformers.ModernBertForMaskedLM(config).train()
    if o.pure:
        model = model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)
    kind = "bf16" if o.pure else "bf16 by autocast" if o.bf16 else "f32"
    print(f"Transformers {transformers.__version__}, PyTorch {torch.__version__}, {torch.get_num_threads()} threads, "
          f"{kind}")
    for how in ("padded", "sorted", "sequence"):
        if how not in o.only.split(","):
            continue
        seconds = tokens = 0
        for packs in updates:
            s, t = seconds_of(model, optimizer, packs, how, o)
            seconds, tokens = seconds + s, tokens + t
        print(f"{how:10s} {tokens / seconds:8.0f} tokens/s", flush=True)
    print(f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()

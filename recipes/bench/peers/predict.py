"""Vectors or classes of lines with Transformers, for recipes/bench/predict.lua, which runs this.

    predict.py LINES INIT encode|predict MAX_LEN BATCH THREADS f32|bf16

A line "ARRANGEMENT FIRST END" on standard input works on lines FIRST..END-1 and is answered with the seconds;
arrangements: sorted (by length, longest first) and unsorted.  Batches are padded to their longest sequence.
"""
import sys
import time

import torch
import transformers


def main():
    path, init, verb = sys.argv[1:4]
    max_len, size, threads = map(int, sys.argv[4:7])
    bf16 = sys.argv[7] == "bf16"
    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with open(path, encoding="utf-8", newline="\n") as file:
        lines = [line.rstrip("\n") for line in file]
    tokenizer = transformers.AutoTokenizer.from_pretrained(init)
    cls = transformers.BertForSequenceClassification if verb == "predict" else transformers.BertModel
    model = cls.from_pretrained(init).eval()

    def compute(texts):
        inputs = tokenizer(texts, padding=True, truncation=True, max_length=max_len, return_tensors="pt")
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            if verb == "predict":
                return torch.softmax(model(**inputs).logits, 1).tolist()
            mask = inputs["attention_mask"].unsqueeze(-1).float()
            x = (model(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(x).numpy()

    def work(how, texts):
        order = list(range(len(texts)))
        if how == "sorted":
            order.sort(key=lambda i: -len(texts[i]))
        results = [None] * len(texts)
        for first in range(0, len(order), size):
            part = order[first:first + size]
            for i, result in zip(part, compute([texts[i] for i in part])):
                results[i] = result
        return results

    work("sorted", lines[:100])
    print(f"Transformers {transformers.__version__}, PyTorch {torch.__version__}, {torch.get_num_threads()} threads, "
          f"attention: {model.config._attn_implementation}, batches of {size}", flush=True)
    for line in sys.stdin:
        how, first, end = line.split()
        began = time.perf_counter()
        work(how, lines[int(first):int(end)])
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()

"""Fine-tuning with Transformers, padded, on the updates of recipes/bench/finetune.lua, which runs this.

    finetune.py UPDATES INIT TASK OUTPUTS MAX_LEN THREADS

UPDATES has a line of JSON for each update: sequences with ids, types and label.  A line "ARRANGEMENT FIRST END" on
standard input trains on updates FIRST..END-1 and is answered with the seconds; arrangements: longest (padded to the
longest sequence of the update) and full (padded to MAX_LEN).
"""
import json
import sys
import time

import torch
import transformers


def tensors_of(sequences, width, regress):
    def pad(key):
        return torch.tensor([s[key] + [0] * (width - len(s[key])) for s in sequences])

    mask = torch.tensor([[1] * len(s["ids"]) + [0] * (width - len(s["ids"])) for s in sequences])
    labels = torch.tensor([s["label"] for s in sequences], dtype=torch.float32 if regress else torch.long)
    return {"input_ids": pad("ids"), "token_type_ids": pad("types"), "attention_mask": mask, "labels": labels}


def main():
    path, init, task = sys.argv[1:4]
    outputs, max_len, threads = map(int, sys.argv[4:7])
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with open(path, encoding="ascii") as file:
        updates = [json.loads(line) for line in file]
    model = transformers.BertForSequenceClassification.from_pretrained(
        init, num_labels=outputs, problem_type="regression" if task == "regress" else None).train()
    decay = [p for n, p in model.named_parameters() if not (n.endswith("bias") or "LayerNorm" in n)]
    plain = [p for n, p in model.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
                                  lr=2e-5, fused=True)

    def train(how, update):
        width = max_len if how == "full" else max(len(s["ids"]) for s in update)
        loss = model(**tensors_of(update, width, task == "regress")).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    train("longest", updates[0])
    train("full", updates[0])
    print(f"Transformers {transformers.__version__}, PyTorch {torch.__version__}, {torch.get_num_threads()} threads, "
          f"attention: {model.config._attn_implementation}, fused AdamW", flush=True)
    for line in sys.stdin:
        how, first, end = line.split()
        began = time.perf_counter()
        for update in updates[int(first):int(end)]:
            train(how, update)
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()

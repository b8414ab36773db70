#!/usr/bin/env python3
"""Makes tests/data/scores/ranking.json: nDCG, reciprocal ranks and recall of random vectors by pytrec_eval, the
bindings of trec_eval.

    pip install pytrec-eval-terrier numpy
    python3 tests/peers/ranking.py > tests/data/scores/ranking.json
"""
import json

import numpy as np
import pytrec_eval

rng = np.random.default_rng(11)


def case(queries, documents, size, most):
    q = np.round(rng.normal(size=(queries, size)), 3)
    d = np.round(rng.normal(size=(documents, size)), 3)
    wanted, run = {}, {}
    for i in range(queries):
        places = rng.choice(documents, rng.integers(1, most + 1), replace=False)
        wanted[f"q{i}"] = {f"d{k}": int(rng.integers(1, 4)) for k in places}
        run[f"q{i}"] = {f"d{k}": float(q[i] @ d[k]) for k in range(documents)}
    measures = {"ndcg_cut.10", "recip_rank", "recall.1,10,100"}
    found = pytrec_eval.RelevanceEvaluator(wanted, measures).evaluate(run)
    rows = list(found.values())

    def mean(values):
        return float(np.mean(list(values)))

    return {
        "queries": q.tolist(), "documents": d.tolist(),
        "wanted": [{key[1:]: grade for key, grade in wanted[f"q{i}"].items()} for i in range(queries)],
        "ndcg_at_10": mean(r["ndcg_cut_10"] for r in rows),
        "mrr_at_10": mean(r["recip_rank"] if r["recip_rank"] >= 0.1 - 1e-9 else 0.0 for r in rows),
        "recall_at_1": mean(r["recall_1"] for r in rows), "recall_at_10": mean(r["recall_10"] for r in rows),
        "recall_at_100": mean(r["recall_100"] for r in rows),
    }


print(json.dumps([case(6, 130, 4, 5), case(9, 40, 3, 12), case(3, 8, 2, 8)]))

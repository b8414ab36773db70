# Attention by length, with PyTorch's beside it: TFLOP/s of useful work, 4 n d (10 n d backward) a token and head.
BEGIN { heads = 16; size = 64 }
$2 == "attention" {
    op = $4
    peer = sub(/^PyTorch /, "", op)
    split(op, word, " ")
    work = (word[1] == "forward" ? 4 : 10) * $3 * word[2] * heads * size
    rate[op, peer] = work / $5 * 1e-6
    if (!(op in seen)) order[++count] = op
    seen[op] = 1
}
END {
    if (count) printf "%-24s %10s %10s\n", "attention, TFLOP/s", "here", "PyTorch"
    for (i = 1; i <= count; i++) {
        op = order[i]
        printf "%-24s %10.1f %10s\n", op, rate[op, 0], (op, 1) in rate ? sprintf("%.1f", rate[op, 1]) : "-"
    }
}

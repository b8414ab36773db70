#!/usr/bin/env bash
# A newcomer's first five minutes, as a script: tests/first_minutes.sh BUILD.
set -u
build=${1:?usage: tests/first_minutes.sh BUILD}
[ "${SAN:-0}" = 0 ] || { echo "with sanitizers, newcomers would wait too long" && exit 77; }
program=$build/seqrun
dir=$(mktemp -d)
child=
leave() {
    [ -z "$child" ] || kill -KILL "$child" 2>/dev/null
    rm -rf "$dir"
}
trap leave EXIT

log=$dir/log
fail() {
    echo "first minutes: $1"
    echo "--- output of the last command:"
    tail -n 30 "$log"
    exit 1
}
# expect CODE WHAT COMMAND...: the command must exit with CODE.
expect() {
    local wanted=$1 what=$2 rc begin=$EPOCHREALTIME
    shift 2
    "$@" >"$log" 2>&1 </dev/null
    rc=$?
    [ $rc -eq "$wanted" ] || fail "$what: exit code $rc, expected $wanted: $*"
    awk -v a="$begin" -v b="$EPOCHREALTIME" -v what="$what" 'BEGIN { printf "%6.1f s  %s\n", b - a, what }'
}
# shows WORDS WHAT: the last command must have printed WORDS, an extended regular expression.
shows() { grep -qE -- "$1" "$log" || fail "$2: no '$1' was printed"; }

# 0:00  the build reports what it found, and how to install the rest
expect 0 "build summary" sh .make/summary.sh "$program"
for part in cpu cuda nccl mpi libedit; do shows "^  $part +(yes|no) " "build summary"; done

# 1:00  the doctor: at most fifteen findings; each failed check suggests a command
"$program" doctor >"$log" 2>&1
[ $? -le 1 ] || fail "doctor: it failed"
[ "$(grep -cE '^(ok|NO|✓|✗) ' "$log")" -le 15 ] || fail "doctor: too many findings"
[ "$(grep -cE '^(NO|✗) ' "$log")" -eq "$(grep -c '  try: ' "$log")" ] || fail "doctor: a failed check without a suggested command"

# 1:10  the demo, a few steps of each phase
expect 0 "a short demo" env "DEMO_OUT=$dir/demo" sh recipes/demo.sh "$program" --max-steps 3 --threads 2
shows "vocabulary: 4,000 tokens" "demo"
shows "factor [3-9]\." "demo: phase 2 packs at least three sequences per pack"
shows "times as fast as padded" "demo"
shows "unigram" "demo"
data=data.file=$dir/demo/novels.sqr
for phase in phase1 phase2; do
    [ -s "$dir/demo/$phase/metrics.jsonl" ] || fail "demo: $phase wrote no metrics"
done
expect 0 "info on the result" "$program" info "$dir/demo/phase2" --json

# 3:00  looking around
expect 0 "an expression" "$program" -e '1 + 2 * 3'
shows "^7$" "-e"
expect 0 "help" "$program" help
shows "tokenize" "help"
expect 2 "an unknown command" "$program" tokenise
shows "did you mean 'tokenize'" "an unknown command"

{
    echo review,stars
    for i in $(seq 40); do printf '"a fine day, or %d",5\na bad day of %d,1\n' $i $i; done
} >"$dir/reviews.csv"

# 3:15  every command in README.md, with other directories and fewer steps
tiny="model.hidden_size=32 model.num_hidden_layers=2 model.num_attention_heads=2 model.intermediate_size=64 batch.sequences=8"
while read -r line; do
    line=${line%%#*}
    case $line in
    *recipes/prepare.lua*) ;;
    *recipes/finetune*) line="$line data.folder=$dir --out $dir/tuned --max-steps 3 --threads 2" ;;
    *--dry-run*) line="$line --out $dir/base" ;;
    *recipes/*) line="$line $tiny --out $dir/base --max-steps 2" ;;
    esac
    line=$(sed "s#build/seqrun#$program#; s#runs/bert_phase1#$dir/base#; s#runs/data#$dir/demo#g; s#my/texts#recipes/data#; s#reviews.csv#$dir/&#" <<<"$line")
    eval "words=($line)" # with its quotes
    expect 0 "README: $(basename "${words[1]:-prompt}") ${words[2]:-}" "${words[@]}"
done < <(sed ':a; /\\$/N; s/\\\n *//; ta' README.md | grep '^    build/seqrun')
[ -d "$dir/tuned/step-000000003" ] || fail "README: its fine-tuning did not reach step 3"
[ -s "$dir/demo/mine.sqr" ] || fail "README: no text was prepared"
[ -d "$dir/base/step-000000002" ] || fail "README: its pretraining did not reach step 2"

# 3:30  typos in config keys: all errors at once, with suggestions
expect 2 "a typo in a config key" "$program" recipes/pretrain.lua "$data" --out "$dir/typo" "optimzer.betas=[0.9,0.95]" \
    rate.peek=1
shows "did you mean '?(optimizer|optimizer.betas)'?" "a typo in a config key"
shows "did you mean '?(peak|rate.peak)'?" "a second typo in the same command"
[ ! -e "$dir/typo" ] || fail "a typo in a config key: the output directory was created nevertheless"

# 4:00  Ctrl-C, then --resume
expect 0 "a dry run" "$program" recipes/pretrain.lua "$data" --out "$dir/run" --dry-run
[ ! -e "$dir/run" ] || fail "a dry run: it wrote something"
# Bash starts background jobs with SIGINT ignored; env restores the default.
env --default-signal=INT "$program" recipes/pretrain.lua "$data" --out "$dir/run" log.every=1 >"$log" 2>&1 </dev/null &
child=$!
for _ in $(seq 3000); do
    [ "$(grep -c '"step"' "$dir/run/metrics.jsonl" 2>/dev/null)" -ge 2 ] 2>/dev/null && break
    kill -0 "$child" 2>/dev/null || fail "Ctrl-C: the run ended before it could be stopped"
    sleep 0.1
done
kill -INT "$child"
wait "$child"
rc=$?
child=
[ $rc -eq 75 ] || fail "Ctrl-C: exit code $rc, expected 75"
shows "step-0*[1-9]" "Ctrl-C: the path of the checkpoint"
stopped=$(find "$dir/run" -maxdepth 1 -name 'step-*' | sed 's/.*step-0*//' | sort -n | tail -n 1)
[ -n "$stopped" ] || fail "Ctrl-C: no checkpoint"
expect 2 "a second run in the same directory without --resume" "$program" recipes/pretrain.lua "$data" --out "$dir/run"
expect 0 "--resume" "$program" recipes/pretrain.lua "$data" --out "$dir/run" --resume --max-steps $((stopped + 2)) log.every=1
[ -d "$dir/run/step-$(printf '%09d' $((stopped + 2)))" ] || fail "--resume: step $((stopped + 2)) was not saved"
echo "first minutes: stopped at step $stopped, resumed to step $((stopped + 2))"

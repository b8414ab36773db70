#!/usr/bin/env bash
# The short tests under valgrind's memcheck: .make/valgrind.sh BUILD.  `make test-valgrind` builds the tests and calls it.
#
# Short is a C program, a replayed fuzz target or a spec that takes at most SHORT seconds by itself.  Specs run without
# tests tagged #slow and as far as they do not start the program, as in the eager round of `make test`.  An invalid
# access, a use of uninitialised bytes or a definite leak fails a test, if tests/valgrind.supp does not name it.
#
# SHORT      seconds, default 2
# TEST_JOBS  number of parallel jobs, default 1
# TEST_ONLY  run only tests whose names match this pattern (grep -E)
set -u
build=${1:?usage: .make/valgrind.sh BUILD}
cd "$(dirname "$0")/.." || exit 1
logs=$build/valgrind-logs
rm -rf "$logs" && mkdir -p "$logs" || exit 1
short=${SHORT:-2} limit=${TEST_LIMIT:-3600}
FOUND=99
memcheck=(valgrind -q --error-exitcode=$FOUND --leak-check=full --errors-for-leak-kinds=definite
    --show-leak-kinds=definite --suppressions=tests/valgrind.supp --child-silent-after-fork=yes --num-callers=25)

# Whether all that failed are tests on simt: valgrind has no room for the addresses that it reserves.
only_simt() { # LOG
    local failed
    failed=$(grep -c '^ *FAILED' "$1")
    [ "$failed" -gt 0 ] && [ "$failed" -eq "$(grep -c 'simt: cannot reserve' "$1")" ]
}

# NAME COMMAND...: runs it alone, and under memcheck if it is short; writes NAME.result
check() {
    local name=$1 rc began=$SECONDS
    shift
    timeout -k 5 "$short" "$@" >"$logs/$name.log" 2>&1 </dev/null
    rc=$?
    if [ $rc -eq 124 ] || [ $rc -eq 137 ]; then
        echo "left out" >"$logs/$name.result"
        return
    fi
    if [ $rc -eq 77 ]; then
        echo "left out" >"$logs/$name.result" # it skips itself on this machine
        return
    fi
    timeout -k 10 "$limit" "${memcheck[@]}" "$@" >"$logs/$name.log" 2>&1 </dev/null
    rc=$?
    if [ $rc -eq 0 ] || [ $rc -eq 77 ]; then
        echo passed >"$logs/$name.result"
        echo "ok     $name ($((SECONDS - began)) s)"
    elif [ $rc -eq 1 ] && only_simt "$logs/$name.log"; then
        echo passed >"$logs/$name.result"
        echo "ok     $name ($((SECONDS - began)) s, without simt)"
    else
        echo failed >"$logs/$name.result"
        echo "FAILED $name (exit $rc$([ $rc -eq $FOUND ] && echo ": memcheck"))"
        tail -n 60 "$logs/$name.log" | sed 's/^/    /'
    fi
}

start() {
    if [ -n "${TEST_ONLY:-}" ] && ! grep -qE "$TEST_ONLY" <<<"$1"; then return; fi
    while [ "$(jobs -rp | wc -l)" -ge "${TEST_JOBS:-1}" ]; do wait -n; done
    check "$@" &
}

for program in tests/c/*.c; do
    name=$(basename "$program" .c)
    start "c-$name" "$build/tests/$name"
done
for target in tests/fuzz/*.c; do
    name=fuzz-$(basename "$target" .c)
    start "$name" "$build/tests/$name"
done
for spec in tests/spec/*_spec.lua; do
    start "$(basename "$spec" _spec.lua)" "$build/seqrun" tests/run.lua without=slow children=no "$spec"
done
wait

count() { cat "$logs"/*.result 2>/dev/null | grep -c "^$1"; }
echo "valgrind: $(count passed) passed, $(count failed) failed, $(count 'left out') longer than $short s left out"
[ "$(count failed)" -eq 0 ] && [ "$(count passed)" -gt 0 ]

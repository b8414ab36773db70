#!/usr/bin/env bash
# Simulates power cuts of a real ext4 file system while checkpoints are saved (every third time in the
# background), mounts it again (the journal is replayed) and checks that every promised checkpoint is
# intact.  The cuts take turns in ext4's three orders of persistence: data before their metadata (ordered),
# in any order (writeback), through the journal (journal).    tests/power_cut.sh BUILD
# COUNT sets the number of cuts (default 10; 300 in make test-long); SEED repeats their times, as far as
# times can be repeated.  Needs root and loop mounts.
set -u
seqrun=$1/seqrun cuts=${COUNT:-$([ "${LONG:-0}" = 1 ] && echo 300 || echo 10)}
RANDOM=${SEED:=$$}
[ "$(id -u)" -eq 0 ] || { echo "skipped: not root"; exit 77; }
export PATH=$PATH:/usr/sbin:/sbin
mkfs.ext4 -V >/dev/null 2>&1 && losetup -f >/dev/null 2>&1 ||
    { echo "skipped: no loop device, or no tools for ext4"; exit 77; }
work=$(mktemp -d)
disk=$work/disk
# Children of the neighbour may use the disk a moment longer.
unmount() {
    for _ in $(seq 1200); do
        mountpoint -q "$disk" || return 0
        umount "$disk" 2>/dev/null && return 0
        sleep 0.05
    done
    umount -l "$disk"
    return 1
}
cleanup() {
    [ -n "${victim:-}" ] && kill -9 "$victim" 2>/dev/null
    [ -n "${neighbour:-}" ] && kill "$neighbour" 2>/dev/null
    unmount
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
mkdir "$disk"
truncate -s 64M "$work/image"
mkfs.ext4 -q -F "$work/image" 2>/dev/null && mount -o loop "$work/image" "$disk" 2>/dev/null ||
    { echo "skipped: no mounts (an ext4 image cannot be mounted on a loop device here)"; exit 77; }
${CC:-gcc} -O1 -o "$work/shutdown" tests/support/shutdown.c || exit 1

${CC:-gcc} -O1 -shared -fPIC -o "$work/nosync.so" tests/support/nosync.c || exit 1

# Mounts the disk with an order of persistence.
attach() { # ORDER
    mount -o "loop,data=$1" "$work/image" "$disk" || { echo "the disk cannot be mounted with data=$1"; exit 1; }
}

# One power cut; PRELOAD is loaded into the victim.  Sets promised; returns 1 if a promise was broken.
orders=(ordered writeback journal) number=0
cut() { # PRELOAD
    number=$((number + 1))
    order=${orders[number / 3 % 3]}
    unmount && attach "$order"
    rm -rf "$disk/run" "$work/promises" && : >"$work/promises" && sync -f "$disk"
    LD_PRELOAD=$1 "$seqrun" tests/support/save_run.lua "$disk/run" 1 0 "$work/promises" \
        $([ $((number % 3)) -eq 0 ] && echo background) >/dev/null 2>&1 &
    victim=$!
    # a neighbour that commits the journal constantly, so that partial writes reach the disk
    (while :; do echo x >>"$disk/neighbour" && sync "$disk/neighbour" || exit; sleep 0.003; done) 2>/dev/null &
    neighbour=$!
    # every second cut waits for a promise; the others may hit the first save
    awaited=$disk/run
    [ $((number % 2)) -eq 0 ] && awaited=$work/promises
    for _ in $(seq 1000); do [ -s "$awaited" ] && break; sleep 0.01; done
    sleep "0.$(printf %03d $((RANDOM % 250 + 30)))"
    "$work/shutdown" "$disk" || exit 1
    kill -9 "$victim" 2>/dev/null
    kill "$neighbour" 2>/dev/null
    wait "$victim" "$neighbour" 2>/dev/null
    victim='' neighbour=''
    promised=$(tail -n 1 "$work/promises")
    unmount && attach "$order"
    [ -z "$promised" ] && [ ! -d "$disk/run" ] && return 0
    "$seqrun" tests/support/check_run.lua "$disk/run" "${promised:-0}"
}

bad=0 kept=0
for n in $(seq "$cuts"); do
    cut "" || { echo "cut $n (data=$order): lost step ${promised:-0}, which was promised"; bad=$((bad + 1)); }
    [ -n "$promised" ] && kept=$((kept + 1))
done
echo "$cuts power cuts in three orders of persistence, $kept after a promise, $bad broke one (seed $SEED)"

# test of the harness: without fsync it must find a broken promise
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
for n in $(seq 40); do
    cut "$work/nosync.so" >/dev/null 2>&1 && continue
    echo "without fsync, cut $n broke a promise"
    [ "$bad" -eq 0 ] && [ $((kept * 3)) -ge "$cuts" ]
    exit
done
echo "without fsync no promise was broken: the harness detects nothing"
exit 1

#!/bin/sh
# Counts the tree by room, against the budgets in .make/size.txt, for `make size` and `make lint`.
#
#   sh .make/size.sh [REVISION]    with REVISION: also what has come and gone since it, by room
#
# Code is counted in lines that are neither blank nor comment, docs in words of their Markdown.  A room is a
# path in size.txt; a file belongs to the longest that it is below.  Exits with 1 where a room or a total is
# above its budget, or a file belongs to no room.
set -eu

# count DIR: a line `PATH AMOUNT` for each file below it that counts.
count() (
    cd "$1"
    find core kernels lua recipes tests -type f \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.cu' \
        -o -name '*.cuh' -o -name '*.inc' -o -name '*.lua' -o -name '*.sh' -o -name '*.py' \) \
        ! -path 'tests/data/*' ! -name 'hf_classes.inc' -print0 | xargs -0 awk '
        FNR == 1 { comment = 0; kind = FILENAME; sub(/.*\./, "", kind); c = kind !~ /^(lua|sh|py)$/ }
        { line = $0; gsub(/^[ \t]+|[ \t\r]+$/, "", line) }
        c { # comments of C, over several lines or before code
            while (comment || line ~ /^\/\*/) {
                comment = 1
                if (!match(line, /\*\//)) { line = ""; break }
                comment = 0; line = substr(line, RSTART + 2); gsub(/^[ \t]+/, "", line)
            }
            if (line ~ /^\/\//) line = ""
            else if (match(line, /\/\*[^"]*$/) && line !~ /\*\/[^"]*$/) comment = 1
        }
        kind == "lua" {
            if (comment) { if (line ~ /\]\]/) comment = 0; line = "" }
            else if (line ~ /^--\[\[/) { comment = line !~ /\]\]/; line = "" }
            else if (line ~ /^--/) line = ""
        }
        (kind == "sh" || kind == "py") && line ~ /^#/ { line = "" }
        line != "" { lines[FILENAME]++ }
        END { for (file in lines) print file, lines[file] }'
    find docs -name '*.md' -exec wc -w {} + | awk '$2 != "total" { print $2, $1 }'
)

new=$(mktemp) old=$(mktemp) tree=
trap 'rm -rf "$new" "$old" $tree' EXIT
count . >"$new"
if [ -n "${1:-}" ]; then
    tree=$(mktemp -d)
    git archive "$1" | tar -x -C "$tree"
    count "$tree" >"$old"
fi

awk -v since="${1:-}" '
    function room_of(file, room) {
        for (room = file; sub(/\/[^\/]*$/, "", room);) if (room in budget) return room
        return ""
    }
    function total_of(room) {
        if (room ~ /^(tests|docs)/) return substr(room, 1, index(room "/", "/") - 1)
        return room == "recipes/papers" ? "papers" : "product"
    }
    function row(name, what, size, before) {
        mark = size > what ? "  above its budget" : ""
        if (mark != "") failed = 1
        printf "%-28s %8d %8d%s%s\n", name, size, what, since == "" ? "" : sprintf(" %+8d", size - before), mark
    }
    FILENAME ~ /size\.txt$/ {
        if ($0 ~ /^[a-z]/) { budget[$1] = $2; order[++rooms] = $1 }
        next
    }
    { room = room_of($1) }
    FILENAME == ARGV[3] { before[room] += $2; before_total[total_of(room)] += $2; next }
    room == "" { printf "%s: belongs to no room of .make/size.txt\n", $1; failed = 1 }
    { size[room] += $2; total[total_of(room)] += $2 }
    END {
        printf "%-28s %8s %8s%s\n", "room", "size", "budget", since == "" ? "" : sprintf(" %8s", "change")
        for (i = 1; i <= rooms; i++) {
            name = order[i]
            if (name in total) row(name " in all", budget[name], total[name], before_total[name])
            else row(name, budget[name], size[name], before[name])
        }
        exit failed
    }' .make/size.txt "$new" "$old"

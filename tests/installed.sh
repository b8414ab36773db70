#!/usr/bin/env bash
# The installed program, and the Debian package, work without the sources: tests/installed.sh BUILD.
set -u
[ "${SAN:-0}" = 0 ] || { echo "with sanitizers, nothing is installed" && exit 77; }
build=$(realpath "${1:?usage: tests/installed.sh BUILD}")
sources=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
log=$dir/log
fail() {
    echo "installed: $1" >&2
    tail -n 30 "$log" >&2
    exit 1
}
# works WHAT COMMAND...: in an empty directory, with the PATH of the installed program and little else.
works() {
    local what=$1
    shift
    (cd "$dir/empty" && env -i HOME="$dir/empty" TERM=dumb PATH="$prefix/bin:/usr/bin:/bin:/usr/sbin" "$@") >"$log" 2>&1 \
        </dev/null || fail "$where: $what: $*"
}
shows() { grep -qE -- "$1" "$log" || fail "$where: no '$1' was printed"; }

check() { # WHERE PREFIX
    where=$1 prefix=$2
    local share=$prefix/share recipes=$prefix/share/seqrun/recipes doc=$prefix/share/doc/seqrun f
    rm -rf "$dir/empty" && mkdir "$dir/empty"
    works version seqrun version
    works help seqrun help
    works "an expression" seqrun -e 'sr.tensor({1, 2}):sum():item()'
    shows '^3'
    works "help of the prompt" seqrun -e 'help "attention"'
    works "its own recipe" seqrun new mine
    works "help of its own recipe" bash -c "seqrun mine/*.lua --help"
    works "a data set" seqrun "$recipes/prepare.lua" vocab.size=600
    works "a dry run" seqrun "$recipes/pretrain.lua" --dry-run
    works "a run" seqrun "$recipes/pretrain.lua" --max-steps 1 eval.updates=1 model.num_hidden_layers=1 --threads 1
    works "a report of it" seqrun info runs/pretrain
    works "completion" bash -c "source $share/bash-completion/completions/seqrun && complete -p seqrun"
    for f in "$doc"/{README.md,api.html,docs/README.md,docs/learn/guide.md} "$share/fish/vendor_completions.d/seqrun.fish" \
        "$prefix/include/seqrun/core/seqrun.h" "$recipes/demo.sh"; do
        [ -s "$f" ] || fail "$where: $f is missing"
    done
    for f in core/seqrun.h core/tensor/plugin.h; do # with what they include, and nothing else
        "${CC:-cc}" -std=c11 -D_GNU_SOURCE -fsyntax-only -I"$prefix/include/seqrun" -x c "$prefix/include/seqrun/$f" >"$log" 2>&1 || fail "$where: $f does not compile"
    done
    [ ! -e "$prefix/include/seqrun/core/loader/fetcher.h" ] || fail "$where: internal headers are installed"
    while IFS=: read -r page f; do # links between the documents
        [ -e "$(dirname "$page")/$f" ] || fail "$where: $page links to $f, which is not there"
    done < <(cd "$doc" && grep -roE '\]\([A-Za-z_./]+\.(md|svg)' --include=*.md . | sed "s#^\./#$doc/#; s#:\](#:#")
    works "help finds the documents" seqrun help guide
    shows '^ *2\. A corpus'
    ! grep -rlIF "$sources" "$prefix" >"$log" || fail "$where: a file names the directory of the sources"
    command -v strace >/dev/null || return
    works "strace" strace -f -qq -e trace=openat,access,newfstatat -o trace seqrun -e 1
    ! grep -F "$sources/" "$dir/empty/trace" >"$log" || fail "$where: the program reads the sources"
}

DESTDIR=$dir sh .make/install.sh "$build" /opt/seqrun >"$log" 2>&1 || fail "make install"
[ -s "$dir/opt/seqrun/share/man/man1/seqrun.1" ] || fail "the manual page is missing"
check "make install" "$dir/opt/seqrun"
DESTDIR=$dir sh .make/install.sh "$build" /opt/seqrun remove
[ -z "$(find "$dir/opt" -type f)" ] || fail "make uninstall leaves $(find "$dir/opt" -type f | head -n 3)"

if ! command -v dpkg-shlibdeps >/dev/null || ! command -v strip >/dev/null; then
    echo "no dpkg-dev, so no package was built"
    exit 77
fi
package() { # TO: builds it there
    DPKG_DEB_COMPRESSOR_TYPE=none VERSION=1.2.3 DEBEMAIL=seqrun@debian.org sh .make/deb.sh "$build" "$1" >"$log" 2>&1 || fail "make deb"
    ls "$1"/*.deb
}
deb=$(package "$dir/one") || exit 1
dpkg-deb -f "$deb" >"$log"
where="make deb"
for line in "Version: 1.2.3" "Depends: .*lua-argparse.*liblua5.4-0" "Architecture: "; do shows "^$line"; done
[ ! -e "$build/seqrun_mpi.so" ] || shows "^Suggests: openmpi-bin"
dpkg-deb -x "$deb" "$dir/root"
for f in man/man1/seqrun.1.gz doc/seqrun/copyright doc/seqrun/changelog.gz zsh/vendor-completions/_seqrun; do
    [ -s "$dir/root/usr/share/$f" ] || fail "$where: usr/share/$f is missing"
done
check "make deb" "$dir/root/usr"
[ -n "${LONG:-}" ] || exit 0
again=$(package "$dir/two") || exit 1
cmp -s "$deb" "$again" || fail "make deb: two packages of the same build differ"
if command -v lintian >/dev/null; then
    lintian --allow-root --suppress-tags bogus-mail-host --fail-on error,warning "$deb" >"$log" 2>&1 || fail "lintian"
fi

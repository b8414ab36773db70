#!/bin/sh
# Installs what make built, or removes it: .make/install.sh BUILD PREFIX [remove], below $DESTDIR if that is set.
set -eu
build=$1 prefix=${DESTDIR:-}$2
share=$prefix/share
doc=$share/doc/seqrun
printed="bash:bash-completion/completions/seqrun zsh:zsh/site-functions/_seqrun
    fish:fish/vendor_completions.d/seqrun.fish man:man/man1/seqrun.1" # by `seqrun completion KIND`

if [ "${3:-}" = remove ]; then
    rm -f "$prefix/bin/seqrun"
    for c in $printed; do rm -f "$share/${c#*:}"; done
    rm -rf "$prefix/lib/seqrun" "$prefix/include/seqrun" "$share/seqrun" "$doc"
    exit
fi

# copy DIRECTORY FILE...: files with their paths
copy() {
    to=$1
    shift
    for f in "$@"; do install -D -m 644 "$f" "$to/$f"; done
}
install -D -m 755 "$build/seqrun" "$prefix/bin/seqrun"
for f in "$build"/seqrun_*.so; do
    [ ! -e "$f" ] || install -D -m 755 "$f" "$prefix/lib/seqrun/${f##*/}"
done
find lua/seqrun recipes -type f ! -name '*.o' | while read -r f; do copy "$share/seqrun" "$f"; done
chmod 755 "$share/seqrun/recipes/demo.sh"
for f in "$build"/meta/*.lua; do install -D -m 644 "$f" "$share/seqrun/lua/seqrun/meta/${f##*/}"; done
# The headers of programs and of plug-ins, with what they include: the others are internal.
headers=$(${CC:-cc} -I. -MM core/seqrun.h core/tensor/plugin.h) # a failure ends the script
copy "$prefix/include/seqrun" $(printf "%s\n" "$headers" | tr -s ' \\' '\n\n' | grep '^core/' | sort -u)
copy "$doc" README.md LICENSE docs/*.md docs/*/*
"$build/seqrun" help --html >"$doc/api.html"
for c in $printed; do
    install -d "$(dirname "$share/${c#*:}")"
    "$build/seqrun" completion "${c%%:*}" >"$share/${c#*:}"
done

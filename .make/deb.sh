#!/bin/sh
# Builds a Debian package of what make built: VERSION=N .make/deb.sh BUILD TO writes TO/seqrun_N_ARCH.deb.
# DEBFULLNAME and DEBEMAIL name who made it.  The same files and commit give the same bytes.
set -eu
build=$1 to=$2
maintainer="${DEBFULLNAME:-the seqrun authors} <${DEBEMAIL:-$(id -un)@$(hostname -f 2>/dev/null || hostname)}>"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
arch=$(dpkg --print-architecture)
dir=$to/deb root=$to/deb/root
doc=$root/usr/share/doc/seqrun
rm -rf "$dir"
mkdir -p "$root/DEBIAN" "$dir/debian"
DESTDIR=$root sh .make/install.sh "$build" /usr

# ---- files that Debian wants in other places ------------------------------------------------------------
mkdir -p "$root/usr/share/zsh/vendor-completions"
mv "$root/usr/share/zsh/site-functions/_seqrun" "$root/usr/share/zsh/vendor-completions/_seqrun"
rmdir "$root/usr/share/zsh/site-functions"
gzip -9n "$root/usr/share/man/man1/seqrun.1"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: seqrun\n\n'
    printf 'Files: *\nCopyright: %s\nLicense: Expat\n' "$(sed -n 's/^Copyright (c) //p' LICENSE)"
    sed -n '/^Permission/,$ { s/^$/./; s/^/ /; p; }' LICENSE
    printf '\nFiles: usr/share/seqrun/recipes/data/*.txt\nCopyright: none, Jane Austen died in 1817\nLicense: public-domain\n'
    printf ' The texts are in the public domain; see SOURCE.md beside them.\n'
} >"$doc/copyright"
rm "$doc/LICENSE"
printf 'seqrun (%s) unstable; urgency=medium\n\n  * Built from %s.\n\n -- %s  %s\n' "$VERSION" \
    "$(git describe --always --dirty 2>/dev/null || echo 'an unpacked source')" "$maintainer" \
    "$(date -uRd "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
find "$root/usr/bin" "$root/usr/lib" -type f -exec strip --strip-unneeded {} +

# ---- control: the libraries that the program links are required, those of the plug-ins suggested ----------
printf 'Source: seqrun\n\nPackage: seqrun\nArchitecture: %s\n' "$arch" >"$dir/debian/control"
libraries() { # FIELD FILE...
    field=$1
    shift
    files=
    for f in "$@"; do [ ! -e "$f" ] || files="$files -e${f#"$dir"/}"; done
    # shellcheck disable=SC2086 # one word per file
    [ -z "$files" ] || (cd "$dir" && dpkg-shlibdeps -O --ignore-missing-info "-d$field" $files 2>/dev/null) |
        sed -n 's/^shlibs:[^=]*=//p'
}
depends=$(libraries Depends "$root/usr/bin/seqrun")
suggests=$(libraries Suggests "$root/usr/lib/seqrun/seqrun_mpi.so")
[ -z "$suggests" ] || suggests="openmpi-bin, $(echo "$suggests" | sed 's/libc6 ([^)]*), //'), "
{
    printf 'Package: seqrun\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$VERSION" "$arch" "$maintainer"
    printf 'Section: science\nPriority: optional\n'
    printf 'Installed-Size: %s\n' "$(du -ks --apparent-size --exclude=DEBIAN "$root" | cut -f 1)"
    printf 'Depends: lua-argparse, %s\nSuggests: %swordnet-base\n' "$depends" "$suggests"
    printf 'Description: training of BERT-type encoders on packed sequences\n'
    printf ' seqrun trains BERT-type encoders on packed, variable-length sequences, from raw\n'
    printf ' text to a checkpoint that Hugging Face Transformers can load.  Its core and its\n'
    printf ' kernels are C and CUDA; recipes and the interactive prompt are Lua.\n'
} >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

find "$root" -type d -exec chmod 755 {} +
find "$root" -exec touch -hcd "@$SOURCE_DATE_EPOCH" {} +
package=$to/seqrun_${VERSION}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package: $(du -h "$package" | cut -f 1); install it with: apt-get install $(realpath "$package")"

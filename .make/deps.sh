#!/bin/sh
# Installs the Debian packages that are missing: .make/deps.sh PACKAGE...
# Says nothing and does nothing when all are there.
set -eu
if ! command -v dpkg-query >/dev/null; then
    echo "deps: this is no Debian system; have the equivalents of these installed: $*" >&2
    exit 0
fi
missing=
for p in "$@"; do
    case $(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true) in
    installed) ;;
    *) missing="$missing $p" ;;
    esac
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
    sudo=sudo
    if ! command -v sudo >/dev/null; then
        echo "deps: as root, run: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
fi
echo "deps: ${sudo:+with sudo: }apt-get install --no-install-recommends$missing"
install_missing() {
    # shellcheck disable=SC2086 # one word a package
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $missing \
        >/dev/null
}
# The package lists may be absent or stale: fetch them only when the first try fails.
if ! install_missing 2>/dev/null; then
    { $sudo apt-get -qq update && install_missing; } || {
        echo "deps: apt-get failed; see what it says above, mend it and run make deps again" >&2
        exit 1
    }
fi

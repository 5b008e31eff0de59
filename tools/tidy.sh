#!/usr/bin/env bash
# make tidy: the layer check, cppcheck and clang-tidy over the houses' sources (or the files named). Exit status 1 if one complains.
set -uo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh --build --tools || exit 1
houses="ec loop s3 engine gateway server client cli"
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
        mapfile -t files < <(find $houses -name '*.c' 2>/dev/null | sort)
fi
status=0
python3 tools/layers.py || status=1
[ ${#files[@]} -gt 0 ] || exit $status
flags=(-std=gnu11 -D_GNU_SOURCE -DMILLRACE_VERSION=0 -Iinclude -I. -I/usr/include/libxml2)
cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 --suppress=missingIncludeSystem -j"$(nproc)" \
        -D_GNU_SOURCE -DMILLRACE_VERSION='"0"' -Iinclude -I. "${files[@]}" || status=1
checks='-*,bugprone-*,clang-analyzer-*'
for off in bugprone-easily-swappable-parameters bugprone-implicit-widening-of-multiplication-result bugprone-reserved-identifier bugprone-narrowing-conversions bugprone-branch-clone \
        bugprone-assignment-in-if-condition bugprone-macro-parentheses bugprone-sizeof-expression \
        clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling; do
        checks+=",-$off"
done
export checks
flags_text=${flags[*]}
export flags_text
printf '%s\n' "${files[@]}" |
        xargs -P"$(nproc)" -I{} sh -c 'clang-tidy-14 --quiet --warnings-as-errors="*" --checks="$checks" {} -- $flags_text 2>/dev/null' || status=1
exit $status

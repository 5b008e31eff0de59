#!/bin/sh
# Writes what is made of the daemon's tables: server/generate.sh MILLRACED, in the folder of the project.
set -eu
millraced=$1
options=$(mktemp)
page=$(mktemp)
trap 'rm -f "$options" "$page"' EXIT

mkdir -p conf docs/man
"$millraced" --print-sample-config >conf/millrace.conf.sample
"$millraced" --print-settings-markdown >docs/configuration.md
"$millraced" --print-metrics-markdown >docs/metrics.md
build/venv/bin/python tools/compatibility.py
"$millraced" --print-settings-man >"$options"
# Between the two marks of the manual page.
awk -v options="$options" '
        /^\.\\" SETTINGS END$/ { skip = 0 }
        !skip { print }
        /^\.\\" SETTINGS BEGIN$/ { skip = 1; while ((getline line < options) > 0) print line }
' docs/man/millraced.8 >"$page"
cat "$page" >docs/man/millraced.8

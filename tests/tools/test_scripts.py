"""The project's own scripts: a check that can't fail is none."""
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def run(script, *arguments):
    done = subprocess.run([sys.executable, ROOT / "tools" / script, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


# ---- layers.py ----------------------------------------------------------------------------------------------


def tree(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


GOOD = {"include/ec.h": "", "include/engine.h": '#include "ec.h"\n', "include/s3_uri.h": "", "engine/log.h": "", "gateway/gw.h": "",
        "engine/log.c": '#include "log.h"\n#include "engine.h"\n#include <stdio.h>\n', "engine/drive/x.c": '#include "engine/log.h"\n',
        "gateway/put.c": '#include "gw.h"\n#include "engine.h"\n#include "s3_uri.h"\n'}


def test_layers_that_are_right(tmp_path):
    tree(tmp_path, GOOD)
    status, output = run("layers.py", tmp_path)
    assert status == 0 and "0 violation" in output, output


@pytest.mark.parametrize("name, text, word", [
    ("gateway/bad.c", '#include "engine/log.h"\n', "private to engine"), ("gateway/bad.c", '#include "../engine/log.h"\n', "private to engine"),
    ("ec/bad.c", '#include "engine.h"\n', "ec may not know engine"), ("engine/bad.c", '  #  include "s3_uri.h"\n', "engine may not know s3"),
    ("engine/bad.c", '#include "nowhere.h"\n', "not a file"), ("include/ec.h", '#include "engine.h"\n', "may not include")])
def test_layers_that_are_wrong(tmp_path, name, text, word):
    tree(tmp_path, {**GOOD, name: text})
    status, output = run("layers.py", tmp_path)
    assert status == 1 and word in output, output


# ---- unit.py ------------------------------------------------------------------------------------------------


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("text, counts, status", [
    ('echo "1..2"; echo "ok 1 - a"; echo "ok 2 - b"', "2 0 0", 0),
    ('echo "1..2"; echo "ok 1 - a"; echo "not ok 2 - b"; exit 1', "1 1 0", 1),
    ('echo "1..2"; echo "ok 1 - a"; echo "ok 2 # SKIP b"', "1 0 1", 0),
    ('echo "1..3"; echo "ok 1 - a"; kill -9 $$', "1 2 0", 1),          # died before the others reported
    ('echo "1..1"; echo "ok 1 - a"; exit 99', "1 1 0", 1),             # a sanitizer's exit status
    ('echo "1..1"; echo "not ok 1 - a child"; echo "ok 1 - a"', "1 0 0", 0), ('echo "1..1"; echo "ok 1"; echo "1..1"; echo "ok 1"', "2 0 0", 0),
    ("true", "0 1 0", 1), ('echo "1..1"; sleep 30', "0 1 0", 1)])
def test_unit_counts(tmp_path, text, counts, status):
    program(tmp_path, "test_x", text)
    out = tmp_path / "counts"
    got, output = run("unit.py", "--timeout", "2", "--counts", out, tmp_path)
    assert (got, out.read_text()) == (status, f"{counts} unit\n"), output


# ---- junit_counts.py ----------------------------------------------------------------------------------------


def test_junit_counts(tmp_path):
    path = tmp_path / "j.xml"
    path.write_text('<testsuites><testsuite tests="10" failures="2" errors="1" skipped="3"/></testsuites>')
    assert run("junit_counts.py", path, "name") == (0, "4 3 3 name\n")
    path.write_text("<broken")
    assert run("junit_counts.py", path, "name")[0] == 1
    assert run("junit_counts.py", tmp_path / "none", "name")[0] == 1

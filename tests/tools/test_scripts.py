"""The project's own scripts: a check that can't fail is none."""
import importlib.util
import re
import shutil
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


GOOD = {"include/ec.h": "", "include/engine.h": '#include "ec.h"\n', "include/s3_uri.h": "", "engine/format.h": "", "gateway/http/gw.h": "",
        "engine/log.c": '#include "format.h"\n#include "engine.h"\n#include <stdio.h>\nstatic void log_open(void)\nstatic int *log_find(int *p)\n',
        "cli/talk.c": "static void log_open(void)\n", "server/hear.c": "static bool known = is_it(1);\n", "engine/drive/x.c": '#include "engine/format.h"\n',
        "gateway/http/private.h": "", "gateway/s3/route.h": "", "gateway/http/http.c": '#include "private.h"\n',
        "gateway/s3/put.c": '#include "route.h"\n#include "gateway/http/gw.h"\n#include "engine.h"\n#include "s3_uri.h"\n'}


def test_layers_that_are_right(tmp_path):
    tree(tmp_path, GOOD)
    status, output = run("layers.py", tmp_path)
    assert status == 0 and "0 violation" in output, output


@pytest.mark.parametrize("name, text, word", [
    ("gateway/s3/bad.c", '#include "engine/format.h"\n', "private to engine"), ("gateway/s3/bad.c", '#include "../../engine/format.h"\n', "private to engine"),
    ("gateway/http/bad.c", '#include "gateway/s3/route.h"\n', "is below gateway/s3"), ("gateway/http/bad.h", '#include "../s3/route.h"\n', "is below gateway/s3"),
    ("gateway/s3/bad.c", '#include "gateway/http/private.h"\n', "private to module gateway/http"),
    ("gateway/bad.c", "", "gateway/bad.c: is in no module"), ("gateway/more/bad.c", "", "gateway/more/bad.c: is in no module"),
    ("ec/bad.c", '#include "engine.h"\n', "ec may not know engine"), ("engine/bad.c", '  #  include "s3_uri.h"\n', "engine may not know s3"),
    ("engine/bad.c", '#include "nowhere.h"\n', "not a file"), ("include/ec.h", '#include "engine.h"\n', "may not include"),
    ("server/http.c", "", "http.c: the name of gateway/http/http.c, server/http.c"),
    ("tests/unit/gateway/put.c", "", "put.c: the name of gateway/s3/put.c, tests/unit/gateway/put.c"),
    ("server/bad.c", "static int log_open(int fd)\n", "log_open: a static function of millraced, in each of server/bad.c, engine/log.c"),
    ("server/bad.c", "static const struct x *log_find(\n", "log_find: a static function")])
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


def test_unit_skips_what_has_no_time_left(tmp_path):
    program(tmp_path, "test_1", 'sleep 1; echo "1..1"; echo "not ok 1 - a"; exit 1')
    program(tmp_path, "test_2", 'echo "1..1"; echo "ok 1 - a"')
    out = tmp_path / "counts"
    got, output = run("unit.py", "--seconds", "0.5", "--counts", out, tmp_path)
    assert (got, out.read_text()) == (1, "0 1 1 unit\n"), output
    out.unlink()
    got, output = run("unit.py", "--seconds", "0.5", "--late-fails", "--counts", out, tmp_path)
    assert (got, out.read_text()) == (1, "0 2 0 unit\n"), output


# ---- junit_counts.py ----------------------------------------------------------------------------------------


def test_junit_counts(tmp_path):
    path = tmp_path / "j.xml"
    path.write_text('<testsuites><testsuite tests="10" failures="2" errors="1" skipped="3"/></testsuites>')
    assert run("junit_counts.py", path) == (0, "4 3 3\n")
    path.write_text('<testsuites><testsuite tests="9" failures="1" errors="0" skipped="2"><testcase><skipped message="no time left"/></testcase>'
                    '<testcase><skipped message="no such program"/></testcase></testsuite></testsuites>')
    assert run("junit_counts.py", path) == (0, "6 1 2\n")
    assert run("junit_counts.py", "--late-fails", path) == (0, "6 2 1\n")
    path.write_text("<broken")
    assert run("junit_counts.py", path)[0] == 1
    assert run("junit_counts.py", tmp_path / "none")[0] == 1


# ---- tidy.py ------------------------------------------------------------------------------------------------


@pytest.fixture
def tidy(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("tidy", ROOT / "tools/tidy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    tree(tmp_path, {"engine/x.c": "struct a {\n};\n\nstatic struct a *first(int b,\n        int c)\n{\n        return 0;\n}\n\nint outside;\n"})
    return module


FOUND = "engine/x.c:7:9: error: Potential leak [unix.Malloc,-warnings-as-errors]\n        return 0;\nengine/x.c:6:1: note: here\n"


def test_tidy_names_what_it_finds(tidy, capsys):
    findings = tidy.findings_in(FOUND + FOUND + "engine/x.c:10:1: warning: odd [style]\n1 warning generated\n")
    assert [f.key() for f in findings] == ["engine/x.c first unix.Malloc", "engine/x.c - style"]
    known = tidy.read_known("# why\nengine/x.c first unix.Malloc\nengine/y.c gone style\n")
    assert tidy.report(findings, known) == 1
    output = capsys.readouterr().out
    assert "odd [style]" in output and "leak" not in output and "no more" not in output and "engine/y.c gone style" in output
    assert tidy.report(findings[:1], known) == 1
    assert "engine/y.c gone style" in capsys.readouterr().out
    assert tidy.report(findings[:1], known, whole=False) == 0
    known = tidy.read_known("# why\nengine/x.c first unix.Malloc\n")
    assert tidy.report(findings[:1], known) == 0
    assert tidy.report(findings, set()) == 1


def test_tidy_finds_at_a_closing_brace(tidy):
    assert tidy.findings_in("engine/x.c:8:1: warning: leak [c]\n")[0].function() == "first"


def test_tidy_knows_macros(tidy, tmp_path):
    tree(tmp_path, {"s3/h.c": "void f(void)\n{\n        HASH_DEL(a, b);\n        free(a);\n}\n"})
    found = tidy.findings_in("s3/h.c:3:9: warning: odd [c]\ns3/h.c:4:9: warning: odd [c]\n")
    assert [f.known_by({"* HASH_DEL c", "s3/h.c g c"}) for f in found] == [{"* HASH_DEL c"}, set()]


@pytest.mark.parametrize("text", ["engine/x.c first c\n", "# why\n\nengine/x.c first c\n", "# why\nengine/x.c c\n"])
def test_tidy_wants_reasons(tidy, text):
    with pytest.raises(SystemExit):
        tidy.read_known(text)


def test_tidy_sees_a_bug(tmp_path):
    """Both analysers, on a file with a bug for each."""
    if not (Path("/usr/bin/cppcheck").exists() and Path("/usr/bin/clang-tidy-14").exists()):
        pytest.skip("no analysers here")
    path = tmp_path / "bug.c"
    path.write_text("#include <stdlib.h>\nint f(int a);\nint f(int a)\n{\n        char *p = malloc(9);\n        int v[2] = {a};\n\n"
                    "        return v[2] + (p == 0);\n}\n")
    status, output = run("tidy.py", path)
    assert status == 1 and "clang-analyzer-unix.Malloc" in output and "arrayIndexOutOfBounds" in output, output


# ---- duplicates.py ------------------------------------------------------------------------------------------


def body(name, variable, steps, step="        if ({v} > {n})\n                {v} = one({v}, {n});\n"):
    lines = "".join(step.format(v=variable, n=number) for number in range(steps))
    return f"int {name}(int {variable})\n{{\n{lines}        return {variable};\n}}\n"


@pytest.mark.parametrize("second, found", [
    (body("b", "x", 10, "        if ({v} > {n})\n                {v} = two({v}, {n});\n"), True), (body("b", "x", 4), False),  # 23 lines, and 11
    (body("b", "y", 10, "        if ({v} <= {n})\n                {v} -= {n} + 1;\n"), False),     # another shape
    (body("b", "y", 10, "        if (m{n} > o{n})\n                p{n} = q{n}(r{n}, s{n});\n"), False)])  # the same one, of other words
def test_duplicates(tmp_path, second, found):
    if not Path("/usr/bin/sim_c").exists():
        pytest.skip("similarity-tester is not installed")
    tree(tmp_path, {**{f"tools/{name}": (ROOT / "tools" / name).read_text() for name in ("duplicates.py", "tidy.py")},
                    "engine/a.c": body("a", "x", 10), "gateway/b.c": second})

    def duplicates(known):
        (tmp_path / "tools/duplicates.known").write_text(known)
        done = subprocess.run([sys.executable, tmp_path / "tools/duplicates.py"], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    status, output = duplicates("")
    assert (status, "engine/a.c a gateway/b.c b" in output) == ((1, True) if found else (0, False)), output
    status, output = duplicates("# why\nengine/a.c a gateway/b.c b\n")
    assert (status, "take it out" in output) == ((0, False) if found else (1, True)), output
    assert "no reason" in duplicates("engine/a.c a gateway/b.c b\n")[1]
    assert duplicates("# why\nengine/a.c a\n")[0] == 1


# ---- cov_table.py -------------------------------------------------------------------------------------------


def test_cov_table(tmp_path):
    path = tmp_path / "files.csv"
    head = "filename,line_total,line_covered,line_percent,branch_total,branch_covered,branch_percent\n"
    path.write_text(head + "engine/a.c,10,5,0.5,4,1,0.25\nengine/drive/b.c,10,10,1,0,0,\ns3/c.c,80,80,1,0,0,\n")
    status, output = run("cov_table.py", path)
    assert status == 0
    assert [line.split() for line in output.splitlines()[1:]] == [
        ["engine", "20", "75.0", "%", "4", "25.0", "%"], ["s3", "80", "100.0", "%", "0", "-"], ["all", "100", "95.0", "%", "4", "25.0", "%"]]
    path.write_text(head)
    assert run("cov_table.py", path)[0] == 1


# ---- check.sh -----------------------------------------------------------------------------------------------


def check(folder, pytest_says, *stages, seconds=10000, make="true"):
    """tools/check.sh --no-deps STAGE... (crash) in a tree where building does nothing and pytest runs these shell lines."""
    for name in ("check.sh", "junit_counts.py"):
        (folder / "tools").mkdir(exist_ok=True)
        (folder / "tools" / name).write_bytes((ROOT / "tools" / name).read_bytes())
    for name in ("build/venv/bin", "tests/crash", "bin"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    report = 'for a; do case $a in --junitxml=*) xml=${a#*=};; --last-failed) again=yes;; esac; done\n' \
             'say() { echo "<testsuite tests=\'$1\' failures=\'$2\' errors=\'0\' skipped=\'$3\'/>" >$xml; exit $4; }\n'
    program(folder / "build/venv/bin", "python", f'case $1 in -m) ;; *) exec {sys.executable} "$@";; esac\n{report}{pytest_says}')
    program(folder / "bin", "make", make)
    done = subprocess.run(["bash", folder / "tools/check.sh", "--no-deps", *(stages or ["crash"])], capture_output=True, text=True, timeout=60, check=False,
                          env={"PATH": f"{folder}/bin:/usr/bin:/bin", "TMPDIR": str(folder), "CHECK_SECONDS": str(seconds)})
    return done.returncode, done.stdout.splitlines()[-1], done.stdout


@pytest.mark.parametrize("says, status, last, flaky", [
    ("say 9 0 1 0", 0, "8 passed, 0 failed, 1 skipped", False), ("[ $again ] && say 2 2 0 1; say 9 2 0 1", 1, "7 passed, 2 failed", False),
    ("[ $again ] && say 2 0 0 0; say 9 2 0 1", 0, "9 passed, 0 failed", True),
    ("[ $again ] && say 2 1 0 1; say 9 2 0 1", 1, "8 passed, 1 failed", True),
    ("[ $again ] && exit 124; say 9 2 0 1", 1, "7 passed, 3 failed", False), ("exit 3", 1, "0 passed, 1 failed", False),
    ("say 9 0 0 2", 1, "9 passed, 1 failed", False)])
def test_check_counts(tmp_path, says, status, last, flaky):
    got = check(tmp_path, says)
    assert (*got[:2], "FLAKY" in got[2]) == (status, last, flaky), got[2]


SLOW = "sleep 2; say 9 0 1 0"  # of 61 seconds too few are left then for another stage


@pytest.mark.parametrize("stages, status, last", [
    (["power", "crash"], 0, "8 passed, 0 failed, 2 skipped"),  # in the lane's order, whatever theirs
    (["power", "unit"], 1, "8 passed, 1 failed, 1 skipped"), (["power", "rdma"], 1, "8 passed, 1 failed, 1 skipped"),
    (["power", "cluster"], 1, "8 passed, 1 failed, 1 skipped"), (["power", "integration"], 1, "8 passed, 1 failed, 1 skipped"),
    (["power", "sim"], 1, "8 passed, 9 failed, 1 skipped"), (["power", "asan"], 1, "8 passed, 2 failed, 1 skipped"),
    (["power", "tsan", "fuzz", "tidy"], 0, "8 passed, 0 failed, 5 skipped")])
def test_check_fails_without_the_stages_that_matter(tmp_path, stages, status, last):
    got = check(tmp_path, SLOW, *stages, seconds=61)
    assert got[:2] == (status, last), got[2]


def test_check_fails_without_kills(tmp_path):
    assert check(tmp_path, SLOW, "crash", "power", seconds=59)[:2] == (1, "0 passed, 1 failed, 1 skipped")


def test_check_fails_when_a_history_was_wrong_once(tmp_path):
    """What passes when it is run again was wrong nevertheless."""
    says = "if [ $again ]; then say 1 0 0 0; fi; mkdir -p build/cluster/7; echo 'a stale read' >build/cluster/7/wrong.txt; say 9 1 0 1"
    got = check(tmp_path, says, "cluster")
    assert got[:2] == (1, "9 passed, 1 failed") and "a stale read" in got[2], got[2]


@pytest.mark.parametrize("tidy_ends, status, last", [(0, 0, "20 passed, 0 failed"), (1, 1, "19 passed, 1 failed")])
def test_check_builds_beside_the_first_unit_tests(tmp_path, tidy_ends, status, last):
    """Each sanitizer build is made once beside the release build's tests, and waited for; so is what tidy says."""
    (tmp_path / "build/release/unit/loop").mkdir(parents=True)
    for flavour in ("asan", "tsan"):
        (tmp_path / "build" / flavour / "unit/loop").mkdir(parents=True)
        program(tmp_path / "build" / flavour / "unit/loop", "test_x", 'echo "1..1"; echo "ok 1 - a"')
    program(tmp_path / "build/release/unit/loop", "test_x", 'echo "1..1"; echo "ok 1 - a"')
    tree(tmp_path, {"tests/unit/loop/test_x.c": "", "tools/unit.py": (ROOT / "tools/unit.py").read_text(), "tools/tidy.py": f"print('nothing found')\nraise SystemExit({tidy_ends})\n"})
    make = 'echo "$*" >>made; case $* in *sim-bin*) sleep 1;; esac; case $* in *BUILD=asan*programs*) echo done >>made;; esac'
    got = check(tmp_path, "say 8 0 0 0", "unit", "asan", "tsan", "tidy", make=make)
    assert got[:2] == (status, last) and "nothing found" in got[2], got[2]
    made = (tmp_path / "made").read_text().splitlines()
    asan = [line for line in made if "BUILD=asan" in line]
    assert "BUILD=release" in made[0] and "unit/loop/test_x" in made[0] and "unit/loop/test_x" in asan[0] and "sim-bin" in asan[0], made
    assert made.index("done") < min(at for at, line in enumerate(made) if line in asan[1:]), made


def test_check_fails_when_the_simulator_had_no_time_for_all_histories(tmp_path):
    build = tmp_path / "build/release"
    build.mkdir(parents=True)
    for flavour in ("release", "asan"):
        (tmp_path / "build" / flavour).mkdir(exist_ok=True)
        for name in ("sim", "simdrive", "simnodes"):
            program(tmp_path / "build" / flavour, name, f'echo "{name}: 90 histories, 0 failed, 1.0 s, 1 histories/min"')
    got = check(tmp_path, "true", "sim")
    assert got[0] == 1 and "sim (release): 90 of 1000 histories, no time left" in got[2] and got[1] == "9 passed, 4 failed", got[2]


def test_mutations_that_invariants_name(tmp_path):
    """docs/invariants.md names mutations that there are, some for each invariant."""
    titles = run("mutate.py", "--list", "--work", tmp_path)[1]
    simulated = subprocess.run([sys.executable, ROOT / "tests/sim/mutate.py", "--list"], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    sections = re.findall(r"^## (I\d): .*?^\*\*Mutations\*\*$(.*?)(?=^## )", (ROOT / "docs/invariants.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in sections] == [f"I{number}" for number in range(1, 10)]
    for section, text in sections:
        text = " ".join(text.split())
        quoted = [name.strip(". ") for name in re.findall(r'"([^"]+)"', text)]
        coded = re.findall(r"`([a-z]+(?:-[a-z]+)+)`", text)
        assert quoted, section
        assert [name for name in quoted if name not in titles] == [], section
        assert [name for name in coded if name not in simulated] == [], section


# ---- Makefile -----------------------------------------------------------------------------------------------


@pytest.fixture
def one_folder(tmp_path):
    """make(ARG...) in a tree of one folder: what it compiled and archived."""
    (tmp_path / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    tree(tmp_path, {"include/ec.h": "int ec_a(void);\nint ec_b(void);\n", "ec/a.c": '#include "ec.h"\nint ec_a(void)\n{\n        return 0;\n}\n',
                    "ec/b.c": "int ec_b(void);\nint ec_b(void)\n{\n        return 0;\n}\n"})

    def make(*arguments):
        done = subprocess.run(["make", "-j2", "build/release/lib/libec.a", *arguments], cwd=tmp_path, capture_output=True, text=True,
                              timeout=60, check=True, env={"PATH": "/usr/bin:/bin"})
        lines = done.stdout.splitlines()
        return sorted(line.split()[-1] for line in lines if " -c " in line), any(line.startswith("ar ") for line in lines)

    make.folder = tmp_path
    assert make() == (["ec/a.c", "ec/b.c"], True)
    assert make() == ([], False)
    return make


def test_make_after_a_header(one_folder):
    path = one_folder.folder / "include/ec.h"
    path.write_text(path.read_text() + "\n")
    assert one_folder() == (["ec/a.c"], True)
    assert one_folder() == ([], False)


def test_make_after_other_flags(one_folder):
    assert one_folder("CFLAGS=-O3") == (["ec/a.c", "ec/b.c"], True)
    assert one_folder("CFLAGS=-O3") == ([], False)
    assert one_folder("VERSION=9") == (["ec/a.c", "ec/b.c"], True)


def test_make_after_a_file_came_and_went(one_folder):
    tree(one_folder.folder, {"ec/c.c": "int ec_c(void);\nint ec_c(void)\n{\n        return 0;\n}\n"})
    assert one_folder() == (["ec/c.c"], True)
    (one_folder.folder / "ec/c.c").unlink()
    assert one_folder() == ([], True)
    listed = subprocess.run(["ar", "t", one_folder.folder / "build/release/lib/libec.a"], capture_output=True, text=True, check=True).stdout
    assert listed.split() == ["a.o", "b.o"]


# ---- mutate.py ----------------------------------------------------------------------------------------------


def test_mutations_of_every_flush(tmp_path):
    """Each line of the engine that flushes is one that mutate.py takes out."""
    status, output = run("mutate.py", "--list", "--work", tmp_path)
    assert status == 0, output
    for path in (ROOT / "engine/drive").glob("*.c"):
        lines = [line for line in path.read_text().splitlines() if line.startswith(" ") and not line.lstrip().startswith("*")]
        wanted = sum(line.count(f"{call}(") for line in lines for call in ("fsync", "fdatasync")) - sum(line.count("lp_fdatasync(") for line in lines)
        found = [line for line in output.splitlines() if line.startswith(f"engine/drive/{path.name} ") and "folder" not in line.split(": ")[1] and "DSYNC" not in line]
        assert len(found) == wanted, (path.name, found)


def test_mutations_of_texts_that_are_there(tmp_path):
    """A mutation whose text has gone from its file, or is there twice, takes nothing out: that is an error, and none is left out in silence."""
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "tools/mutate.py")
    mutate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutate)
    assert mutate.out_of_date(ROOT) == []
    for old, count in (("no such text", 0), ("return", (ROOT / "engine/txn/txn.c").read_text().count("return"))):
        mutate.NAMED = [("one", "engine/txn/txn.c", old, "", ())]
        assert mutate.out_of_date(ROOT) == [f"its text is {count} times in engine/txn/txn.c: one"]
    mutate.NAMED = [("one", "engine/no_such_file.c", "return", "", ())]
    assert mutate.out_of_date(ROOT) == ["its text is 0 times in engine/no_such_file.c: one"]


def test_mutations_for_the_simulators():
    done = subprocess.run([sys.executable, ROOT / "tests/sim/mutate.py", "--list"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and len(done.stdout.split()) > 20, done


# ---- Makefile -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["wheel", "python", "power", "qemu", "soak", "check-rdma", "check-cluster", "check-upgrade", "rdma-speed", "cov", "mutate"])
def test_a_target_installs_what_it_lacks(tmp_path, target):
    """The Python environment, before anything is built."""
    deps = tmp_path / "tools/deps.sh"
    deps.parent.mkdir()
    deps.write_text('#!/bin/sh\necho "deps $*" >&2\nexit 3\n')
    deps.chmod(0o755)
    done = subprocess.run(["make", "-s", "-f", ROOT / "Makefile", target], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0 and "deps --test" in done.stderr, done
    assert not list(tmp_path.rglob("*.o"))


@pytest.mark.parametrize("target, program, group", [("format", "clang-format-14", "tools"), ("format-check", "clang-format-14", "tools"), ("fuzz", "clang-14", "tools")])
def test_a_target_names_the_program_it_lacks(tmp_path, target, program, group):
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "make", "cat", "mkdir", "printf", "sed", "awk"):
        (folder / tool).symlink_to(shutil.which(tool))
    done = subprocess.run(["make", "-s", "-f", ROOT / "Makefile", target], cwd=tmp_path, env={"PATH": str(folder)}, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode != 0 and f"{program} is not installed: tools/deps.sh --{group}" in done.stderr, done

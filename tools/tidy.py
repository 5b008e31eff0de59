#!/usr/bin/env python3
"""`make tidy`: the layer check, the search for repeated code (tools/duplicates.py), cppcheck and clang-tidy over the folders' sources, or the
last two over the files named.

    tidy.py [--quick] [FILE ...]

--quick leaves out clang-tidy, which takes most of the time: `make check` does so, `make tidy` and `make check-long` do not.

What was looked at and is no bug stands in tools/tidy.known, with the reason: `PATH FUNCTION CHECK` a line, below a comment; - for what is
outside a function, `* MACRO CHECK` for what a macro's use brings in any file. Anything else that is found is printed, and makes the exit status 1.
A line of that list that matches nothing any more is named, and makes it 1, too, where all files were looked at: it would hide
a new finding in its place.
"""
import concurrent.futures
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "tools/tidy.known"
FOLDERS = ["ec", "loop", "s3", "access", "rdma", "net", "remote", "cluster", "engine", "gateway", "server", "client", "load", "cli", "bench"]
CHECKS = ["-*", "bugprone-*", "clang-analyzer-*",
          # matters of taste, and of -Wconversion
          "-bugprone-easily-swappable-parameters", "-bugprone-implicit-widening-of-multiplication-result", "-bugprone-narrowing-conversions",
          "-bugprone-branch-clone", "-bugprone-assignment-in-if-condition", "-bugprone-reserved-identifier",
          # the macros of sys/queue.h and uthash, and tables by X()
          "-bugprone-macro-parentheses", "-bugprone-sizeof-expression",
          # would have memcpy_s instead of memcpy
          "-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling"]
# cppcheck does not look into system headers, but must know the macros of these.
MACRO_HEADERS = ["/usr/include/bsd/sys/queue.h", "/usr/include/bsd/sys/tree.h", "/usr/include/uthash.h"]
FINDING = re.compile(r"^(?P<path>/[^:\n]+|[^:\s][^:\n]*):(?P<line>\d+):\d+: (?:warning|error|portability): (?P<text>.*) \[(?P<check>[^\]\s]+)\]$",
                     re.M)
MACRO = re.compile(r"\b([A-Z][A-Z0-9_]+) ?\(")
FUNCTION = re.compile(r"^(?!(?:struct|enum|union|typedef)\b[^(]*$)[A-Za-z_].*?\b(\w+)\(")


class Finding:
    """One complaint of an analyser: where, which check, and all it wrote about it."""

    def __init__(self, path, line, check, text):
        self.path, self.line, self.check, self.text = path, line, check, text

    def lines(self):
        """The source up to the line."""
        try:
            return (ROOT / self.path).read_text(errors="replace").splitlines()[:self.line]
        except OSError:
            return []

    def function(self):
        """The function that the line lies in, as sources of this style show it: its name begins in the first column."""
        lines = self.lines()
        for line in reversed(lines[:-1] if lines and lines[-1].startswith("}") else lines):
            if line.startswith("}"):
                return "-"
            found = FUNCTION.match(line)
            if found:
                return found[1]
        return "-"

    def key(self):
        return f"{self.path} {self.function()} {self.check}"

    def known_by(self, known):
        """The lines of the list that speak of it."""
        macros = MACRO.findall("".join(self.lines()[-1:]))
        return known & {self.key(), *(f"* {macro} {self.check}" for macro in macros)}


def findings_in(output):
    """The findings that an analyser's output holds, each once; what follows one, up to the next, explains it."""
    heads = list(FINDING.finditer(output))
    found = {}
    for head, after in zip(heads, heads[1:] + [None]):
        path = os.path.relpath(ROOT / head["path"], ROOT)
        check = head["check"].split(",")[0]
        text = output[head.start():after.start() if after else len(output)].rstrip()
        found.setdefault((path, head["line"], check), Finding(path, int(head["line"]), check, text))
    return list(found.values())


def read_known(text, name="tidy.known", form="PATH FUNCTION CHECK"):
    """The keys of a list of what is known, each of the words of `form`. One without a reason, a comment, before it is an error."""
    known, reason = set(), False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("#"):
            reason = True
        elif not line:
            reason = False
        elif not reason:
            raise SystemExit(f"{name}:{number}: no reason (a comment) stands before this")
        elif len(line.split()) != len(form.split()):
            raise SystemExit(f"{name}:{number}: not {form}")
        else:
            known.add(line)
    return known


def report(findings, known, whole=True):
    """Prints what is not known, and what of the list matches nothing; 1 if there is either. whole: all files were looked at, so the latter is out of date."""
    speaking = [f.known_by(known) for f in findings]
    new = [f for f, lines in zip(findings, speaking) if not lines]
    for finding in new:
        print(f"{finding.text}\n    (in tools/tidy.known this would be: {finding.key()})")
    stale = sorted(known.difference(*speaking)) if whole else []
    for key in stale:
        print(f"tools/tidy.known: nothing matches any more, take it out: {key}")
    print(f"tidy: {len(findings)} findings, {len(findings) - len(new)} of them known, {len(new)} new")
    return 1 if new or stale else 0


def run(command):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def cppcheck(files, flags, jobs):
    cache = ROOT / "build/cppcheck"
    cache.mkdir(parents=True, exist_ok=True)
    # It knows no -isystem, and would take the folder behind it for one to look at.
    flags = ["-I" if flag == "-isystem" else flag for flag in flags if not flag.startswith("-I/usr")]
    status, output = run(["cppcheck", "--quiet", "--std=c11", "--enable=warning,portability", "--inline-suppr", "--error-exitcode=1",
                          f"--cppcheck-build-dir={cache}", "--suppress=*:/usr/include/*", "--suppress=*:third_party/*", f"-j{jobs}", "--template=gcc",
                          "--template={file}:{line}:{column}: warning: {message} [{id}]", "--template-location=  {file}:{line}: {info}",
                          *[f"--include={header}" for header in MACRO_HEADERS], *flags, *files])
    return status, output


def is_slow(check):
    """A check of clang-tidy."""
    return check.startswith(("clang-analyzer-", "bugprone-"))


def clang_tidy(file, flags):
    return run(["clang-tidy-14", "--quiet", "--warnings-as-errors=*", f"--checks={','.join(CHECKS)}", file, "--", "-std=gnu11", *flags])


def analyse(files, flags, jobs, quick=False):
    """(findings, complaints): complaints are of analysers that failed without a finding."""
    findings, complaints = [], []

    def take(name, result):
        status, output = result
        found = findings_in(output)
        findings.extend(found)
        if status != 0 and not found:
            complaints.append(f"{name} ended with {status}:\n{output[-4000:]}")

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = [(file, pool.submit(clang_tidy, file, flags)) for file in files if not quick]
        for file, result in results:
            take(f"clang-tidy {file}", result.result())
    take("cppcheck", cppcheck(files, flags, jobs))
    return findings, complaints


def main():
    os.chdir(ROOT)
    known = read_known(KNOWN.read_text())
    quick = "--quick" in sys.argv[1:]
    if quick:
        known = {line for line in known if not is_slow(line.split()[2])}
    files = [os.path.relpath(name, ROOT) for name in sys.argv[1:] if name != "--quick"]
    whole = not files
    if whole:
        files = sorted(str(p.relative_to(ROOT)) for folder in FOLDERS for p in (ROOT / folder).rglob("*.c"))
    status, output = run([sys.executable, "tools/layers.py"])
    print(output, end="")
    if whole:
        repeated, output = run([sys.executable, "tools/duplicates.py"])
        print(output, end="")
        status |= repeated
    flags = shlex.split(run(["make", "-s", "print-CPPFLAGS_PROJECT"])[1])
    findings, complaints = analyse(files, flags, os.cpu_count() or 1, quick)
    for complaint in complaints:
        print(complaint)
    return report(findings, known, whole) | status | bool(complaints)


if __name__ == "__main__":
    sys.exit(main())

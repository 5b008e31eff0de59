"""The documents: links lead somewhere, files that are named exist, and prose ends at 100 columns where it has been brought to that."""
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DESIGN = ["docs/design.md", *sorted(f"docs/design/{path.name}" for path in (ROOT / "docs" / "design").glob("*.md"))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
NARROW = ["README.md", "CONTRIBUTING.md", "docs/glossary.md", "docs/operations.md"]
NAMING_FILES = ["CONTRIBUTING.md", "docs/glossary.md"]
TOP = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build", "run"}
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
PAGES = sorted({*PAGES, *TUTORIALS, ROOT / "tests/README.md", ROOT / "tests/sim/README.md"})
NARROW += ["docs/configuration.md", "docs/performance.md", "tests/README.md", "tests/sim/README.md"]
NARROW += [str(page.relative_to(ROOT)) for page in TUTORIALS]


def outside_code(text):
    """(number, line) of all lines that are not in a fenced block."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(page):
    """What GitHub makes of the headings."""
    headings = [match.group(1) for _, line in outside_code(page.read_text()) if (match := re.match(r"#+ (.*)", line))]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page):
    text = "\n".join(line for _, line in outside_code(page.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or anchor and anchor not in anchors(file):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    assert list(dead_links(page)) == []


@pytest.mark.parametrize("name", NARROW)
def test_width(name):
    wide = [number for number, line in outside_code((ROOT / name).read_text()) if len(line) > 100 and not line.startswith("|")]
    assert wide == [], f"{name}: prose ends at 100 columns"


@pytest.mark.parametrize("name", DESIGN)
def test_design_is_read_in_an_editor(name):
    lines = (ROOT / name).read_text().splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > 100] == [], f"{name}: all lines end at 100 columns"
    assert any(line.startswith("This page is ") for line in lines[:4]), f"{name}: it opens with what it is for, and for whom"


def test_every_page_of_the_design_is_found():
    overview = (ROOT / "docs/design.md").read_text()
    assert len(DESIGN) > 5
    assert [name for name in DESIGN[1:] if f"]({name.removeprefix('docs/')})" not in overview] == []


@pytest.mark.parametrize("name", DESIGN)
def test_files_of_the_design(name):
    named = re.findall(r"`([\w.-]+/[\w./-]*)`", (ROOT / name).read_text())
    assert [path for path in named if path.split("/")[0] in TOP and not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", NAMING_FILES)
def test_files_that_are_named(name):
    text = "\n".join(line for _, line in outside_code((ROOT / name).read_text()))
    named = [path for path in re.findall(r"`([\w.]+/[\w./]*)`", text) if path.split("/")[0] in TOP]
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


def nav():
    """The pages that mkdocs.yml names, as they are in the repository: the site's manual pages are Markdown that is made of them."""
    _, _, text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    return [re.sub(r"(/man/.*)\.md$", r"\1", path) for path in re.findall(r"(?:- |: )([\w./-]+\.md)$", text, re.M)]


def test_every_page_is_in_the_site():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/man/*.[1-8]"), *(page for folder in TOP for page in (ROOT / folder).rglob("*.md"))]
    there = {str(page.relative_to(ROOT)) for page in pages if not page.relative_to(ROOT).parts[0].startswith(".")}
    assert len(nav()) == len(set(nav()))
    assert there - set(nav()) == set(), "pages that mkdocs.yml does not name"
    assert set(nav()) - there == set(), "pages that mkdocs.yml names, and that do not exist"


def test_every_command_is_in_its_man_page():
    """By its own words, or all but the last where those of one kind share a paragraph."""
    names = re.findall(r'^        \{"([a-z -]+)", "', (ROOT / "cli/commands.c").read_text(), re.M)
    page = (ROOT / "docs/man/millrace.1").read_text()
    kinds = (name.rpartition(" ")[0] for name in names)
    shared = {kind for kind in kinds if kind.count(" ") == 1 and re.search(rf"^\.(It )?Cm {kind} ?(Cm|$)", page, re.M)}
    missing = [name for name in names if name.rpartition(" ")[0] not in shared and not re.search(rf"^\.It Cm {name}\b", page, re.M)]
    assert len(names) > 50 and not missing


COMMENT = re.compile(r"(/\*.*?\*/|//[^\n]*)|\"(?:\\.|[^\"\\\n])*\"", re.S)
NAMED = re.compile(r"(?<![\w.<*])([\w/]+\.[ch])\b")


def test_comments_name_files_that_exist():
    """A comment says where a thing is; files that were renamed since lead nowhere."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    names = {Path(file).name for file in files}
    stale = []
    for file in files:
        if not file.endswith((".c", ".h")) or file.startswith("third_party/") or not (ROOT / file).exists():
            continue
        for match in COMMENT.finditer((ROOT / file).read_text()):
            for named in NAMED.findall(match[1] or ""):
                if Path(named).name not in names or ("/" in named and not any(known == named or known.endswith("/" + named) for known in files)):
                    stale.append(f"{file}: {named}")
    assert stale == []


def test_what_is_wrong_is_found(tmp_path):
    (tmp_path / "there.md").write_text("# A (small) heading, x86\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md) [b](there.md#a-small-heading-x86) [c](https://example.org/x)\n```\n[d](gone.md)\n```\n[e](gone.md) [f](there.md#gone) [g](#gone)\n")
    assert list(dead_links(page)) == ["gone.md", "there.md#gone", "#gone"]

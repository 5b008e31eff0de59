#!/usr/bin/env python3
"""make docs-site: builds the documentation site, build/site, from the Markdown pages and the manual pages of this repository.

The pages are laid out in build/site-pages as they lie in the repository, with the files that they link to. mkdocs runs in strict mode, so a
link that leads nowhere is an error. Its packages (tools/requirements-site.txt) live in an environment of their own, build/site-venv.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build/site-pages"
SITE = ROOT / "build/site"
VENV = ROOT / "build/site-venv"
REQUIREMENTS = ROOT / "tools/requirements-site.txt"
SKIPPED = {"build", "run"}
MANUALS = sorted(ROOT.glob("docs/man/*.[1-8]"))
# Lets the search run where a browser refuses workers: in pages that are opened as files. The theme would fetch it from the network.
SHIM = Path("third_party/iframe-worker/iframe-worker.js")


def pages():
    """The Markdown pages of the repository, as paths inside it."""
    return sorted(page.relative_to(ROOT) for folder in ROOT.iterdir() if folder.name not in SKIPPED and not folder.name.startswith(".")
                  for page in (folder.rglob("*.md") if folder.is_dir() else [folder] if folder.suffix == ".md" else []))


def manual_page(source):
    """A manual page as Markdown: its sections are headings, so that the table of contents and the search know them; what they say is HTML."""
    html = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", source], check=True, capture_output=True, text=True).stdout
    name, section = source.name.rsplit(".", 1)
    text = f"# {name}({section})\n"
    for part in html.split('<section class="Sh">')[1:]:
        heading, _, body = part.rpartition("</section>")[0].partition("</h1>")
        heading = re.sub("<[^>]*>", "", heading).strip()
        text += f'\n## {heading.capitalize()}\n\n<div class="manual-text">\n{body.strip()}\n</div>\n'
    return text


def linked_files(page, text):
    """Files of the repository that are no Markdown pages and that a page links to."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        file = (ROOT / page.parent / target).resolve()
        if file.is_file() and file.suffix != ".md" and file.is_relative_to(ROOT):
            yield file.relative_to(ROOT)


def lay_out():
    shutil.rmtree(PAGES, ignore_errors=True)
    for page in pages():
        text = (ROOT / page).read_text()
        for path in [page, *linked_files(page, text)]:
            (PAGES / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, PAGES / path)
    (PAGES / SHIM).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / SHIM, PAGES / SHIM)
    for source in MANUALS:
        page = PAGES / source.relative_to(ROOT)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.with_name(page.name + ".md").write_text(manual_page(source))


def install():
    stamp = VENV / ".millrace-stamp"
    want = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == want:
        return
    print(f"making {VENV.relative_to(ROOT)}")
    shutil.rmtree(VENV, ignore_errors=True)
    subprocess.run(["/usr/bin/python3", "-m", "venv", VENV], check=True)
    subprocess.run([VENV / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "-r", REQUIREMENTS], check=True)
    stamp.write_text(want)


def fetched():
    """What a page of the site would have a browser fetch from the network: there must be nothing."""
    tag = re.compile(r'<(?:script|img|iframe|link rel="(?:stylesheet|preconnect|icon)")[^>]* (?:src|href)="(?:https?:)?//[^"]*"')
    return [f"{page.relative_to(SITE)}: {match}" for page in SITE.rglob("*.html") for match in tag.findall(page.read_text())]


def main():
    if shutil.which("mandoc") is None:
        sys.exit("mandoc is not installed: tools/deps.sh --tools installs it")
    install()
    lay_out()
    # Not --quiet, which would also keep --strict from seeing warnings.
    built = subprocess.run([VENV / "bin/mkdocs", "build", "--strict", "--config-file", ROOT / "mkdocs.yml"], cwd=ROOT, check=False,
                           env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if built.returncode != 0:
        sys.exit(built.stdout)
    if fetched():
        sys.exit("\n".join(fetched()))
    print(SITE / "index.html")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"site.py: {failure.cmd[0]} failed")

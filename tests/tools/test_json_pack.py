"""Each format of json_pack() has as many arguments as it names: what is missing is taken from the stack, and crashes the daemon."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def arguments(text, at):
    """The arguments of the call whose parenthesis opens at `at`."""
    found, depth, begin, i = [], 0, at + 1, at
    while True:
        c = text[i]
        if c == '"':
            i = re.compile(r'"(?:[^"\\\\]|\\\\.)*"', re.S).match(text, i).end()
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return found + [text[begin:i]]
        elif c == "," and depth == 1:
            found.append(text[begin:i])
            begin = i + 1
        i += 1


def test_formats_match_their_arguments():
    calls, wrong = 0, []
    for folder in ("server", "cli", "client", "gateway", "engine"):
        for source in sorted((ROOT / folder).rglob("*.c")):
            text = source.read_text()
            for match in re.finditer(r"\bjson_pack\(", text):
                words = arguments(text, match.end() - 1)
                form = "".join(re.findall(r'"([^"]*)"', words[0]))
                calls += 1
                if len(re.findall(r"[soObifI]", form)) != len(words) - 1:
                    wrong.append(f"{source.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {form} has {len(words) - 1} arguments")
    assert calls > 30 and not wrong, wrong

"""Paragraphs of docstrings and pages, for the tests of words and for reflowing them.

``python tests/prose.py FILE...`` reflows the paragraphs that have a ragged or an overlong line.
"""

import ast
import re
import sys
import textwrap
from pathlib import Path

WIDTH = 100
#: How a line starts that is no running text: lists, tables, directives, doctests, fields, quotes.
SPECIAL = re.compile(
    r"(\.\. |[-*#] |\d+\. |>>>|\.\.\. |[|+=]|([=~^-])\2{2,}|:\w+:(?!`)|r?\"{3}$|\w[\w, .*]* : )"
)

#: Inline mathematics that stays on one line.
ROLE = re.compile(r":\w+:`[^`]{,60}`")


def paragraphs(lines):
    """Yield (start, stop) of each run of lines of running text with the same indent."""
    start, indent, closed = None, 0, None
    for k, line in enumerate([*lines, ""]):
        margin = len(line) - len(line.lstrip())
        if closed is not None and line.strip() and margin > closed:
            continue  # inside a directive
        if line.strip():
            literal = line.lstrip().startswith(".. ") or line.endswith("::")
            closed = margin if literal else None
        running = bool(line.strip()) and not SPECIAL.match(line.lstrip())
        if start is not None and not (running and margin == indent):
            if not any("   " in line.strip() for line in lines[start:k]):  # of a table
                yield start, k
            start = None
        if running and start is None:
            start, indent = k, margin


def _inside_doctest(lines, start):
    """Whether the run of lines above, without a blank one, has a prompt."""
    for line in reversed(lines[:start]):
        if not line.strip():
            return False
        if line.lstrip().startswith((">>>", "...")):
            return True
    return False


def ragged(lines, start, stop):
    """Return the lines of one to three words after which the next word would have fitted."""
    return [
        lines[k]
        for k in range(start, stop - 1)
        if len(lines[k].split()) <= 3
        and len(lines[k]) + 1 + len(lines[k + 1].split()[0]) <= WIDTH - 12
    ]


def docstrings(path):
    """Yield the (first, last) line numbers of the docstrings of a file, or of a page, from 0."""
    if path.suffix == ".rst":
        yield 0, None
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(
            node
        ):
            yield node.body[0].lineno - 1, node.body[0].end_lineno


def ragged_lines(path):
    """Yield the ragged lines of a file's docstrings."""
    lines = path.read_text(encoding="utf-8").split("\n")
    for first, last in docstrings(path):
        part = lines[first:last]
        for start, stop in paragraphs(part):
            if not _inside_doctest(part, start):
                yield from ragged(part, start, stop)


def reflow(path):
    """Rewrite the paragraphs that have a ragged or an overlong line."""
    lines = path.read_text(encoding="utf-8").split("\n")
    for first, last in sorted(docstrings(path), key=lambda part: part[0], reverse=True):
        part = lines[first:last]
        for start, stop in reversed(list(paragraphs(part))):
            block = part[start:stop]
            long = any(len(line) > WIDTH for line in block)
            if _inside_doctest(part, start) or not (long or ragged(part, start, stop)):
                continue
            margin = " " * (len(block[0]) - len(block[0].lstrip()))
            text = " ".join(line.strip() for line in block)
            part[start:stop] = textwrap.wrap(
                ROLE.sub(lambda role: role[0].replace(" ", "\0"), text),
                WIDTH,
                initial_indent=margin,
                subsequent_indent=margin,
                break_long_words=False,
                break_on_hyphens=False,
            )
        lines[first:last] = part
    lines = [line.replace("\0", " ") for line in lines]
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        reflow(Path(name))

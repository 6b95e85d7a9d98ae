"""Paragraphs of docstrings and pages: the words that are counted in them, and their lines.

``python tests/prose.py FILE...`` reflows the paragraphs that have a ragged or an overlong line;
``python tests/prose.py --count [PATH...]`` prints the places of the counted words and their rates.
"""

import ast
import io
import re
import sys
import textwrap
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]

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


#: The files whose prose is counted.
COUNTED = [
    "README.md",
    "dlref/**/*.py",
    "gallery/**/*.py",
    "docs/*.rst",
    "docs/learn.toml",
    "docs/learn/*[!0-9].rst",
    "docs/topics/*.toml",
    "docs/reference/*.rst",
    *(f"docs/{folder}/**/*.rst" for folder in ("exercises", "steps", "tables", "tryit")),
]
#: After these words a "what" is an indirect question: "say what is wrong".
ASKING = (
    "asks?|asked|asking|says?|said|saying|knows?|known|knowing|knew|sees?|seen|seeing|tells?|told|"
    "telling|shows?|showed|shown|showing|explains?|explained|decides?|decided|learns?|learned|"
    "guess|guessed|understand|understands"
)
#: What is counted: turns that are right now and then, and wear the reader out as a habit.
HABITS = {
    "headless what": r"(?<![\w-])(?<!\bno matter )what(?!\s+(?:if|about)\b)(?!['’\w-])",
    "that of, those of": r"\b(?:that|those)\s+of\b",
    "of which": r"\bof\s+(?:which|whom)\b",
    "beside": r"\bbeside\b",
}
BLOCK = re.compile(r"\.\. (math|code-block|plot|toctree|raw|image|figure|highlight|include)::")
#: Literals, roles and addresses, within a paragraph.
INSIDE = r"(?:[^`\n]|\n(?!\s*\n))+"
LITERAL = re.compile(
    rf"(?<![\w`.,])``{INSIDE}`{{2,3}}|:\w+:`{INSIDE}`|(?<![\w`])`[^`\n]+`(?!`)|https?://\S+"
)
WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*")


def _python(source):
    """Return docstrings and comments on the lines where they stand."""
    lines = [""] * (source.count("\n") + 2)
    kinds = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            first = node.body[0].lineno
            text = source.split("\n")[first - 1 : node.body[0].end_lineno]
            text = [re.sub(r'r?"{3}', "", line) for line in text]
            lines[first - 1 : first - 1 + len(text)] = text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# (type|noqa|fmt|%%)", token.string):
            lines[token.start[0] - 1] = token.string.lstrip("#: ")
    return lines


def _without_code(lines):
    """Blank the doctests, the displayed equations and the blocks of code."""
    inside, prompt, fence = None, False, False
    for line in lines:
        margin = len(line) - len(line.lstrip())
        bare = line.strip()
        if inside is not None and bare and margin <= inside:
            inside = None
        prompt = bool(bare) and (prompt or bare.startswith(">>>"))
        if bare.startswith("```"):
            fence = not fence
            yield ""
        elif inside is not None or prompt or fence or re.match(r":\w[\w-]*:(?!`)", bare):
            yield ""
        elif BLOCK.match(bare):
            inside = margin
            yield ""
        else:
            literal = bare.endswith("::") and not bare.startswith(".. ")
            inside = margin if literal else None
            yield line


def prose(path):
    """Return the running text of a file, line for line, without code and mathematics."""
    source = path.read_text(encoding="utf-8")
    lines = _python(source) if path.suffix == ".py" else source.split("\n")
    text = "\n".join(_without_code(lines))
    return LITERAL.sub(lambda code: re.sub(r"[^\n]", "`", code[0]), text)


def _is_question(text, match):
    """Whether a "what" asks: in a sentence that ends so, or after a verb of asking."""
    end = re.compile(r"[.?!](?=[\s\"'*)]|$)|\n\s*\n").search(text, match.end())
    asked = re.search(rf"\b(?:{ASKING})\s+$", text[max(0, match.start() - 30) : match.start()])
    return bool(asked) or bool(end and end[0] == "?")


def habits(text):
    """Yield (name, line from 1, the words around) of each counted turn in a text."""
    for name, pattern in HABITS.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            if name != "headless what" or not _is_question(text, match):
                around = text[max(0, match.start() - 40) : match.end() + 40]
                yield name, text.count("\n", 0, match.start()) + 1, " ".join(around.split())


def counted_files(names=COUNTED):
    """Return the files that some patterns, files or folders stand for."""
    found = []
    for name in names:
        path = ROOT / name
        if path.is_dir():
            found += [p for p in path.rglob("*") if p.suffix in (".py", ".rst", ".md")]
        else:
            found += [path] if path.exists() else ROOT.glob(name)
    return sorted(set(found))


def rates(paths):
    """Return the number of words of some files, and how often each turn is in 1000 of them."""
    texts = [prose(path) for path in paths]
    words = sum(len(WORD.findall(text)) for text in texts)
    names = [name for text in texts for name, *_ in habits(text)]
    return words, {name: 1000 * names.count(name) / max(words, 1) for name in HABITS}


def count(names):
    """Print the places of the counted turns, and their rates."""
    paths = counted_files(names or COUNTED)
    for path in paths:
        for name, line, around in habits(prose(path)):
            print(f"{path.relative_to(ROOT)}:{line}: {name}: {around}")
    words, found = rates(paths)
    print(f"{words} words; in 1000:", *(f"{name} {rate:.2f}" for name, rate in found.items()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--count"]:
        count(sys.argv[2:])
    else:
        for name in sys.argv[1:]:
            reflow(Path(name))

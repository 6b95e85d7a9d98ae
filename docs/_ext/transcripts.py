"""Plain NumPy for the pages of topics, as the tests have it.

tests/plain.py says by its headings which functions a topic's page shows, and whether the oracle of
tests/naive.py comes first. A topic without a heading there shows the oracles of its name.
"""

import ast
import re
from pathlib import Path
from textwrap import indent

TESTS = Path(__file__).parents[2] / "tests"
HEADING = re.compile(r"^# == ([\w.]+)(?:, after naive\.(\w+))?$", re.MULTILINE)
FIRST = "**In NumPy**, as the tests compare it:"
HIDDEN = {"complex_step", "globals", "np"}
SHORT = 4  # lines of a function of another topic that are repeated rather than linked


class Function:
    """One transcription: its caption, its code, and what it calls."""

    def __init__(self, text, node):
        self.name, self.caption = node.name, (ast.get_docstring(node) or "").split("\n\n")[0]
        lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
        first = node.body[0]
        if self.caption and isinstance(first, ast.Expr):  # the caption stands above the code
            del lines[first.lineno - node.lineno : first.end_lineno - node.lineno + 1]
            if lines[1:] and not lines[first.lineno - node.lineno].strip():
                del lines[first.lineno - node.lineno]
        self.code = "\n".join(lines)
        self.uses = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - {self.name}
        self.line = node.lineno


def functions(path):
    """Return the functions of a file by name, and its text."""
    text = path.read_text(encoding="utf-8")
    nodes = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    return {n.name: Function(text, n) for n in nodes}, text


class Transcripts:
    """What every topic shows."""

    def __init__(self, topics):
        self.naive, _ = functions(TESTS / "naive.py")
        self.plain, text = functions(TESTS / "plain.py")
        self.shown, self.home = {}, {}
        self.known = dict(self.naive)
        headings = list(HEADING.finditer(text))
        ends = [*(h.start() for h in headings[1:]), len(text)]
        for heading, end in zip(headings, ends, strict=True):
            first, last = text.count("\n", 0, heading.start()), text.count("\n", 0, end)
            own = [f for f in self.plain.values() if first < f.line <= last]
            oracle = [self.naive[heading[2]]] if heading[2] else []
            self.shown[heading[1]] = oracle + own
            self.home |= {f.name: heading[1] for f in own}
        self.known |= self.plain
        by_key = {f"{t.chapter}.{t.name}": t for t in topics}
        if unknown := self.shown.keys() - by_key:
            msg = f"tests/plain.py has headings of no topic: {sorted(unknown)}"
            raise ValueError(msg)
        for key, topic in by_key.items():
            for name in (n for n in topic.names if n in self.naive):
                self.home.setdefault(name, key)
            if key not in self.shown and topic.chapter not in {"check", "interop"}:
                names = dict.fromkeys([*topic.names, topic.name])
                self.shown[key] = [self.naive[n] for n in names if n in self.naive][:2]

    def blocks(self, topic):
        """Return (function, text) for each transcription, with what it needs before its code."""
        key, seen, out = f"{topic.chapter}.{topic.name}", set(), []
        for function in self.shown.get(key, []):
            seen.add(function.name)
            code, links = [], []
            self.collect(function, key, seen, code, links)
            out.append((function, self.block(function, [*code, function.code], links)))
        return out

    def collect(self, function, key, seen, code, links):
        """Gather what a function calls: short helpers as code, other topics' maps as links."""
        for name in sorted(function.uses - HIDDEN - seen):
            used = self.known.get(name)
            if used is None or self.home.get(name) == key:
                continue
            seen.add(name)
            if name in self.home and used.code.count("\n") >= SHORT:
                links.append(name)
            else:
                self.collect(used, key, seen, code, links)
                code.append(used.code)

    def topics_called(self, topic):
        """Return the topics whose maps the transcriptions of a topic call."""
        key = f"{topic.chapter}.{topic.name}"
        todo, seen = [f.name for f in self.shown.get(key, [])], set()
        while todo:
            function = self.known[todo.pop()]
            fresh = (function.uses & self.known.keys()) - HIDDEN - seen
            seen |= fresh
            todo += [n for n in fresh if self.home.get(n, key) == key]
        return {self.home[n] for n in seen if n in self.home} - {key}

    def block(self, function, code, links):
        """Return a caption, the code, and where the rest is."""
        own = function.name in self.plain
        what = f"**In NumPy.** {function.caption}" if own else FIRST
        source = "\n\n\n".join(code)
        text = f"{what}\n\n.. code-block:: python\n\n{indent(source, '   ')}\n"
        if links:
            told = ", ".join(
                f"``{n}`` is on :doc:`this page </reference/{self.home[n].replace('.', '/')}>`"
                for n in links
            )
            text += f"\n{told}.\n"
        return text

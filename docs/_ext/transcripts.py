"""Plain NumPy for the pages of topics, as the tests have it.

A topic shows the functions of tests/naive.py that have its names: the oracle of its map, and its
backward pass. Where a page needs another form, tests/plain.py says by its headings which functions
it shows, and whether the oracle comes first.
"""

import ast
import re
import symtable
from pathlib import Path
from textwrap import indent

TESTS = Path(__file__).parents[2] / "tests"
HEADING = re.compile(r"^# == ([\w.]+)(?:, after naive\.(\w+))?$", re.MULTILINE)
DERIVATIVE = re.compile(r"_(deriv2?|grad|jacobian|hessian|vjp|jvp)$")
FIRST = "**In NumPy**, as the tests compare it:"
HIDDEN = {"complex_step", "np"}
LONG = 18  # lines of code that are folded
#: Oracles take an activation by its name, pages show that they take the function.
BY_NAME = [
    (
        re.compile(r"(\w+) if activation == \"identity\" else globals\(\)\[activation\]"),
        "activation",
    ),
    (re.compile(r"globals\(\)\[activation\]"), "activation"),
    (re.compile(r'activation="(\w+)"(?=[,)])'), r"activation=\1"),
]


class Function:
    """One transcription: its caption, its code, and the names of its module that it uses."""

    def __init__(self, text, node, scope):
        self.name, self.caption = node.name, (ast.get_docstring(node) or "").split("\n\n")[0]
        lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
        first = node.body[0]
        if self.caption and isinstance(first, ast.Expr):  # the caption stands above the code
            del lines[first.lineno - node.lineno : first.end_lineno - node.lineno + 1]
            if lines[1:] and not lines[first.lineno - node.lineno].strip():
                del lines[first.lineno - node.lineno]
        self.code = "\n".join(lines)
        self.uses = names(scope) - {self.name}
        if "globals()[activation]" in self.code:
            default = re.search(r'activation="(\w+)"', self.code)
            self.uses |= {default[1]} if default else set()
            for pattern, shown in BY_NAME:
                self.code = pattern.sub(shown, self.code)
        self.line = node.lineno


def names(scope):
    """Return the names that a function, or one within it, takes from its module."""
    found = {s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced()}
    return found.union(*map(names, scope.get_children()))


class Module:
    """The functions of a file, and the imports and constants that they use."""

    def __init__(self, path, others=()):
        self.text = path.read_text(encoding="utf-8")
        body = ast.parse(self.text).body
        table = symtable.symtable(self.text, str(path), "exec")
        scopes = {c.get_name(): c for c in table.get_children() if c.get_type() == "function"}
        self.functions = {
            n.name: Function(self.text, n, scopes[n.name])
            for n in body
            if isinstance(n, ast.FunctionDef)
        }
        self.lines, self.helpers = {}, dict(self.functions)
        for node in body:
            if isinstance(node, ast.Import | ast.Assign):
                for name in bound(node):
                    self.lines[name] = ast.get_source_segment(self.text, node)
            elif isinstance(node, ast.ImportFrom) and node.module == "naive":
                self.helpers |= {a.name: others.functions[a.name] for a in node.names}


def bound(node):
    """Return the names that an import or an assignment binds."""
    if isinstance(node, ast.Import):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]


class Transcripts:
    """The transcriptions that each topic shows."""

    def __init__(self, topics):
        naive = Module(TESTS / "naive.py")
        plain = Module(TESTS / "plain.py", naive)
        self.naive, self.plain, text = naive.functions, plain.functions, plain.text
        self.module = dict.fromkeys(naive.functions.values(), naive)
        self.module |= dict.fromkeys(plain.functions.values(), plain)
        self.shown, self.home = {}, {}
        headings = list(HEADING.finditer(text))
        if len(headings) < text.count("\n# =="):
            msg = "tests/plain.py has a heading that is not '# == chapter.topic, after naive.map'"
            raise ValueError(msg)
        ends = [*(h.start() for h in headings[1:]), len(text)]
        for heading, end in zip(headings, ends, strict=True):
            first, last = text.count("\n", 0, heading.start()), text.count("\n", 0, end)
            own = [f for f in self.plain.values() if first < f.line <= last]
            oracle = [self.naive[heading[2]]] if heading[2] else []
            self.shown[heading[1]] = oracle + own
            self.home |= {f.name: heading[1] for f in own}
        by_key = {f"{t.chapter}.{t.name}": t for t in topics}
        if unknown := self.shown.keys() - by_key:
            msg = f"tests/plain.py has headings of no topic: {sorted(unknown)}"
            raise ValueError(msg)
        for key, topic in by_key.items():
            for name in (n for n in topic.names if n in self.naive):
                self.home.setdefault(name, key)
            if key not in self.shown and topic.chapter not in {"check", "interop"}:
                named = [n for n in dict.fromkeys([*topic.names, topic.name]) if n in self.naive]
                maps = [n for n in named if not DERIVATIVE.search(n)][:2]
                forms = [n for n in named if DERIVATIVE.search(n)]
                self.shown[key] = [self.naive[n] for n in maps + forms]

    def blocks(self, topic):
        """Return (function, text) for each transcription, after the helpers that it needs."""
        key, out = f"{topic.chapter}.{topic.name}", []
        for function in self.shown.get(key, []):
            oracle = function is self.naive.get(function.name)
            derived = DERIVATIVE.search(function.name)
            what = f"**In NumPy.** {function.caption}" if derived or not oracle else FIRST
            code = self.code(function)
            block = f".. code-block:: python\n\n{indent(code, '   ')}\n"
            if code.count("\n") > LONG:  # with its helpers
                title = f"``{function.name}`` and the functions that it calls"
                block = f".. dropdown:: {title}\n\n{indent(block, '   ')}"
            out.append((function, f"{what}\n\n{block}"))
        return out

    def code(self, function):
        """Return code that runs where nothing but ``np`` is known."""
        lines, code = {}, {}
        self.collect(function, lines, code)
        return "\n\n\n".join(["\n".join(lines)] * bool(lines) + list(code.values()))

    def collect(self, function, lines, code):
        """Gather the imports and constants that a function needs, and first of all its helpers."""
        module = self.module[function]
        for name in sorted(function.uses - HIDDEN):
            if name in module.helpers and module.helpers[name] not in code:
                self.collect(module.helpers[name], lines, code)
            elif name in module.lines:
                lines[module.lines[name]] = None
        code[function] = function.code

    def topics_called(self, topic):
        """Return the topics whose maps the transcriptions of a topic call."""
        key = f"{topic.chapter}.{topic.name}"
        seen, code = set(), {}
        for function in self.shown.get(key, []):
            self.collect(function, {}, code)
        seen = {function.name for function in code}
        return {self.home[n] for n in seen if n in self.home} - {key}

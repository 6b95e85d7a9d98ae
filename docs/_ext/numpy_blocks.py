"""
NumPy for the pages of topics: the formulas of `dlref.formulas` that have an example.

The heading ``# == softmax`` in dlref/formulas/activations.py begins the section of the topic
softmax. Its page shows each function of the section whose docstring has an example: the caption,
which is the first line of the docstring; a block that runs when it is pasted, with imports, helpers
and the call; and the output.
"""

import ast
import doctest
import re
import symtable
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import indent

FOLDER = Path(__file__).parents[2] / "dlref" / "formulas"
HEADING = re.compile(r"^# == (\w+)$", re.MULTILINE)
DERIVATIVE = re.compile(r"_(deriv2?|grad|jacobian|hessian|vjp|jvp|value_and_grad)$")
LONG = 32  # lines beyond which a block is folded, with its imports and its call
LATER = 12  # lines beyond which all but the first block of a page are folded
INLINED = 40  # lines of helpers beyond which a block imports them
FEW = 3  # options that a public form may have without being folded behind a plain one


@dataclass(eq=False)
class Formula:
    """One function of dlref.formulas, as a page shows it."""

    module: "Module"
    node: ast.FunctionDef
    topic: str
    uses: set[str] = field(default_factory=set)  # names of its module

    @property
    def name(self):
        return self.node.name

    @cached_property
    def doc(self):
        return ast.get_docstring(self.node) or ""

    @property
    def caption(self):
        return self.doc.partition("\n\n")[0].replace("\n", " ")

    @cached_property
    def examples(self):
        return doctest.DocTestParser().get_examples(self.doc)

    @cached_property
    def code(self):
        """The source without its docstring."""
        lines, first = self.module.lines, self.node.body[0]
        body = self.node.body[1] if isinstance(first, ast.Expr) and self.doc else first
        start = body.lineno - 1
        while lines[start - 1].strip().startswith("#"):  # its comment
            start -= 1
        kept = lines[self.node.lineno - 1 : first.lineno - 1] + lines[start : self.node.end_lineno]
        return "\n".join(line.removesuffix("  # fmt: skip") for line in kept)

    @property
    def takes_names(self):
        """Whether it finds other formulas by their names: a block imports it."""
        return "globals()" in self.code

    @property
    def call(self):
        return "".join(example.source for example in self.examples).rstrip("\n")

    @property
    def output(self):
        return "".join(example.want for example in self.examples).rstrip("\n")


def global_names(scope):
    """Return the names that a function, or one within it, takes from its module."""
    names = {s.get_name() for s in scope.get_symbols() if s.is_global() and s.is_referenced()}
    return names.union(*map(global_names, scope.get_children()))


class Module:
    """The formulas of a chapter, and the imports and constants that they use."""

    def __init__(self, path):
        self.chapter, text = path.stem, path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        table = symtable.symtable(text, str(path), "exec")
        scopes = {c.get_name(): c for c in table.get_children() if c.get_type() == "function"}
        topics = [(text.count("\n", 0, h.start()) + 1, h[1]) for h in HEADING.finditer(text)]
        self.formulas, self.statements, self.imported = {}, {}, {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                topic = [name for line, name in topics if line < node.lineno][-1]
                uses = global_names(scopes[node.name]) - {node.name}
                self.formulas[node.name] = Formula(self, node, topic, uses)
            elif isinstance(node, ast.ImportFrom) and node.level == 1:
                self.imported |= {a.asname or a.name: (node.module, a.name) for a in node.names}
            elif isinstance(node, ast.Import | ast.ImportFrom | ast.Assign):
                statement = ast.get_source_segment(text, node)
                self.statements |= dict.fromkeys(bound(node), statement)


def bound(node):
    """Return the names that an import or an assignment binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]


class Blocks:
    """The blocks of all topics."""

    def __init__(self, topics):
        self.modules = {path.stem: Module(path) for path in sorted(FOLDER.glob("[a-z]*.py"))}
        self.shown = defaultdict(list)
        for module in self.modules.values():
            for formula in module.formulas.values():
                if formula.examples:
                    self.shown[f"{module.chapter}.{formula.topic}"].append(formula)
        self.topics = {f"{t.chapter}.{t.name}" for t in topics}
        if unknown := self.shown.keys() - self.topics:
            msg = f"dlref.formulas has examples under headings of no topic: {sorted(unknown)}"
            raise ValueError(msg)

    def find(self, module, name):
        """Return the formula that a name of a module stands for, or None."""
        if name in module.imported:
            chapter, name = module.imported[name]
            module = self.modules[chapter]
        return module.formulas.get(name)

    def helpers(self, formula, seen=None):
        """Return the formulas that one calls, directly or not, those that are called first."""
        seen = {} if seen is None else seen
        for name in sorted(formula.uses):
            helper = self.find(formula.module, name)
            if helper is not None and helper not in seen:
                seen[helper] = None  # a recursion ends here
                if not helper.takes_names:
                    self.helpers(helper, seen)
                seen[helper] = seen.pop(helper)
        return [helper for helper in seen if helper is not formula]

    def code(self, formula):
        """Return a block that runs where nothing is imported, and ends with the example."""
        helpers = [helper for helper in self.helpers(formula) if not helper.takes_names]
        lines = sum(helper.code.count("\n") + 1 for helper in helpers)
        inlined = helpers if lines <= INLINED else []
        statements, imported = {"import numpy as np": None}, defaultdict(list)
        for used in (*inlined, formula):
            for name in sorted(used.uses):
                if name in used.module.statements:
                    statements[used.module.statements[name]] = None
                helper = self.find(used.module, name)
                if helper is not None and helper not in (*inlined, formula):
                    imported[helper.module.chapter].append(helper.name)
        imports = sorted((s for s in statements if s.startswith(("import ", "from "))), key=len)
        constants = [s for s in statements if s not in imports]
        head = [*imports, *(from_formulas(c, [*dict.fromkeys(n)]) for c, n in imported.items())]
        parts = ["\n".join(head + [""] * bool(constants) + constants)]
        parts += [part.code for part in (*inlined, formula)]
        return "\n\n\n".join([*parts, formula.call])

    def blocks(self, topic):
        """Return (formula, text) for each formula that the page of a topic shows."""
        shown = self.shown.get(f"{topic.chapter}.{topic.name}", [])
        plain = {f.name for f in shown} - {*topic.names}
        out = []
        for formula in shown:
            code = indent(self.code(formula), "   ")
            output = indent(formula.output, "   ")
            block = f".. code-block:: python\n\n{code}\n\n"
            block += f".. code-block:: none\n   :class: output\n\n{output}\n"
            options = len(formula.node.args.kwonlyargs)
            if plain and formula.name in topic.names and options >= FEW:
                title = f"``{formula.name}`` in NumPy, with all options"
                block = f".. dropdown:: {title}\n\n{indent(block, '   ')}"
            elif code.count("\n") > (LATER if out else LONG):
                title = f"``{formula.name}`` in NumPy"
                block = f".. dropdown:: {title}\n\n{indent(block, '   ')}"
            out.append((formula, f"**In NumPy.** {formula.caption}\n\n{block}"))
        return out

    def topics_called(self, topic):
        """Return the topics whose maps the formulas of a topic call."""
        key = f"{topic.chapter}.{topic.name}"
        called = {helper for shown in self.shown.get(key, []) for helper in self.helpers(shown)}
        return {f"{f.module.chapter}.{f.topic}" for f in called} & self.topics - {key}


def from_formulas(chapter, names):
    """Return the import of formulas, in lines of at most 80 characters."""
    line = f"from dlref.formulas.{chapter} import {', '.join(names)}"
    if len(line) <= 80:
        return line
    inside = "".join(f"    {name},\n" for name in names)
    return f"from dlref.formulas.{chapter} import (\n{inside})"

"""Mark every displayed equation with a link to the test that checks it.

The tests are those of ``tests/equations``; a page for each chapter shows their source.
"""

import ast
import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from pathlib import Path
from textwrap import indent

from docutils import nodes
from stale import write_changed

TESTS = Path(__file__).parents[2] / "tests"
MOST = 26_000  # characters of source on a page, under 300 kB of HTML
PAGES = {}  # of each check, which its chapter shares out


def load():
    """Return the ledger, with the checks of all chapters."""
    sys.path.insert(0, str(TESTS))
    ledger = importlib.import_module("equations.ledger")
    for _, name, _ in pkgutil.iter_modules([str(TESTS / "equations")]):
        if not name.startswith("test_"):
            importlib.import_module(f"equations.{name}")
    sys.path.remove(str(TESTS))  # or `exact` in a docstring would link to tests/exact.py
    return ledger


def share_out(ledger):
    """Give each check a page of its chapter, and begin another where one would be too heavy."""
    filled = Counter()
    for function in dict.fromkeys(check.function for check in ledger.CHECKS.values()):
        module = function.__module__.rpartition(".")[2]
        filled[module] += len(inspect.getsource(function))
        number = filled[module] // MOST + 1
        PAGES[function] = module if number == 1 else f"{module}-{number}"


def address(check):
    """Return the page of a check and its anchor there."""
    name = check.function.__qualname__.replace("_", "-")
    return f"equations/{PAGES[check.function]}", f"check-{name}"


def code(text):
    return f".. code-block:: python\n\n{indent(text, '   ')}\n"


def folded(check):
    """Return a check as a folded block; a link to what is inside unfolds it."""
    _, anchor = address(check)
    source = inspect.getsource(check.function).rstrip()
    block = code(source).replace("python\n", f"python\n   :name: {anchor}\n", 1)
    return f".. dropdown:: {check.function.__name__} ({check.kind})\n\n{indent(block, '   ')}\n"


def shared(path):
    """Return what the checks of a chapter have in common: imports, values, functions."""
    lines, kept = path.read_bytes().splitlines(), []
    for node in ast.parse(path.read_bytes()).body[1:]:
        if not (isinstance(node, ast.FunctionDef) and node.decorator_list):
            # as `ast.get_source_segment` does, which takes the whole file apart for each node
            *first, last = lines[node.lineno - 1 : node.end_lineno]
            kept.append(b"\n".join([*first, last[: node.end_col_offset]]).decode())
    return "\n".join(kept)


def page(name, path, checks):
    """Return the page of a chapter's checks."""
    title = f"Checks: {name.replace('-', ', part ')}"
    functions = {check.function: check for check in checks}
    intro = (
        f":nosearch:\n\n{title}\n{'=' * len(title)}\n\n"
        "A function with ``@reads`` returns the values of the symbols of its equations, which are "
        "evaluated from their TeX; any other writes down both sides and yields the values that "
        "must agree. See :doc:`index`.\n\n"
        ".. dropdown:: Imports, values and functions of all checks\n\n"
    )
    return "\n".join([intro + indent(code(shared(path)), "   "), *map(folded, functions.values())])


def overview(ledger, modules):
    """Return the page with the counts."""
    equations = (text for _, text in ledger.places())
    places = Counter(address(ledger.CHECKS[text])[0].rpartition("/")[2] for text in equations)
    kinds = Counter((address(c)[0], c.kind) for c in ledger.CHECKS.values())
    rows = [
        (
            f":doc:`{name}`",
            places[name],
            *(kinds[f"equations/{name}", k] for k in ("read", "written")),
        )
        for name in modules
    ]
    total = ("all", *(sum(row[k] for row in rows) for k in (1, 2, 3)))
    table = "".join("   * - " + "\n     - ".join(map(str, row)) + "\n" for row in [*rows, total])
    tree = "".join(f"   {name}\n" for name in modules)
    return (
        "How equations are checked\n=========================\n\n"
        "The mark :octicon:`check` beside a displayed equation leads to the test that checks it. "
        "Most equations are *read*: a parser turns the TeX of the page into a computation, and "
        "both sides, with each step of a chain, are evaluated on random inputs and compared. "
        "Where a side is only a name, its value comes from the formula in ``dlref.formulas``, and "
        "a derivative is a complex step through this formula. Equations outside of the grammar, "
        "such as integrals and expectations, are *written* again in NumPy.\n\n"
        "An equation without a test fails the build of the project, and so does one that a test "
        "writes again, if its text has changed since. A wrong sign, index or factor fails it, too, "
        "since the other side disagrees. `tests/equations/test_reading.py` plants signs, factors, "
        "powers, indices and missing terms in the TeX of equations that are read, and "
        "`tests/equations/test_planted.py` in the checks that are written; both ask that they are "
        "found. Of relations within a sentence, those between numbers and identities are "
        "evaluated, and more than three hundred others have a check; "
        "`tests/equations/test_inline.py` asks that at least 180 of 200 planted mistakes are "
        "found.\n\n"
        ".. list-table:: Counted when these pages were built\n   :header-rows: 1\n\n"
        "   * - Chapter\n     - Displayed equations\n     - Different, read\n"
        f"     - Different, written\n{table}\n"
        f".. toctree::\n   :hidden:\n\n{tree}"
    )


def write_pages(app):
    """Before the sources are read: one page a chapter, one with the counts."""
    ledger = app.ledger
    modules = sorted({address(check)[0].rpartition("/")[2] for check in ledger.CHECKS.values()})
    texts = {}
    for name in modules:
        path = TESTS / "equations" / f"{name.partition('-')[0]}.py"
        checks = [c for c in ledger.CHECKS.values() if address(c)[0] == f"equations/{name}"]
        texts[name] = page(name, path, checks)
    texts["index"] = overview(ledger, modules)
    folder = app.srcdir / "equations"
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.rst"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        write_changed(folder / f"{name}.rst", text)


def find_checks(app, config):
    """Where each equation is checked, as an option: pages are written anew when it changes."""
    app.ledger = load()
    share_out(app.ledger)
    config.equation_checks = {text: address(c) for text, c in app.ledger.CHECKS.items()}


def mark(app, doctree, docname):
    """Put the link after each equation that has a check."""
    if app.builder.format != "html":
        return
    for equation in list(doctree.findall(nodes.math_block)):
        found = app.config.equation_checks.get(app.ledger.normalized(equation.astext()))
        if not found:
            continue
        page, anchor = found
        link = nodes.reference(
            "",
            "✓",
            internal=True,
            refuri=f"{app.builder.get_relative_uri(docname, page)}#{anchor}",
            reftitle="Checked: to the test of this equation",
            classes=["checked"],
        )
        equation.parent.insert(equation.parent.index(equation) + 1, nodes.inline("", "", link))


def setup(app):
    """Connect before the sources are read, and after links are resolved."""
    app.add_config_value("equation_checks", {}, "html", dict)
    app.connect("config-inited", find_checks)
    app.connect("builder-inited", write_pages, priority=400)
    app.connect("doctree-resolved", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

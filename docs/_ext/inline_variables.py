"""Variables of one letter in a sentence look as they do in formulas: in italics.

Docstrings say "the gradient with respect to x", which is readable on a terminal. On a page the
letter is marked here. "A" and "I" are words; "0.1 s" and "x-axis" are not variables.
"""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

VARIABLE = re.compile(r"(?<![\w.'’/\\^*−\xa0-])(?<!\d )([b-zB-HJ-Z])(?![\w’'/*^-]|\.\w)")
#: Pages with initials of people, and with quoted code.
OTHERS = {"references", "changelog"}
#: Where a letter is something else already.
LEFT = (
    nodes.literal, nodes.reference, nodes.emphasis, nodes.strong, nodes.title_reference,
    nodes.subscript, nodes.superscript, nodes.inline, nodes.raw, nodes.math,
)  # fmt: skip


def marked(text):
    """Return the nodes of a text, its variables marked."""
    out = []
    for number, part in enumerate(VARIABLE.split(text)):  # every second part is a letter
        if number % 2:
            out.append(nodes.inline("", part, classes=["sym", "variable"]))
        elif part:
            out.append(nodes.Text(part))
    return out


class InlineVariables(SphinxTransform):
    """Mark the variables in paragraphs."""

    default_priority = 880

    def apply(self, **_):
        """Replace each text in a paragraph that has variables."""
        if self.env.docname in OTHERS:
            return
        for paragraph in self.document.findall(nodes.paragraph):
            for text in list(paragraph.findall(nodes.Text)):
                parent = text.parent
                if not isinstance(parent, LEFT) and VARIABLE.search(text):
                    parent.replace(text, marked(text.astext()))


def setup(app):
    """Register the transform."""
    app.add_transform(InlineVariables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

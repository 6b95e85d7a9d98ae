"""The role ``sym``: a short piece of mathematics as plain HTML, for the line of symbols of a page.

It takes its final room at once, where a formula waits for MathJax and then moves what is below it.
Mathematics that this does not know becomes a formula as everywhere.
"""

import re
from html import escape

from alternative import SIGNS
from docutils import nodes

TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\s+|.")
ACCENTS = {
    "hat": "\u0302",
    "bar": "\u0304",
    "overline": "\u0304",
    "dot": "\u0307",
    "tilde": "\u0303",
}
UPRIGHT = {"text", "operatorname", "mathrm", "mat"}
FONTS = {
    "text": "{}", "operatorname": "{}", "mathrm": "{}", "mathcal": "{}", "mat": "<b>{}</b>",
    "vec": "<b>{}</b>", "norm": "‖{}‖", "abs": "|{}|", "sqrt": "√({})",
    "^": "<sup>{}</sup>", "_": "<sub>{}</sub>",
}  # fmt: skip
PLAIN = {
    "\\,": " ", "\\;": " ", "\\!": "", "\\ ": " ", "\\quad": " ", "\\det": "det ", "\\log": "log ",
    "\\E": "E", "\\prime": "′", "\\|": "‖", "=": " = ", "<": " &lt; ", ">": " &gt; ", "+": " + ",
    "-": " − ", "/": " / ", "'": "′",
}  # fmt: skip


class UnknownError(Exception):
    """Mathematics that has no plain form here."""


def html(tokens, end=None):
    """Return the HTML of the tokens, a list that is emptied, up to one that ends a group."""
    out = []
    while tokens:
        token = tokens.pop(0)
        if token == end:
            return "".join(out)
        out.append(" " if token.isspace() else one(token, tokens))
    if end:
        raise UnknownError(end)
    return "".join(out)


def argument(tokens):
    """Return the HTML of the next argument."""
    while tokens and tokens[0].isspace():
        tokens.pop(0)
    if not tokens:
        raise UnknownError
    return one(tokens.pop(0), tokens)


def one(token, tokens):
    """Return the HTML of a token with its arguments."""
    name = token.removeprefix("\\")
    if token == "{":
        return html(tokens, "}")
    if token in PLAIN:
        return PLAIN[token]
    if name in FONTS:
        inside = argument(tokens).strip()
        return FONTS[name].format(re.sub(r"</?i>", "", inside) if name in UPRIGHT else inside)
    if name in ACCENTS:
        return re.sub(r"(\w)((?:</\w+>)*)$", rf"\1{ACCENTS[name]}\2", argument(tokens))
    if token.startswith("\\"):
        if name not in SIGNS:
            raise UnknownError(token)
        sign = SIGNS[name]
        return f"<i>{sign}</i>" if len(sign) == 1 and sign.isalpha() else sign
    return f"<i>{token}</i>" if token.isalpha() else escape(token)


def role(_name, rawtext, text, _lineno, _inliner, _options=None, _content=()):
    """Return the mathematics as HTML, or as a formula."""
    tex = text.replace("\0", "\\")
    try:
        shown = html(TOKEN.findall(tex))
    except UnknownError:
        return [nodes.math(rawtext, tex)], []
    shown = shown.replace("</i><i>", "")
    shown = re.sub(r"([(,|‖⟨]) − ", r"\1−", " ".join(shown.split()).removeprefix("− "))
    return [nodes.raw(rawtext, f'<span class="sym">{shown}</span>', format="html")], []


def setup(app):
    """Register the role."""
    app.add_role("sym", role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

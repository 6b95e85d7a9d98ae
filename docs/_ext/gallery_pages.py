"""Pages of the gallery: what a script draws stands before its code, and the code is folded."""

import re
from textwrap import indent

CODE = re.compile(r"^\.\. code-block:: Python\n\n(?:[ \t].*\n|\n)+", re.MULTILINE)
CHUNK = re.compile(r"^(?=\.\. GENERATED FROM PYTHON SOURCE LINES)", re.MULTILINE)
FOOTER = re.compile(
    r"^(?=\.\. (?:rst-class:: sphx-glr-timing|_sphx_glr_download|only:: html))", re.MULTILINE
)
TAG_LIST = re.compile(r"\.\. raw:: html\n\n  <div id='sg-tag-list'.*</div>\n")


def figure_first(chunk):
    """Put what a piece of code gave before the code, and fold the code."""
    code = CODE.search(chunk)
    if not code:
        return chunk
    given, *footer = FOOTER.split(chunk[code.end() :], maxsplit=1)
    block = indent(code.group().rstrip(), "   ")
    title = "Code of the figure" if ".. image-sg::" in given else "Code"
    folded = f".. dropdown:: {title}\n   :class-container: script-code\n\n{block}\n\n"
    return "".join([chunk[: code.start()], given.strip("\n"), "\n\n", folded, *footer])


def rearrange(_app, docname, source):
    """Fold the code, and take out empty tag lists, which all have the same id."""
    if not docname.startswith("gallery/"):
        return
    text = TAG_LIST.sub("", source[0])
    if "/plot_" in docname:
        head, *chunks = CHUNK.split(text)
        text = "".join([head, *map(figure_first, chunks)])
    source[0] = text


def setup(app):
    """Connect to the reading of each page."""
    app.connect("source-read", rearrange)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

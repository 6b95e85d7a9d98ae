"""Pages of the gallery: what a script draws stands before its code, and the code is folded.

A page also offers the files that its script reads, so that the script runs without the repository,
the models that it saved, and its figures for slides.
"""

import re
from pathlib import Path
from textwrap import indent

CODE = re.compile(r"^\.\. code-block:: Python\n\n(?:[ \t].*\n|\n)+", re.MULTILINE)
CHUNK = re.compile(r"^(?=\.\. GENERATED FROM PYTHON SOURCE LINES)", re.MULTILINE)
FOOTER = re.compile(
    r"^(?=\.\. (?:rst-class:: sphx-glr-timing|_sphx_glr_download|only:: html))", re.MULTILINE
)
FIRST_DOWNLOAD = "    .. container:: sphx-glr-download sphx-glr-download-jupyter\n"
#: What scripts of the gallery read, by what they say of it, and where it is, seen from docs.
COMPANIONS = {
    "from interactive import": "/_ext/interactive.py",
    '"alice.txt"': "/../gallery/transformer/alice.txt",
    '"speed.csv"': "/results/speed.csv",
    '"accuracy.csv"': "/results/accuracy.csv",
    '"trained_pieces.csv"': "/results/trained_pieces.csv",
}
SAVED = re.compile(r"save_params\(here / \"(.+?)\"")
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


def offer_companions(docname, text):
    """Let a page offer, before its script, what the script reads and writes beside itself."""
    offers = [
        f"Needed beside the script: {Path(file).name} <{file}>"
        for said, file in COMPANIONS.items()
        if said in text
    ]
    folder = Path("/..", docname).parent.as_posix()
    offers += [f"Trained parameters: {name} <{folder}/{name}>" for name in SAVED.findall(text)]
    if "/plot_" in docname:
        offers.append(f"Figures as SVG (zip): {Path(docname).name} </{docname}_svg.zip>")
    downloads = [
        f"    .. container:: sphx-glr-download\n\n      :download:`{offer}`\n\n" for offer in offers
    ]
    return text.replace(FIRST_DOWNLOAD, "".join([*downloads, FIRST_DOWNLOAD]))


def rearrange(_app, docname, source):
    """Fold the code, and take out empty tag lists, which all have the same id."""
    if not docname.startswith("gallery/"):
        return
    text = offer_companions(docname, TAG_LIST.sub("", source[0]))
    if "/plot_" in docname:
        head, *chunks = CHUNK.split(text)
        text = "".join([head, *map(figure_first, chunks)])
    source[0] = text


def setup(app):
    """Connect to the reading of each page."""
    app.connect("source-read", rearrange)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

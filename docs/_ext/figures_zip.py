"""The figures of each script of the gallery as SVG, in one file for slides and print."""

import zipfile
from io import BytesIO

#: Every build writes the same bytes: the first date that the format knows, and no other file mode.
DATE, MODE = (1980, 1, 1, 0, 0, 0), 0o100644 << 16


def packed(figures):
    """Return the bytes of a zip file with figures, which have names of the same length."""
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for path in sorted(figures):
            entry = zipfile.ZipInfo(path.name.removeprefix("sphx_glr_"), DATE)
            entry.external_attr = MODE
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, compresslevel=9)
    return held.getvalue()


def zip_of(page):
    """Return where the figures of a page of the gallery are."""
    return page.with_name(f"{page.stem}_svg.zip")


def pack(app):
    """Write the zip file of each script whose figures have changed, once the gallery has run."""
    for page in app.srcdir.glob("gallery/*/plot_*.rst"):
        figures = page.parent.glob(f"images/sphx_glr_{page.stem}_[0-9][0-9][0-9].svg")
        data, path = packed(figures), zip_of(page)
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


def setup(app):
    """Connect after sphinx-gallery."""
    app.connect("builder-inited", pack, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

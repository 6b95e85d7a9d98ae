"""Where the error sits in an array: tiles of it, each by its worst element."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Largest number of tiles down and across.
ROWS, COLUMNS = 12, 48
#: Signs of a tile whose error is at most so many times the tolerance, and their colors.
SIGNS = ((1.0, ".", "#d9e2d9"), (10.0, "+", "#f2c14e"), (1000.0, "*", "#e4683a"))
BEYOND = ("#", "#8c1c2e")

Picture = tuple[tuple[float, ...], ...]


def picture_of(ratios: Any) -> Picture:
    """Return error over tolerance, for tiles of an array; leading axes are joined."""
    if ratios.ndim == 0:
        return ()
    grid = ratios.reshape(-1, ratios.shape[-1])
    for axis, most in enumerate((ROWS, COLUMNS)):
        count = grid.shape[axis]
        starts = np.unique(np.arange(min(count, most)) * count // min(count, most))
        grid = np.maximum.reduceat(grid, starts, axis)
    return tuple(tuple(map(float, row)) for row in grid)


def _look(ratio: float) -> tuple[str, str]:
    return next(((sign, hue) for most, sign, hue in SIGNS if ratio <= most), BEYOND)


def as_text(picture: Picture) -> str:
    """Return a sign for each tile, and a legend."""
    rows = ["  " + "".join(_look(ratio)[0] for ratio in row) for row in picture]
    words = "  (. within its bound, + up to 10 times it, * up to 1000 times, # beyond)"
    return "\n".join([*rows, words])


def as_html(picture: Picture) -> str:
    """Return a table of colored cells."""
    if not picture:
        return ""
    cell = '<td style="background:{};width:.7em;height:.7em;padding:0" title="{:.3g}"></td>'
    rows = ["".join(cell.format(_look(ratio)[1], ratio) for ratio in row) for row in picture]
    caption = "<caption>Error over what is allowed, by place</caption>"
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse">{caption}{body}</table>'

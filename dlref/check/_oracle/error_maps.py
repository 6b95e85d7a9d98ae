"""Where the error sits in an array: tiles of it, each by its worst element."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Largest number of tiles down and across.
ROWS, COLUMNS = 12, 48
#: Signs of a tile whose error is at most so many times the tolerance, and their colors.
SYMBOLS = ((1.0, ".", "#d9e2d9"), (10.0, "+", "#f2c14e"), (1000.0, "*", "#e4683a"))
WORST = ("#", "#8c1c2e")

ErrorMap = tuple[tuple[float, ...], ...]


def error_map_of(ratios: Any) -> ErrorMap:
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
    return next(((symbol, hue) for most, symbol, hue in SYMBOLS if ratio <= most), WORST)


def as_text(error_map: ErrorMap) -> str:
    """Return a sign for each tile, and a legend."""
    rows = ["  " + "".join(_look(ratio)[0] for ratio in row) for row in error_map]
    message = "  (. within its bound, + up to 10 times it, * up to 1000 times, # beyond)"
    return "\n".join([*rows, message])


def as_html(error_map: ErrorMap) -> str:
    """Return a table of colored cells."""
    if not error_map:
        return ""
    cell = '<td style="background:{};width:.7em;height:.7em;padding:0" title="{:.3g}"></td>'
    rows = ["".join(cell.format(_look(ratio)[1], ratio) for ratio in row) for row in error_map]
    caption = "<caption>Error over what is allowed, by place</caption>"
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse">{caption}{body}</table>'

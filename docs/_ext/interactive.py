"""Interactive figures: the library computes every curve, the browser only looks them up.

An `Interactive` is the last expression of a gallery script.  It renders itself as HTML with
all its curves as data and, for readers without JavaScript, print and the thumbnail, draws
a picture with matplotlib, which the scraper of the gallery saves like any other figure.
No formula is written a second time, nothing is loaded, and the page works from disk.
"""

import html
import itertools
import json
import math

import numpy as np

DIGITS = 4  # significant ones of what is embedded: finer than a pixel


def number(value):
    """Return a number as JSON knows it: rounded, None for what is not finite."""
    value = float(value)
    if not math.isfinite(value):
        return None
    return (
        int(value) if value == int(value) and abs(value) < 2**53 else float(f"{value:.{DIGITS}g}")
    )


class Control:
    """
    A slider over numeric `values`, or a list to choose from if they are text.

    ``when=(name, values)`` grays it out unless the control `name` has one of the values.
    """

    def __init__(self, name, label, values, start, when=None):
        self.name, self.label = name, label
        self.when = when and {"name": when[0], "values": list(when[1])}
        self.values = [v if isinstance(v, str) else number(v) for v in values]
        self.start = self.values.index(start if isinstance(start, str) else number(start))

    def spec(self):
        """Return what the browser needs to know."""
        kind = "select" if isinstance(self.values[0], str) else "range"
        return {
            "name": self.name,
            "label": self.label,
            "kind": kind,
            "values": self.values,
            "start": self.start,
            "when": self.when,
        }


class Panel:
    """
    One pair of axes.

    ``curves(**settings)`` is called for each combination of the values of the controls named
    in `needs`, and returns a dictionary from a curve's label to its values at `x`.  What is
    not finite is a gap.  `times`, a second such function with names of its own, gives
    factors of the curves: a product of two tables is much smaller than a table of products.
    `until` names a control whose value is the last x shown.  `ylim` is the least range; it grows
    with the curves, so that nothing is cut off.  With `y`, the only "curve" is a matrix with a
    row for each element of y, drawn as a heat map from ``ylim[0]`` to ``ylim[1]``, row 0 on top.
    ``labels=(name, words)`` puts words on both axes of a map: a list for each value of the control
    `name`.
    """

    def __init__(
        self, title, x, curves, needs, *, xlabel, ylabel, ylim, log=False, points=False,
        times=None, until=None, y=None, labels=None,
    ):  # fmt: skip
        self.title, self.x, self.y = title, np.asarray(x, float), y
        self.tables = [(curves, tuple(needs))] + ([times] if times else [])
        self.xlabel, self.ylabel, self.ylim = xlabel, ylabel, ylim
        self.log, self.points, self.until, self.labels = log, points, until, labels

    def table(self, curves, needs, controls):
        """Compute the curves for every setting; equal ones are kept once."""
        rows, index, names = {}, [], []
        for settings in itertools.product(*(controls[name].values for name in needs)):
            drawn = curves(**dict(zip(needs, settings, strict=True)))
            names = names or list(drawn)
            if list(drawn) != names:
                msg = f"Panel {self.title!r} has curves {names}, but {list(drawn)} at {settings}."
                raise ValueError(msg)
            for values in drawn.values():
                row = tuple(number(v) for v in np.ravel(values))
                index.append(rows.setdefault(row, len(rows)))
        return names, {"needs": list(needs), "index": index, "rows": list(rows)}

    def spec(self, controls):
        """Return what the browser needs to know."""
        found = [self.table(curves, needs, controls) for curves, needs in self.tables]
        return {
            "title": self.title,
            "x": [number(v) for v in self.x],
            "y": None if self.y is None else [number(v) for v in self.y],
            "names": found[0][0],
            "tables": [table for _, table in found],
            "until": self.until,
            "labels": self.labels and {"needs": self.labels[0], "rows": self.labels[1]},
            "log": self.log,
            "points": self.points,
            "xlabel": self.xlabel,
            "ylabel": self.ylabel,
            "ylim": [number(v) for v in self.ylim],
        }

    def values(self, settings):
        """Return the curves at one setting."""
        drawn = {}
        for curves, needs in self.tables:
            for label, row in curves(**{name: settings[name] for name in needs}).items():
                drawn[label] = np.asarray(row, float) * drawn.get(label, 1.0)
        shown = self.x <= settings[self.until] if self.until else np.full(self.x.shape, True)
        return {label: np.where(shown, row, np.nan) for label, row in drawn.items()}


class Interactive:
    """Panels driven by common controls."""

    def __init__(self, title, controls, panels):
        self.title, self.controls, self.panels = title, controls, panels

    def show(self):
        """
        Draw the start as a matplotlib figure too, and return the interactive one.

        The picture is the thumbnail, and stands for the figure where there is no JavaScript.
        """
        import matplotlib.pyplot as plt  # noqa: PLC0415  # the scripts choose the backend

        start = {c.name: c.values[c.start] for c in self.controls}
        count = len(self.panels)
        fig, axes = plt.subplots(1, count, figsize=(3.3 * count, 3), squeeze=False)
        for ax, panel in zip(axes[0], self.panels, strict=True):
            drawn = panel.values(start)
            low, high = panel.ylim
            for label, values in drawn.items():
                if panel.y is None:
                    ax.plot(panel.x, values, "o-" if panel.points else "-", label=label)
                    low, high = np.nanmin([low, *values]), np.nanmax([high, *values])
                else:
                    image = ax.pcolormesh(panel.x, panel.y, values, vmin=low, vmax=high)
                    fig.colorbar(image)
                    ax.yaxis.set_inverted(True)  # row 0 on top, as a matrix is written
            ax.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
            if panel.y is None:
                ax.set(ylim=(low, high), yscale="log" if panel.log else "linear")
                ax.grid(visible=True)
            if len(drawn) > 1:
                ax.legend()
        settings = ", ".join(f"{c.label} {c.values[c.start]}" for c in self.controls)
        fig.alt_text = f"{self.title}, at {settings}."
        return self

    def _repr_html_(self):
        by_name = {control.name: control for control in self.controls}
        spec = {
            "title": self.title,
            "controls": [control.spec() for control in self.controls],
            "panels": [panel.spec(by_name) for panel in self.panels],
        }
        data = json.dumps(spec, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
        return (
            f'<figure class="ifig" role="group" aria-label="{html.escape(self.title)}">'
            f'<script type="application/json">{data}</script></figure>'
        )

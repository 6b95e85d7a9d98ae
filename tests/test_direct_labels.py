"""Names at the ends of lines in place of legends, from docs/_ext/direct_labels.py."""

import itertools

import numpy as np
import pytest

plt = pytest.importorskip("matplotlib.pyplot")
from direct_labels import label_directly  # noqa: E402 (it needs matplotlib)

X = np.linspace(0, 1, 20)


def drawn(*ends, length=20, **legend):
    """Return a figure with a line to each of the ends, and its panel."""
    fig, ax = plt.subplots(figsize=(6, 3))
    for k, y in enumerate(ends):
        ax.plot(X[:length], y * X[:length], label=f"line {k}")
    ax.set_xlim(0, 1.05)
    ax.set_ylim(0, 4)
    ax.legend(**legend)
    fig.draw_without_rendering()
    return fig, ax


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def names(ax):
    return {text.get_text(): text.xy for text in ax.texts}


def test_lines_that_end_apart_carry_their_names():
    fig, ax = drawn(1.0, 2.0, 3.5)
    assert label_directly(fig)
    assert ax.get_legend() is None
    assert names(ax) == {"line 0": (1, 1), "line 1": (1, 2), "line 2": (1, 3.5)}


def test_names_that_would_touch_move_apart():
    fig, ax = drawn(1.0, 1.2, 3.5)
    assert label_directly(fig)
    fig.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in ax.texts), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(boxes))
    assert names(ax)["line 0"] == (1, 1)  # the end of the line, wherever its name is


@pytest.mark.parametrize(
    ("ends", "options"),
    [
        ((1.0, 1.02), {}),  # nobody could tell which is whose
        ((1.0, 1.1, 1.2, 1.3, 1.4), {}),  # the names would move too far
        ((1.0, 3.0), {"length": 12}),  # the lines end before the edge
        ((1.0, 3.0), {"title": "kind"}),  # the names need a title
        ((2.0,), {}),  # one line needs no name at its end
        ((1.0, 9.0), {}),  # a line leaves the panel above
    ],
)
def test_other_legends_stay(ends, options):
    fig, ax = drawn(*ends, **options)
    assert not label_directly(fig)
    assert ax.get_legend() is not None
    assert not ax.texts


def test_a_legend_of_two_scales_stays():
    fig, ax = drawn(1.0, 3.0)
    ax.twinx().plot(X, X)
    fig.draw_without_rendering()
    assert not label_directly(fig)


def test_a_legend_of_bars_stays():
    fig, ax = plt.subplots()
    ax.bar([0, 1], [1, 2], label="bars")
    ax.plot([0, 1], [1, 2], label="line")
    ax.legend()
    fig.draw_without_rendering()
    assert not label_directly(fig)

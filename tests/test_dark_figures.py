"""Figures recolored for dark pages, by docs/_ext/dark_figures.py."""

import numpy as np
import pytest

plt = pytest.importorskip("matplotlib.pyplot")
from dark_figures import contrast, darken, keep_distinct  # noqa: E402 (it needs matplotlib)
from matplotlib.colors import to_rgba  # noqa: E402

DARK_PAGE = to_rgba("#14181e")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("with_line", [False, True])
@pytest.mark.parametrize("draw", ["imshow", "pcolormesh"])
def test_texts_on_a_heat_map_keep_the_color_that_can_be_read(draw, with_line):
    fig, ax = plt.subplots()
    image = getattr(ax, draw)(np.array([[0.0, 1.0]]), cmap="gray", vmin=-0.05, vmax=1.05)
    places = ((0, 0), (1, 0)) if draw == "imshow" else ((0.5, 0.5), (1.5, 0.5))
    colors = ("white", "black")
    texts = [ax.text(*at, "8", color=c) for at, c in zip(places, colors, strict=True)]
    title = ax.set_title("on paper", color="black")
    if with_line:
        ax.axhline(0.2)
    darken(fig)
    for text, value in zip(texts, (0.0, 1.0), strict=True):
        assert contrast(to_rgba(text.get_color()), image.to_rgba(value)) > 7
    assert contrast(to_rgba(title.get_color()), DARK_PAGE) > 7


def test_grays_are_mirrored_and_colors_stay():
    fig, ax = plt.subplots(facecolor="white")
    gray, data = ax.plot([0, 1], color="black")[0], ax.plot([1, 0], color="C0")[0]
    darken(fig)
    assert contrast(to_rgba(gray.get_color()), DARK_PAGE) > 7
    assert to_rgba(data.get_color()) == to_rgba("C0")
    assert contrast(fig.get_facecolor(), DARK_PAGE) == pytest.approx(1)


@pytest.mark.parametrize("draw", ["contour", "scatter"])
def test_lines_and_points_of_a_color_map_stand_out_from_both_pages(draw):
    """The ends of viridis are nearly black and nearly white."""
    fig, ax = plt.subplots(facecolor="white")
    if draw == "contour":
        drawn = ax.contour(np.add.outer(np.arange(4.0), np.arange(4.0)), levels=[0.5, 3, 5.5])
        labels = ax.clabel(drawn)
    else:
        drawn, labels = ax.scatter([0, 1, 2], [0, 1, 2], c=[0.5, 3, 5.5]), []
    for change, page in ((keep_distinct, "white"), (darken, DARK_PAGE)):
        change(fig)
        colors = drawn.to_rgba(drawn.get_array())
        colors = [*colors, *(to_rgba(text.get_color()) for text in labels)]
        assert min(contrast(color, to_rgba(page)) for color in colors) >= 3


def test_dark_lines_become_lighter_and_filled_maps_stay():
    fig, (left, right) = plt.subplots(1, 2, facecolor="white")
    line = left.plot([0, 1], color="#440154", marker="o")[0]
    filled = right.contourf(np.add.outer(np.arange(4.0), np.arange(4.0)))
    before = filled.cmap(0.0)
    keep_distinct(fig)
    assert to_rgba(line.get_color()) == to_rgba("#440154")  # on light paper it stands out
    darken(fig)
    for color in (line.get_color(), line.get_markerfacecolor()):
        assert contrast(to_rgba(color), DARK_PAGE) >= 3
    assert filled.cmap(0.0) == before

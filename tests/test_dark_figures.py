"""Figures recolored for dark pages, by docs/_ext/dark_figures.py."""

import numpy as np
import pytest

plt = pytest.importorskip("matplotlib.pyplot")
from dark_figures import contrast, darken  # noqa: E402 (it needs matplotlib)
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

"""Figures of the pages, with a palette, from docs/_ext/light_images.py."""

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
import light_images  # noqa: E402 (it reads images)


@pytest.mark.parametrize("paper", [(255, 255, 255), (20, 24, 30)])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_the_paper_of_a_figure_is_that_of_the_page(tmp_path, paper, mode):
    """In the corner and wherever it is bare, beside curves that use the rest of the palette."""
    whole = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    whole[:20] = paper
    path = tmp_path / "figure.png"
    Image.fromarray(whole).convert(mode).save(path)
    light_images.lighten(path)
    with Image.open(path) as image:
        assert image.mode == "P"
        pixels = np.asarray(image.convert("RGBA"))
    assert (pixels[:20] == [*paper, 255]).all()
    assert np.abs(pixels[20:, :, :3].astype(int) - whole[20:]).mean() < 20

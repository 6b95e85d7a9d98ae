"""Tests of dlref.convolution._interpolate."""

import numpy as np
import pytest

from dlref.convolution import interpolate, interpolate_jvp, interpolate_vjp

MODES = {1: "linear", 2: "bilinear", 3: "trilinear"}


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(
    ("space", "size"),
    [((5,), (11,)), ((7,), (3,)), ((1,), (4,)), ((6,), (1,)), ((4, 5), (8, 10)), ((4, 5), (7, 3)),
     ((4, 5), (4, 5)), ((3, 4, 2), (5, 4, 7))],
)  # fmt: skip
def test_pytorch(space, size, align_corners, rng):
    peers = pytest.importorskip("peers")
    options = {"size": size, "align_corners": align_corners}
    resize = peers.torch.nn.functional.interpolate
    f = lambda x: resize(x, mode=MODES[len(size)], **options)  # noqa: E731
    peers.assert_same(
        "convolution.interpolate", f, rng.normal(size=(2, 3, *space)), rng=rng, **options
    )


def test_it_is_exact_for_what_is_linear():
    rows, columns = np.arange(4.0)[:, None], np.arange(7.0)
    plane = 2 * rows - columns + 3
    finer = 2 * rows[:, :1] - np.arange(0, 6.5, 0.5) + 3
    got = interpolate(plane, size=(4, 13), align_corners=True)
    np.testing.assert_allclose(got, finer, rtol=0, atol=4e-15)


def test_the_same_size_is_the_identity(rng):
    x = rng.normal(size=(2, 4, 5))
    for aligned in (False, True):
        np.testing.assert_array_equal(interpolate(x, size=(4, 5), align_corners=aligned), x)


def test_cotangents_are_kept_together(rng):
    u, x = rng.normal(size=(6, 9)), rng.normal(size=(4, 5))
    for aligned in (False, True):
        dx = interpolate_vjp(u, x, size=(6, 9), align_corners=aligned)
        np.testing.assert_allclose(dx.sum(), u.sum(), rtol=1e-13)


def test_a_single_output_is_the_center_or_the_first_place():
    x = [1.0, 5.0, 9.0]
    np.testing.assert_array_equal(interpolate(x, size=(1,)), [5])
    np.testing.assert_array_equal(interpolate(x, size=(1,), align_corners=True), [1])


def test_float32_is_rounded_once(rng):
    x = rng.normal(size=(3, 5, 6)).astype(np.float32)
    got = interpolate(x, size=(11, 7))
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, interpolate(x.astype(float), size=(11, 7)).astype("f"))


def test_errors():
    with pytest.raises(TypeError, match=r"^Argument 'size' must be a tuple of 1 to 3 integers"):
        interpolate(np.ones(3), size=4)
    with pytest.raises(ValueError, match=r"^Argument 'size\[1\]' must be at least 1"):
        interpolate(np.ones((3, 3)), size=(2, 0))
    with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 2 axes"):
        interpolate(np.ones(3), size=(2, 2))
    with pytest.raises(ValueError, match=r"^Argument 'x' must have places along its axes"):
        interpolate(np.ones((2, 0)), size=(2,))
    with pytest.raises(ValueError, match=r"^Argument 'primals' must have at least 2 axes"):
        interpolate_jvp(np.ones(3), None, size=(2, 2))
    with pytest.raises(TypeError, match=r"^Argument 'align_corners' must be"):
        interpolate(np.ones(3), size=(2,), align_corners=None)

"""Rounding to integers: PyTorch, ties, ends of the range, axes of scales, errors, verdicts."""

import numpy as np
import pytest

from dlref import check
from dlref.quantization import fake_quantize, fake_quantize_jvp, fake_quantize_vjp


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("point", [0, 1, -2])
def test_pytorch(bits, point, rng):
    peers = pytest.importorskip("peers")
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    x, scale = 2.0**bits * rng.normal(size=(50, 40)), 0.8125
    u = rng.normal(size=x.shape)
    value, (grad,) = peers.value_and_vjp(
        lambda x: peers.torch.fake_quantize_per_tensor_affine(x, scale, point, low, high), x, dout=u
    )
    np.testing.assert_array_equal(fake_quantize(x, scale, point, bits=bits), value)
    dx, _ = fake_quantize_vjp(u, x, scale, point, bits=bits)
    np.testing.assert_array_equal(dx, grad)


def test_a_scale_for_each_output_as_in_pytorch(rng):
    peers = pytest.importorskip("peers")
    torch = peers.torch
    x, scale = rng.normal(size=(6, 5, 3)), rng.uniform(0.01, 0.05, 5)
    points = rng.integers(-20, 20, 5)
    value, (grad,) = peers.value_and_vjp(
        lambda x: torch.fake_quantize_per_channel_affine(
            x, torch.tensor(scale).float(), torch.tensor(points, dtype=torch.int32), 1, -32, 31
        ),
        x,
    )
    wide = np.float64(np.float32(scale))[:, None]
    got = fake_quantize(x, wide, points[:, None], bits=6)
    np.testing.assert_allclose(got, value, rtol=1e-6)
    got, _ = fake_quantize_vjp(np.ones(x.shape), x, wide, points[:, None], bits=6)
    np.testing.assert_array_equal(got, grad)


def test_the_learnable_scale_of_pytorch(rng):
    """Its gradient of the scale, with the factor 1."""
    peers = pytest.importorskip("peers")
    torch = peers.torch
    x = torch.tensor(np.float32(5 * rng.normal(size=200)), requires_grad=True)
    scale = torch.tensor([0.5], requires_grad=True)
    point = torch.zeros(1, requires_grad=True)
    y = torch._fake_quantize_learnable_per_tensor_affine(x, scale, point, -8, 7, 1.0)
    u = np.float32(rng.normal(size=200))
    dx, ds = torch.autograd.grad(y, (x, scale), torch.tensor(u))
    x = x.detach().numpy()
    got = fake_quantize_vjp(u, x, np.float32(0.5), bits=4)
    np.testing.assert_array_equal(fake_quantize(x, np.float32(0.5), bits=4), y.detach().numpy())
    np.testing.assert_array_equal(got[0], dx.numpy())
    np.testing.assert_allclose(got[1], ds.numpy()[0], rtol=1e-5)


def test_every_half_is_a_tie_to_the_even_integer():
    for bits in (2, 3, 8, 12):
        half = 2 ** (bits - 1)
        q = np.arange(-half, half)
        for scale in (0.125, 1.0, 4.0):
            ties = fake_quantize((q[:-1] + 0.5) * scale, scale, bits=bits) / scale
            np.testing.assert_array_equal(ties % 2, 0)
            np.testing.assert_array_equal(abs(ties - q[:-1] - 0.5), 0.5)
            for toward, want in ((-np.inf, q[:-1]), (np.inf, q[1:])):
                near = np.nextafter((q[:-1] + 0.5) * scale, toward)
                np.testing.assert_array_equal(fake_quantize(near, scale, bits=bits) / scale, want)


def test_ends_of_the_range():
    x = np.array([127.4, 127.5, 128.0, -128.5, -128.6, 1e30, -1e30, np.inf, -np.inf])
    want = [127, 127, 127, -128, -128, 127, -128, 127, -128]
    np.testing.assert_array_equal(fake_quantize(x, 1.0), want)
    dx, _ = fake_quantize_vjp(np.ones(9), x, 1.0)
    np.testing.assert_array_equal(dx, [1, 0, 0, 1, 0, 0, 0, 0, 0])
    assert np.isnan(fake_quantize(np.nan, 1.0))


def test_the_gradient_of_the_scale_adds_up_over_what_shares_it(rng):
    x, u = 3 * rng.normal(size=(2, 4, 3, 5))
    every = rng.uniform(0.5, 1, (4, 3, 5))
    for shape in ((), (1,), (5,), (3, 1), (4, 1, 1), (1, 3, 1), (4, 1, 5), (4, 3, 5)):
        scale = np.broadcast_to(
            every[tuple(slice(0, n) for n in (1,) * (3 - len(shape)) + shape)],
            (1,) * (3 - len(shape)) + shape,
        ).reshape(shape)
        y = fake_quantize(x, scale, bits=3)
        np.testing.assert_array_equal(y, fake_quantize(x, np.broadcast_to(scale, x.shape), bits=3))
        dx, dscale = fake_quantize_vjp(u, x, scale, bits=3)
        each = fake_quantize_vjp(u, x, np.array(np.broadcast_to(scale, x.shape)), bits=3)
        np.testing.assert_array_equal(dx, each[0])
        assert dscale.shape == shape
        axes = tuple(k for k, n in enumerate((1,) * (3 - len(shape)) + shape) if n == 1)
        np.testing.assert_allclose(dscale, each[1].sum(axes).reshape(shape), rtol=1e-13)


def test_many_numbers_with_one_scale(rng):
    """More than a row of the kernel, and a rest."""
    x, u = 3 * rng.normal(size=(2, 10_007))
    np.testing.assert_array_equal(
        fake_quantize(x, 0.3, bits=4), 0.3 * np.clip(np.rint(x / 0.3), -8, 7)
    )
    q = np.rint(x / 0.3)
    inside = (q >= -8) & (q <= 7)
    slope = np.clip(q, -8, 7) - np.where(inside, x / 0.3, 0)
    _, dscale = fake_quantize_vjp(u, x, 0.3, bits=4)
    np.testing.assert_allclose(dscale, u @ slope, rtol=1e-12)


def test_no_numbers():
    x = np.zeros((0, 3))
    assert fake_quantize(x, 1.0).shape == (0, 3)
    dx, dscale = fake_quantize_vjp(x, x, np.ones((1, 3)))
    assert dx.shape == (0, 3)
    np.testing.assert_array_equal(dscale, np.zeros((1, 3)))


def test_rounding_twice_changes_nothing(rng):
    x = rng.normal(size=1000)
    y = fake_quantize(x, 0.1, 3, bits=5)
    np.testing.assert_array_equal(fake_quantize(y, 0.1, 3, bits=5), y)


class TestErrors:
    def test_scales(self):
        x = np.ones((2, 3))
        with pytest.raises(ValueError, match=r"^Argument 'scale' must broadcast to"):
            fake_quantize(x, np.ones(2))
        with pytest.raises(ValueError, match=r"^Argument 'scale' must be positive, not 0"):
            fake_quantize(x, 0.0)
        with pytest.raises(ValueError, match=r"^Argument 'zero_point' must broadcast to"):
            fake_quantize(x, 1.0, np.zeros(2, int))
        for wrong in (-129, 128):
            with pytest.raises(ValueError, match=rf"from -128 to 127, not {wrong}\.$"):
                fake_quantize(x, 1.0, wrong)
        with pytest.raises(TypeError, match=r"^Argument 'zero_point' must be integer"):
            fake_quantize(x, 1.0, 0.5)

    def test_others(self):
        x = np.ones((2, 3))
        with pytest.raises(ValueError, match=r"^Argument 'bits' must be at least 2, not 1"):
            fake_quantize(x, 1.0, bits=1)
        with pytest.raises(ValueError, match=r"^Argument 'bits' must be at most 32, not 33"):
            fake_quantize(x, 1.0, bits=33)
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[2\]' must be None"):
            fake_quantize_jvp((x, 1.0, 0), (x, None, 1.0))


@pytest.mark.naming
class TestVerdicts:
    x = np.concatenate([np.arange(-12, 13) / 2, [20.3, -20.3, 0.7, 6.6]])

    @pytest.mark.parametrize(
        ("kernel", "words"),
        [
            (lambda t: np.clip(np.sign(t) * np.floor(abs(t) + 0.5), -8, 7), "away from zero"),
            (lambda t: np.clip(np.floor(t + 0.5), -8, 7), "rounded up"),
            (lambda t: np.clip(np.trunc(t), -8, 7), "truncated"),
            (lambda t: np.clip(np.floor(t), -8, 7), "the floor"),
            (lambda t: np.clip(np.rint(t), -7, 7), "symmetric"),
            (lambda t: np.clip(np.rint(t), 0, 15), "no sign"),
            (lambda t: np.clip(np.rint(t), -99, 99), "nothing is clipped"),
        ],
    )
    def test_roundings_and_ranges_are_named(self, kernel, words):
        def f(x, scale, bits=8):
            return kernel(x / scale) * scale

        verdict = check.check_forward(f, fake_quantize, self.x, 1.0, bits=4)
        assert not verdict
        assert words in verdict.cause

    def test_integers_are_named(self):
        def f(x, scale, bits=8):
            return np.clip(np.rint(x / scale), -8, 7)

        verdict = check.check_forward(f, fake_quantize, self.x, 0.75, bits=4)
        assert "without the scale" in verdict.cause

    def test_gradients_are_named(self, rng):
        u, x = rng.normal(size=29), self.x + 0.01
        scale = np.float64(0.9)

        def gradients(u, x, scale, bits=8):
            dx, ds = fake_quantize_vjp(u, x, scale, bits=bits)
            q = np.rint(x / scale)
            inside = (q >= -8) & (q <= 7)
            slope = np.clip(q, -8, 7) - np.where(inside, x / scale, 0)
            lsq = ds / np.sqrt(29 * 7)
            between = (x / scale >= -8) & (x / scale <= 7)
            return {
                "does not stop": (u, ds),
                "before rounding": (np.where(between, u, 0), ds),
                "factor alone": (dx, np.sum(u * np.clip(q, -8, 7))),
                "no gradient beyond": (dx, np.sum(u * np.where(inside, slope, 0))),
                "of LSQ": (dx, lsq),
            }

        for words in gradients(u, x, scale, 4):

            def f(*args, words=words, **options):
                return gradients(*args, **options)[words]

            verdict = check.check_vjp(f, fake_quantize, u, x, scale, bits=4)
            assert not verdict, words
            assert words in verdict.cause

    def test_right_kernels_are_right(self, rng):
        x, scale = rng.normal(size=(4, 6)), rng.uniform(0.1, 0.3, (4, 1))
        u = rng.normal(size=(4, 6))
        assert check.check_forward(fake_quantize, fake_quantize, x, scale, bits=3)
        assert check.check_vjp(fake_quantize_vjp, fake_quantize, u, x, scale, bits=3)

    def test_other_mistakes_get_none_of_these_words(self, rng):
        x, u = rng.normal(size=(2, 4, 6))
        scale = np.float64(0.2)

        def crooked(x):
            return np.asarray(x) * (1.37 + 0.1 * np.sin(np.arange(np.size(x)))).reshape(np.shape(x))

        verdicts = (
            check.check_forward(
                lambda *x, **o: crooked(fake_quantize(*x, **o)), fake_quantize, x, scale, bits=3
            ),
            check.check_vjp(
                lambda *x, **o: tuple(map(crooked, fake_quantize_vjp(*x, **o))),
                fake_quantize, u, x, scale, bits=3,
            ),
            check.check_jvp(
                lambda *x, **o: crooked(fake_quantize_jvp(*x, **o)),
                fake_quantize, (x, scale, 0), (u, np.float64(0.3), None), bits=3,
            ),
        )  # fmt: skip
        for verdict in verdicts:
            assert not verdict
            assert not any(
                word in verdict.cause for word in ("halves", "range", "LSQ", "scale has")
            )

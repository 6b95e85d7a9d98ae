"""What is special about batch normalization."""

import numpy as np
import peers
import pytest

from dlref.normalization import (
    batch_norm,
    batch_norm_inference,
    batch_norm_inference_jvp,
    batch_norm_inference_vjp,
    batch_norm_jvp,
    batch_norm_update,
    batch_norm_vjp,
    layer_norm,
)


def by_torch(x, w, b):
    return peers.torch.nn.functional.batch_norm(x, None, None, w, b, training=True)


@pytest.mark.parametrize(("offset", "tolerance"), [(0, 4e-15), (1e4, 1e-11)])
@pytest.mark.parametrize("shape", [(8, 3), (64, 40), (600, 5), (4, 700)])
def test_against_pytorch(rng, shape, offset, tolerance):
    width = shape[-1]
    primals = rng.normal(size=shape) + offset, rng.normal(size=width), rng.normal(size=width)
    peers.assert_same("normalization.batch_norm", by_torch, *primals, rng=rng, tolerance=tolerance)


def test_inference_against_pytorch(rng, assert_close):
    x, mean, var = rng.normal(size=(6, 4)), rng.normal(size=4), rng.uniform(1, 2, 4)
    w, b, u = rng.normal(size=4), rng.normal(size=4), rng.normal(size=(6, 4))

    def f(x, w, b):  # PyTorch takes the statistics for constants
        return peers.torch.nn.functional.batch_norm(
            x, peers.torch.tensor(mean), peers.torch.tensor(var), w, b, training=False
        )

    value, (dx, dw, db) = peers.value_and_vjp(f, x, w, b, dout=u)
    assert_close(batch_norm_inference(x, mean, var, w, b), value)
    got = batch_norm_inference_vjp(u, x, mean, var, w, b)
    assert_close((got[0], got[3], got[4]), (dx, dw, db))
    v, dweight, dbias = rng.normal(size=(6, 4)), rng.normal(size=4), rng.normal(size=4)
    want = peers.jvp(f, (x, w, b), (v, dweight, dbias))
    primals, tangents = (x, mean, var, w, b), (v, None, None, dweight, dbias)
    assert_close(batch_norm_inference_jvp(primals, tangents), want)


@pytest.mark.parametrize("shape", [(50, 3), (2, 300), (1, 5), (700, 40)])
def test_is_layer_norm_of_the_transpose(rng, assert_close, shape):
    x = rng.normal(size=shape)
    assert_close(batch_norm(x), layer_norm(x.T).T)


def test_all_axes_but_the_last_are_the_batch(rng):
    x = rng.normal(size=(4, 5, 6, 3))
    assert np.array_equal(batch_norm(x).reshape(-1, 3), batch_norm(x.reshape(-1, 3)))


@pytest.mark.broad
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e12])
def test_large_offsets_cost_no_digits(rng, exactly_standardized, offset):
    x = rng.normal(size=(70_000, 1)) + offset  # more than one piece of rows
    want = exactly_standardized(x[:, 0], 1e-5)
    assert np.max(abs(batch_norm(x)[:, 0] - want)) < 2e-15 * np.max(abs(want))


@pytest.mark.parametrize("outlier", [1e2, -1e6])
def test_a_bad_guess_of_the_mean_is_mended(rng, exactly_standardized, outlier):
    x = rng.normal(size=(3200, 3)) + 1e4
    x[::200, 1] += outlier  # just where the guess looks, of one channel
    want = exactly_standardized(x[:, 1], 1e-5)
    assert np.max(abs(batch_norm(x)[:, 1] - want)) < 2e-15 * np.max(abs(want))
    u = rng.normal(size=x.shape)
    moved = np.roll(x, 1, axis=0)  # the same batch, but now the guess is good
    dx = np.roll(batch_norm_vjp(np.roll(u, 1, axis=0), moved), -1, axis=0)
    assert np.max(abs(batch_norm_vjp(u, x) - dx)) < 1e-14 * np.max(abs(dx))


@pytest.mark.parametrize("offset", [0.0, 15.0, 1e4])
def test_float32_gradients_are_rounded_once(assert_rounded_once, offset):
    assert_rounded_once(batch_norm_vjp, by_torch, (700, 40), offset)


def test_gradients_of_a_channel_sum_to_zero(rng):
    x, u = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    dx = batch_norm_vjp(u, x, eps=0)
    assert np.max(abs(dx.sum(0))) < 1e-13
    assert np.max(abs((dx * x).sum(0))) < 1e-13


def test_a_batch_of_one_gives_the_bias(rng):
    x, b = rng.normal(size=(1, 4)), rng.normal(size=4)
    assert batch_norm(x, bias=b).tolist() == [b.tolist()]
    assert batch_norm_vjp(rng.normal(size=(1, 4)), x).tolist() == [[0.0] * 4]


def test_constant_channels_give_the_bias():
    out = batch_norm(np.full((5, 2), 1 / 3), bias=[1.0, 2.0])
    np.testing.assert_allclose(out, [[1.0, 2.0]] * 5, rtol=1e-10)


def test_without_channels():
    assert batch_norm(np.ones((3, 0))).shape == (3, 0)
    assert batch_norm_jvp((np.ones((3, 0)), None, None), (None, None, None)).shape == (3, 0)


def test_no_examples_have_zero_gradients():
    dx, dw, db = batch_norm_vjp(np.ones((0, 2)), np.ones((0, 2)), np.ones(2), np.ones(2))
    assert dx.shape == (0, 2)
    assert dw.tolist() == db.tolist() == [0.0, 0.0]


class TestUpdate:
    def test_as_pytorch_keeps_it(self, rng, assert_close):
        x = rng.normal(size=(10, 3))
        layer = peers.torch.nn.BatchNorm1d(3, momentum=0.3, dtype=peers.torch.float64)
        mean, var = np.zeros(3), np.ones(3)
        for _ in range(3):
            layer(peers.torch.tensor(x))
            mean = batch_norm_update(mean, x.mean(0), momentum=0.3)
            var = batch_norm_update(var, x.var(0, ddof=1), momentum=0.3)
        assert_close(mean, layer.running_mean.numpy())
        assert_close(var, layer.running_var.numpy())

    @pytest.mark.parametrize(("momentum", "want"), [(0, 2.0), (1, 5.0)])
    def test_ends(self, momentum, want):
        assert batch_norm_update(2.0, 5.0, momentum=momentum) == want

    def test_errors(self):
        with pytest.raises(ValueError, match=r"'momentum' must be from 0 to 1, not 1\.5"):
            batch_norm_update(1.0, 1.0, momentum=1.5)
        with pytest.raises(ValueError, match=r"'batch' must have shape \(2,\), not \(3,\)"):
            batch_norm_update(np.ones(2), np.ones(3), momentum=0.5)


class TestInferenceErrors:
    @pytest.mark.parametrize("name", ["mean", "var"])
    def test_statistics_are_needed(self, name):
        arguments = {"mean": [0.0], "var": [1.0], name: None}
        with pytest.raises(TypeError, match=f"'{name}' must be integer, float16"):
            batch_norm_inference([[1.0]], **arguments)

    def test_statistics_are_needed_in_the_jvp(self):
        with pytest.raises(TypeError, match=r"'primals\[1\]' must be integer, float16"):
            batch_norm_inference_jvp(([1.0], None, [1.0], None, None), (None,) * 5)

    def test_shape(self):
        with pytest.raises(ValueError, match=r"'var' must have shape \(1,\), not \(2,\)"):
            batch_norm_inference([[1.0]], [0.0], [1.0, 1.0])


def test_only_a_single_element_gives_the_bias(rng):
    weight, bias = rng.normal(size=(2, 3))
    assert np.all(batch_norm(rng.normal(size=(1, 3)), weight, bias) == bias)
    one_example = batch_norm(rng.normal(size=(1, 4, 3)), weight, bias)
    assert abs(one_example - bias).max() > 0.1


def test_a_standard_deviation_that_grows(rng):
    sd, x = 1.0, rng.normal(size=(4, 1))
    primals, tangents = (x, [0.0], [sd**2], None, None), (None, None, [2 * sd], None, None)
    got = batch_norm_inference_jvp(primals, tangents, eps=0)
    np.testing.assert_allclose(got, np.imag(x / (sd + 1e-30j)) / 1e-30, rtol=1e-14)

"""Minibatches: every example once an epoch; noise, early stopping, two moons learned."""

from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pytest

from dlref.neurons import LinearParams, mlp
from dlref.training import (
    adam_step,
    gradient_descent,
    minibatch_descent,
    minibatches,
    mlp_loss,
    mlp_loss_value_and_grad,
    sgd_step,
)


def parabola(params, x):
    """Mean of (p - x)^2 / 2."""
    return np.mean((params - x) ** 2) / 2, params - np.mean(x)


@pytest.mark.parametrize(("rate", "above"), [(0.1, True), (2.5, False)])
def test_the_loss_of_an_epoch_lies_above_that_of_its_end_only_while_it_falls(rng, rate, above):
    x = np.zeros(32)
    step = partial(sgd_step, learning_rate=rate)
    fit = minibatch_descent(parabola, 1.0, x, step=step, epochs=1, batch_size=4, rng=rng)
    assert (fit.loss[0] > parabola(fit.params, x)[0]) == above


@pytest.mark.parametrize(("count", "ratio"), [(8, np.sqrt(1 / 7)), (24, np.sqrt(5 / 23))])
def test_four_times_the_batch_halves_the_noise_of_small_batches_only(rng, count, ratio):
    x = rng.normal(size=count)
    noise = [np.std([np.mean(b) for b in combinations(x, size)]) for size in (1, 4)]
    assert noise[1] / noise[0] == pytest.approx(ratio, rel=1e-12)  # to 1/2 as the count grows


class TestMinibatches:
    @pytest.mark.parametrize(("count", "size"), [(10, 3), (10, 10), (10, 99), (1, 1), (0, 4)])
    def test_every_example_once(self, rng, count, size):
        x, y = np.arange(count), 10 * np.arange(count)
        batches = list(minibatches(rng, x, y, batch_size=size))
        assert [len(b) for b, _ in batches] == [
            min(size, count - start) for start in range(0, count, size)
        ]
        seen = np.concatenate([x[:0], *(b for b, _ in batches)])
        np.testing.assert_array_equal(np.sort(seen), x)
        for a, b in batches:
            np.testing.assert_array_equal(b, 10 * a)

    def test_variance_of_the_mean_of_a_batch(self, rng):
        g = rng.normal(size=12)
        means = [next(minibatches(rng, g, batch_size=4))[0].mean() for _ in range(4000)]
        want = g.var(ddof=1) / 4 * (1 - 4 / 12)
        assert np.var(means) == pytest.approx(want, rel=0.1)
        assert np.mean(means) == pytest.approx(g.mean(), abs=5 * np.sqrt(want / 4000))

    def test_errors(self, rng):
        for arrays in ((), (np.float64(1),)):
            with pytest.raises(ValueError, match="'arrays' must be at least one array"):
                minibatches(rng, *arrays, batch_size=1)
        with pytest.raises(ValueError, match=r"'arrays\[1\]' must have shape \(3,\), not \(2,\)"):
            minibatches(rng, [1, 2, 3], [1, 2], batch_size=1)
        with pytest.raises(ValueError, match="'batch_size' must be at least 1, not 0"):
            minibatches(rng, [1, 2, 3], batch_size=0)
        with pytest.raises(TypeError, match="'rng' must be"):
            minibatches(None, [1, 2, 3], batch_size=1)


class TestDescent:
    def test_one_batch_is_gradient_descent(self, rng):
        x = rng.normal(size=6)
        got = minibatch_descent(
            parabola, 8.0, x, step=partial(sgd_step, learning_rate=0.3), epochs=5, batch_size=6,
            rng=rng,
        )  # fmt: skip
        want, trace = gradient_descent(lambda p: parabola(p, x), 8.0, learning_rate=0.3, steps=5)
        np.testing.assert_allclose(got.params, want, rtol=1e-14)
        np.testing.assert_allclose(got.loss, trace, rtol=1e-14)
        assert np.isnan(got.validation).all()
        assert got.best_epoch == 5

    def test_early_stopping_returns_the_best(self, rng):
        # the parameter goes from 8 to 0; the validation set says that 4 is best
        seen = []
        got = minibatch_descent(
            parabola, 8.0, np.zeros(4), step=partial(sgd_step, learning_rate=0.5), epochs=50,
            batch_size=4, rng=rng, validation=lambda p: abs(p - 4), patience=3,
            progress=lambda epochs: (seen.append(e) or e for e in epochs),
        )  # fmt: skip
        assert float(got.params) == 4
        assert got.best_epoch == 1
        assert seen == [1, 2, 3, 4]
        np.testing.assert_array_equal(got.validation, [0, 2, 3, 3.5])

    def test_without_patience_all_epochs_are_run(self, rng):
        got = minibatch_descent(
            parabola, 8.0, np.zeros(4), step=partial(sgd_step, learning_rate=0.5), epochs=6,
            batch_size=4, rng=rng, validation=lambda p: abs(p - 4),
        )  # fmt: skip
        assert len(got.loss) == 6
        assert got.best_epoch == 1

    def test_nothing_to_do(self, rng):
        start = np.array([1.0, 2.0])
        options = {"step": partial(sgd_step, learning_rate=0.5), "rng": rng, "batch_size": 2}
        got = minibatch_descent(parabola, start, np.zeros(4), epochs=0, **options)
        np.testing.assert_array_equal(got.params, start)
        assert not np.shares_memory(got.params, start)
        assert got.best_epoch == 0
        got = minibatch_descent(parabola, start, np.zeros(0), epochs=2, **options)
        np.testing.assert_array_equal(got.loss, [0, 0])

    def test_errors(self, rng):
        options = {"step": partial(sgd_step, learning_rate=0.5), "rng": rng, "batch_size": 2}
        with pytest.raises(TypeError, match="'validation' must be"):
            minibatch_descent(parabola, 1.0, np.zeros(4), epochs=1, patience=2, **options)
        with pytest.raises(ValueError, match="'epochs' must be at least 0"):
            minibatch_descent(parabola, 1.0, np.zeros(4), epochs=-1, **options)
        with pytest.raises(TypeError, match="'step' must be"):
            minibatch_descent(parabola, 1.0, np.zeros(4), epochs=1, **{**options, "step": 0.1})


def moons(rng, count):
    """Draw two interleaved half circles, with noise."""
    classes = np.arange(count) % 2
    angle = rng.uniform(0, np.pi, count)
    x = np.stack([np.cos(angle) + classes, np.sin(angle) * (1 - 2 * classes) + classes / 2], -1)
    return x + 0.1 * rng.normal(size=x.shape), classes


@pytest.mark.broad
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_two_moons_are_told_apart_where_a_line_fails(dtype):
    rng = np.random.default_rng(0)
    (x, y), (xv, yv), (xt, yt) = (moons(rng, n) for n in (256, 128, 512))

    def trained(*widths):
        params = tuple(
            LinearParams(
                (rng.normal(size=(n, m)) * np.sqrt(2 / m)).astype(dtype), np.zeros(n, dtype)
            )
            for m, n in pairwise(widths)
        )
        fit = minibatch_descent(
            lambda p, x, y: mlp_loss_value_and_grad(x.astype(dtype), y, p), params, x, y, rng=rng,
            step=partial(adam_step, learning_rate=0.02), epochs=60, batch_size=32,
            validation=lambda p: mlp_loss(xv.astype(dtype), yv, p), patience=20,
        )  # fmt: skip
        assert fit.params[0].weight.dtype == dtype
        return np.mean(mlp(xt, fit.params).argmax(-1) == yt)

    line, network = trained(2, 2), trained(2, 16, 16, 2)
    assert line < 0.92
    assert network > 0.98

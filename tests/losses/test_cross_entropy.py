"""Tests of dlref.losses._cross_entropy."""

import itertools

import mpmath
import numpy as np
import pytest

from dlref.losses import (
    cross_entropy,
    cross_entropy_grad,
    cross_entropy_jvp,
    cross_entropy_value_and_grad,
    cross_entropy_vjp,
    nll,
    nll_grad,
    nll_jvp,
    nll_vjp,
)

FUNCTIONS = [
    cross_entropy,
    cross_entropy_grad,
    cross_entropy_value_and_grad,
    lambda z, t, **k: cross_entropy_vjp(1.0, z, t, **k),
    lambda z, t, **k: cross_entropy_jvp((z, t), (None, None), **k),
]
PICKERS = [
    nll,
    nll_grad,
    lambda z, t, **k: nll_vjp(1.0, z, t, **k),
    lambda z, t, **k: nll_jvp((z, t), (None, None), **k),
]
OPTIONS = [
    {"weight": weight, "label_smoothing": smoothing}
    for weight, smoothing in itertools.product([False, True], [0.0, 0.125, 1.0])
]


class TestPyTorch:
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    @pytest.mark.parametrize("kind", ["classes", "probabilities"])
    @pytest.mark.parametrize("scale", [1.0, 30.0])
    def test_every_option(self, kind, options, reduction, scale, rng, assert_close):
        import peers  # noqa: PLC0415  # only where PyTorch is

        torch = peers.torch
        z = scale * rng.normal(size=(12, 11))
        w = rng.uniform(0.5, 2, 11) if options["weight"] else None
        smoothing = options["label_smoothing"]
        if kind == "classes":
            target = rng.integers(0, 11, 12)
            target[[3, 7]] = -100
        else:
            target = rng.dirichlet(np.ones(11), 12)

        def f(z, t=None):
            return torch.nn.functional.cross_entropy(
                z,
                torch.tensor(target) if t is None else t,
                weight=None if w is None else torch.tensor(w),
                label_smoothing=smoothing,
                reduction=reduction,
            )

        inputs = (z,) if kind == "classes" else (z, target)
        out, _ = peers.value_and_vjp(f, z)
        dout = rng.normal(size=out.shape)
        _, grads = peers.value_and_vjp(f, *inputs, dout=dout)
        ours = {"weight": w, "label_smoothing": smoothing, "reduction": reduction}
        assert_close(cross_entropy(z, target, **ours), out)
        got = cross_entropy_vjp(dout, z, target, **ours)
        assert_close(got if kind != "classes" else (got,), grads)
        tangents = tuple(rng.normal(size=a.shape) for a in inputs)
        pushed = cross_entropy_jvp((z, target), (*tangents, None)[:2], **ours)
        assert_close(pushed, peers.jvp(f, inputs, tangents), scale=10 * scale)

    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_nll(self, reduction, weighted, rng):
        import peers  # noqa: PLC0415  # only where PyTorch is

        torch = peers.torch
        log_probs, y = rng.normal(size=(9, 4)), rng.integers(0, 4, 9)
        y[2] = 7
        w = rng.uniform(0.5, 2, 4) if weighted else None

        def f(log_probs):
            return torch.nn.functional.nll_loss(
                log_probs,
                torch.tensor(y),
                weight=None if w is None else torch.tensor(w),
                ignore_index=7,
                reduction=reduction,
            )

        options = {"weight": w, "ignore_index": 7, "reduction": reduction}
        peers.assert_same("losses.nll", f, log_probs, constants=(y,), rng=rng, **options)


class TestAccuracy:
    @pytest.mark.parametrize("gap", [1e-3, 1.0, 10.0, 36.0, 50.0, 300.0, 700.0])
    @pytest.mark.parametrize("y", [0, 1, 2])
    def test_digits_of_sure_rows(self, gap, y):
        z = [gap, 0.0, -0.5 * gap]
        with mpmath.workdps(700):
            total = sum(mpmath.exp(s) for s in z)
            p = [mpmath.exp(s) / total for s in z]
            loss = float(mpmath.log(total / mpmath.exp(z[y])))
            grad = [float(p[c] - (c == y)) for c in range(3)]
        np.testing.assert_allclose(cross_entropy(z, y), loss, rtol=1e-15, atol=0)
        np.testing.assert_allclose(cross_entropy_grad(z, y), grad, rtol=2e-15, atol=0)
        t = np.eye(3)[y]  # probabilities take another path
        np.testing.assert_allclose(cross_entropy(z, t), loss, rtol=1e-15, atol=0)
        np.testing.assert_allclose(cross_entropy_grad(z, t), grad, rtol=2e-15, atol=0)

    def test_scores_of_any_size(self):
        np.testing.assert_allclose(cross_entropy([1e300, 1e300], 0), np.log(2), rtol=1e-15)
        assert cross_entropy([0.0, 1e300], 0) == 1e300
        np.testing.assert_array_equal(cross_entropy_grad([0.0, 1e300], 0), [-1, 1])

    def test_many_classes_in_float32(self, rng):
        z = rng.normal(size=(3, 5000)).astype(np.float32)
        y = np.array([0, 4999, 17])
        loss, grad = cross_entropy_value_and_grad(z, y)
        wide, wide_grad = cross_entropy_value_and_grad(z.astype(np.float64), y)
        assert loss == np.float32(wide)
        np.testing.assert_array_equal(grad, wide_grad.astype(np.float32))


class TestIdentities:
    @pytest.mark.parametrize("smoothing", [0.0, 0.25])
    def test_gradient_rows_add_up_to_zero(self, smoothing, rng):
        grad = cross_entropy_grad(
            rng.normal(size=(5, 9)), rng.integers(0, 9, 5), label_smoothing=smoothing
        )
        np.testing.assert_allclose(grad.sum(-1), 0, atol=1e-16)

    def test_classes_are_one_hot_probabilities(self, rng, assert_close):
        z, y = rng.normal(size=(5, 4)), rng.integers(0, 4, 5)
        options = {"label_smoothing": 0.25, "z_loss": 0.5}
        assert_close(
            cross_entropy_value_and_grad(z, y, **options),
            cross_entropy_value_and_grad(z, np.eye(4)[y], **options),
        )

    def test_fused_is_the_pair(self, rng):
        z, y = rng.normal(size=(5, 4)), rng.integers(0, 4, 5)
        loss, grad = cross_entropy_value_and_grad(z, y, z_loss=0.5)
        assert loss == cross_entropy(z, y, z_loss=0.5)
        np.testing.assert_array_equal(grad, cross_entropy_grad(z, y, z_loss=0.5))

    def test_a_weight_of_two_is_seeing_it_twice(self, rng, assert_close):
        z = rng.normal(size=(2, 3))
        assert_close(
            cross_entropy(z, [0, 1], weight=[1, 2, 1]), cross_entropy(z[[0, 1, 1]], [0, 1, 1])
        )


class TestEdges:
    def test_ignored_rows_may_hold_anything(self):
        z = [[0.0, 0.0], [np.nan, np.inf]]
        loss, grad = cross_entropy_value_and_grad(z, [1, -100])
        np.testing.assert_allclose(loss, np.log(2))
        np.testing.assert_array_equal(grad, [[0.5, -0.5], [0, 0]])

    def test_nothing_counts(self):
        loss, grad = cross_entropy_value_and_grad([[1.0, 2.0]], [-100])
        assert np.isnan(loss)
        np.testing.assert_array_equal(grad, [[0, 0]])
        assert cross_entropy([[1.0, 2.0]], [-100], reduction="sum") == 0
        assert np.isnan(nll([[1.0, 2.0]], [-100]))

    def test_no_rows(self):
        assert np.isnan(cross_entropy(np.ones((0, 3)), np.ones(0, int)))
        assert cross_entropy_grad(np.ones((0, 3)), np.ones(0, int)).shape == (0, 3)
        assert cross_entropy(np.ones((0, 3)), np.ones((0, 3)), reduction="none").shape == (0,)

    def test_one_class_is_certain(self):
        loss, grad = cross_entropy_value_and_grad([[5.0]], [0])
        assert loss == 0
        np.testing.assert_array_equal(grad, [[0]])

    def test_impossible_classes(self):
        assert cross_entropy([0.0, -np.inf], 1) == np.inf
        assert cross_entropy([0.0, -np.inf], 0) == 0
        assert cross_entropy([0.0, -np.inf], [1.0, 0.0]) == 0
        assert cross_entropy([0.0, -np.inf], 1, weight=[1.0, 0.0], reduction="sum") == 0
        assert nll([0.0, -np.inf], 1, weight=[1, 0], reduction="sum") == 0
        smooth = {"weight": [1, 0], "label_smoothing": 0.5}
        assert cross_entropy([0.0, -np.inf], 0, **smooth) == 0
        assert cross_entropy([0.0, -np.inf], [1.0, 0.0], **smooth) == 0
        _, dtarget = cross_entropy_vjp(1.0, [0.0, -np.inf], [1.0, 0.0], label_smoothing=1.0)
        np.testing.assert_array_equal(dtarget, [0, 0])

    @pytest.mark.parametrize("bad", [[np.nan, 0], [0, np.nan], [np.inf, 0], [-np.inf, -np.inf]])
    def test_undefined_rows_are_nan(self, bad):
        losses = cross_entropy([bad, [0, 0]], [0, 0], reduction="none")
        assert np.isnan(losses).tolist() == [True, False]
        grad = cross_entropy_grad([bad, [0, 0]], [0, 0])
        assert np.isnan(grad[0]).all()
        assert np.isfinite(grad[1]).all()

    def test_the_weight_does_not_change_the_dtype(self):
        z = np.ones((2, 3), np.float32)
        assert cross_entropy(z, [0, 1], weight=np.ones(3)).dtype == np.float32
        assert nll(z, [0, 1], weight=np.ones(3)).dtype == np.float32


class TestErrors:
    @pytest.mark.parametrize("call", FUNCTIONS + PICKERS)
    def test_the_first_class_out_of_range_is_named(self, call):
        with pytest.raises(
            ValueError,
            match=r"must hold classes from 0 to 2 or ignore_index, not 3 at index \(1,\)",
        ):
            call(np.ones((3, 3)), [0, 3, -1])
        with pytest.raises(ValueError, match=r"not -1 at index \(0, 1\)"):
            call(np.ones((1, 2, 3)), [[0, -1]])

    @pytest.mark.parametrize("call", FUNCTIONS + PICKERS)
    def test_shapes(self, call):
        with pytest.raises(ValueError, match=r"must have shape \(2,\), not \(3,\)"):
            call(np.ones((2, 3)), [0, 1, 2])
        with pytest.raises(ValueError, match="must have at least 1 axis"):
            call(1.0, 0)
        with pytest.raises(ValueError, match="must have a non-empty last axis"):
            call(np.ones((2, 0)), [0, 1])
        with pytest.raises(ValueError, match=r"'weight' must have shape \(3,\), not \(2,\)"):
            call(np.ones((2, 3)), [0, 1], weight=[1, 2])
        with pytest.raises(ValueError, match=r"'reduction' must be 'mean'.*, not 'avg'"):
            call(np.ones((2, 3)), [0, 1], reduction="avg")
        with pytest.raises(TypeError, match="must be integer, not float64"):
            call(np.ones((2, 3)), [0.0, 1.0])

    @pytest.mark.parametrize("call", FUNCTIONS)
    def test_options(self, call):
        with pytest.raises(ValueError, match=r"must have shape \(2, 3\), not \(3, 2\)"):
            call(np.ones((2, 3)), np.ones((3, 2)))
        for smoothing in (-0.1, 1.1, np.nan):
            with pytest.raises(ValueError, match="'label_smoothing' must be from 0 to 1, not"):
                call(np.ones(3), 0, label_smoothing=smoothing)
        with pytest.raises(TypeError, match="'label_smoothing' must be a number, not 'high'"):
            call(np.ones(3), 0, label_smoothing="high")
        with pytest.raises(ValueError, match="'z_loss' must be at least 0, not -1"):
            call(np.ones(3), 0, z_loss=-1)
        with pytest.raises(TypeError, match=r"'ignore_index' must be an integer, not 0\.5"):
            call(np.ones(3), 0, ignore_index=0.5)

    @pytest.mark.parametrize("f", [cross_entropy_grad, cross_entropy_value_and_grad, nll_grad])
    def test_gradients_are_of_numbers(self, f):
        with pytest.raises(ValueError, match="'reduction' must be 'mean' or 'sum', not 'none'"):
            f(np.ones((2, 3)), [0, 1], reduction="none")

    @pytest.mark.parametrize("f", [cross_entropy_jvp, nll_jvp])
    def test_classes_do_not_vary(self, f):
        with pytest.raises(ValueError, match=r"'tangents\[1\]' must be None"):
            f((np.ones((2, 3)), [0, 1]), (None, np.ones(2)))


@pytest.mark.parametrize("smoothing", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_target_of_weight_zero_counts_by_its_smoothing_alone(dtype, smoothing):
    z, weight = np.array([0.5, -1.0, 2.0], dtype), np.array([0.0, 1.0, 2.0], dtype)
    minus_log = np.log(np.exp(z.astype(float)).sum()) - z.astype(float)
    for target in (0, 2):
        options = {"weight": weight, "label_smoothing": smoothing, "reduction": "sum"}
        hard = (1 - smoothing) * weight[target] * minus_log[target]
        want = hard + smoothing / 3 * weight @ minus_log
        assert cross_entropy(z, target, **options) == pytest.approx(want, rel=1e-6)


def test_the_optimum_is_finite_with_label_smoothing_only():
    """Descend on the logits of one example: z_0 - z_1 goes to ln(q_0 / q_1), or on for ever."""
    q = 0.9 * np.array([1.0, 0.0, 0.0]) + 0.1 / 3
    z, free = np.zeros((1, 3)), np.zeros((1, 3))
    for _ in range(4000):
        z = z - 4 * cross_entropy_grad(z, [0], label_smoothing=0.1)
        free = free - 4 * cross_entropy_grad(free, [0])
    assert z[0, 0] - z[0, 1] == pytest.approx(np.log(q[0] / q[1]), rel=1e-6)
    assert z[0, 0] - z[0, 1] == pytest.approx(3.332, abs=1e-3)
    assert free[0, 0] - free[0, 1] > 8


class TestUnitsInTheLastPlace:
    """At most 2 for a loss and 3 for an element of its gradient, of the larger of its two terms."""

    @staticmethod
    def exact(z, y, smoothing):
        """Return the loss, the gradient and the larger of the two terms of each of its elements."""
        with mpmath.workdps(40):
            z = [mpmath.mpf(float(v)) for v in z]
            top = max(range(len(z)), key=z.__getitem__)
            e = [mpmath.exp(v - z[top]) for v in z]
            others = mpmath.fsum(v for c, v in enumerate(e) if c != top)
            rest, eps = mpmath.log1p(others), mpmath.mpf(smoothing)
            q = [(1 - eps) * (c == y) + eps / len(z) for c in range(len(z))]
            loss = mpmath.fsum(a * (rest - (b - z[top])) for a, b in zip(q, z, strict=True))
            grad = [a / (1 + others) - b for a, b in zip(e, q, strict=True)]
            size = [max(a / (1 + others), b) for a, b in zip(e, q, strict=True)]
            if top == y:  # the others' probability, and the others' target
                grad[y] = (1 - q[y]) - others / (1 + others)
                size[y] = max(others / (1 + others), 1 - q[y])
            return loss, grad, size

    @staticmethod
    def ulp(got, want, size):
        if size < 1e-300:
            return 0.0
        with mpmath.workdps(40):
            return float(abs(mpmath.mpf(float(got)) - want) / mpmath.mpf(np.spacing(float(size))))

    @pytest.mark.parametrize("smoothing", [0.0, 0.125])
    @pytest.mark.parametrize("lead", [0.0, 1e-3, 1.0, 10.0, 37.0, 100.0, 621.0, 700.0])
    @pytest.mark.parametrize("classes", [2, 3, 17])
    def test_of_rows_with_a_leader(self, classes, lead, smoothing, rng):
        for offset in rng.normal(size=2) * 300:
            z = np.full(classes, offset) + rng.normal(size=classes) * rng.choice([0.0, 1e-2])
            z[1] += lead + rng.random()
            for y in (0, 1):
                loss, slopes, size = self.exact(z, y, smoothing)
                got = cross_entropy(z, y, label_smoothing=smoothing)
                grad = cross_entropy_grad(z, y, label_smoothing=smoothing)
                assert self.ulp(got, loss, loss) <= 2
                errors = [self.ulp(*each) for each in zip(grad, slopes, size, strict=True)]
                assert max(errors) <= 3

    def test_of_the_row_that_lost_508(self):
        z = [279.6705452877446, -341.3974434231807]
        loss, slopes, size = self.exact(z, 0, 0.0)
        assert self.ulp(cross_entropy(z, 0), loss, loss) <= 1
        assert self.ulp(cross_entropy_grad(z, 0)[0], slopes[0], size[0]) <= 1

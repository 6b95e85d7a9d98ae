"""Tests of dlref.losses._binary_cross_entropy."""

import mpmath
import numpy as np
import pytest

from dlref.losses import (
    binary_cross_entropy,
    binary_cross_entropy_grad,
    binary_cross_entropy_jvp,
    binary_cross_entropy_vjp,
    cross_entropy,
)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_pytorch(reduction, weighted, scale, rng, assert_close):
    import peers  # noqa: PLC0415  # only where PyTorch is

    torch = peers.torch
    inputs = rng.normal(scale=scale, size=(6, 5)), rng.uniform(size=(6, 5))
    w, pi = (rng.uniform(0.5, 2, (6, 1)), rng.uniform(0.5, 2, 5)) if weighted else (None, None)

    def f(z, t):
        return torch.nn.functional.binary_cross_entropy_with_logits(
            z,
            t,
            weight=None if w is None else torch.tensor(w),
            pos_weight=None if pi is None else torch.tensor(pi),
            reduction=reduction,
        )

    options = {"weight": w, "pos_weight": pi, "reduction": reduction}
    peers.assert_same("losses.binary_cross_entropy", f, *inputs, rng=rng, **options)
    move = rng.normal(size=(6, 5))
    alone = binary_cross_entropy_jvp(inputs, (move, None), **options)
    zero = (move, np.zeros((6, 5)))
    assert_close(alone, binary_cross_entropy_jvp(inputs, zero, **options), scale=scale)


@pytest.mark.parametrize(
    "z", [-700.0, -300.0, -50.0, -37.5, -1.0, -1e-9, 0.0, 1e-9, 2.0, 40.0, 700.0]
)
@pytest.mark.parametrize("t", [0.0, 0.25, 1.0])
def test_digits_of_both_tails(z, t):
    with mpmath.workdps(700):
        p = 1 / (1 + mpmath.exp(-z))
        loss = float(-(t * mpmath.log(p) + (1 - t) * mpmath.log(1 - p)))
        grad = float(p - t)
    np.testing.assert_allclose(binary_cross_entropy(z, t), loss, rtol=1e-15, atol=0)
    scale = max(t * (1 - float(p)), (1 - t) * float(p))
    got = binary_cross_entropy_grad(z, t)
    if t == 0.25:  # two terms of opposite signs
        np.testing.assert_allclose(got, grad, rtol=0, atol=1e-15 * scale)
    else:
        np.testing.assert_allclose(got, grad, rtol=1e-15, atol=0)


def test_it_is_the_cross_entropy_of_the_scores_z_and_0(rng, assert_close):
    z, t = rng.normal(size=9), rng.uniform(size=9)
    scores = np.stack([z, 0 * z], axis=-1)
    both = np.stack([t, 1 - t], axis=-1)
    assert_close(binary_cross_entropy(z, t), cross_entropy(scores, both))


def test_infinite_logits():
    assert binary_cross_entropy(np.inf, 0.0) == np.inf
    assert binary_cross_entropy_grad(np.inf, 0.0) == 1
    assert binary_cross_entropy_grad(-np.inf, 1.0) == -1
    assert np.isnan(binary_cross_entropy(np.nan, 1.0))


def test_errors():
    forms = [
        (binary_cross_entropy, ()),
        (binary_cross_entropy_grad, ()),
        (binary_cross_entropy_vjp, (1.0,)),
    ]
    for f, first in forms:
        with pytest.raises(ValueError, match=r"'target' must have shape \(2,\), not \(1,\)"):
            f(*first, [1, 2], [1])
        with pytest.raises(ValueError, match="'reduction' must be 'mean'"):
            f(*first, [1.0], [1.0], reduction="max")
        for name in ("weight", "pos_weight"):
            with pytest.raises(ValueError, match=f"'{name}' must have a shape that broadcasts to"):
                f(*first, [1.0, 2.0], [1.0, 1.0], **{name: np.ones(3)})
    with pytest.raises(ValueError, match=r"'primals\[1\]' must have shape"):
        binary_cross_entropy_jvp(([1.0], 1.0), (None, None))
    with pytest.raises(ValueError, match="'reduction' must be 'mean' or 'sum'"):
        binary_cross_entropy_grad(1.0, 1.0, reduction="none")


def test_the_frequent_form_loses_what_the_page_says():
    """(1 - t) z + s(-z) at t = 0, where s is the softplus: 0 from -33.3 on."""
    naive = lambda z: z + np.log1p(np.exp(-z))  # noqa: E731
    assert naive(-33.4) == 0 < naive(-33.2)
    exact = np.log1p(np.exp(-20.0))
    assert 1e-7 < abs(naive(-20.0) / exact - 1) < 1e-6
    assert binary_cross_entropy(-20.0, 0.0) == pytest.approx(exact, rel=1e-15)

"""Tests of dlref.losses._kl_divergence."""

import numpy as np
import pytest
import scipy.special

from dlref.losses import (
    cross_entropy,
    kl_divergence,
    kl_divergence_grad,
    kl_divergence_jvp,
    kl_divergence_vjp,
)


@pytest.fixture
def rows(rng):
    return np.log(rng.dirichlet(np.ones(5), 6)), rng.dirichlet(np.ones(5), 6)


def test_scipy(rows, assert_close):
    log_p, q = rows
    want = scipy.special.rel_entr(q, np.exp(log_p)).sum(-1)
    assert_close(kl_divergence(log_p, q, reduction="none"), want, scale=10)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no wider numbers")
@pytest.mark.parametrize("classes", [1, 3, 64, 1025, 4097])
def test_the_error_is_within_its_bound(classes, rng):
    """Also where all roundings are alike, which without compensation cost up to 6.6 eps."""
    drawn = [rng.dirichlet(np.full(classes, size), 20) for size in (0.1, 1.0, 100.0)]
    even = np.full((40, classes), 1 / classes) * rng.uniform(0.5, 1.0, (40, 1))
    q, p = np.concatenate([*drawn, even]), np.concatenate([*drawn[::-1], even[::-1]])
    log_p = np.maximum(np.log(p, where=p > 0, out=np.full(p.shape, -800.0)), -800.0)
    got = kl_divergence(log_p, q, reduction="none")
    wide, logs = q.astype(np.longdouble), log_p.astype(np.longdouble)
    log_q = np.log(wide, where=wide > 0, out=np.zeros_like(wide))
    want = np.sum(wide * (log_q - logs), axis=-1)
    size = np.sum(wide * (abs(log_q) + abs(logs)), axis=-1)
    assert np.all(abs(got - want) <= 5 * 2.0**-53 * size)


@pytest.mark.parametrize(("reduction", "theirs"), [("mean", "batchmean"), ("sum", "sum")])
def test_pytorch(reduction, theirs, rows, rng):
    import peers  # noqa: PLC0415  # only where PyTorch is

    def f(log_p, q):
        return peers.torch.nn.functional.kl_div(log_p, q, reduction=theirs)

    name, options = "losses.kl_divergence", {"reduction": reduction}
    peers.assert_same(name, f, *rows, rng=rng, **options)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_terms_of_classes_are_those_of_pytorch(reduction, rows, rng, assert_close):
    import peers  # noqa: PLC0415  # only where PyTorch is

    def f(log_p, q):
        terms = peers.torch.nn.functional.kl_div(log_p, q, reduction="none")
        return terms if reduction == "none" else getattr(terms, reduction)()

    options = {"elementwise": True, "reduction": reduction}
    peers.assert_same("losses.kl_divergence", f, *rows, rng=rng, **options)
    if reduction != "none":
        _, grads = peers.value_and_vjp(f, *rows)
        assert_close(kl_divergence_grad(*rows, **options), grads[0])


def test_batchmean_of_pytorch_is_the_mean_over_rows_for_two_axes_only(rows):
    import peers  # noqa: PLC0415  # only where PyTorch is

    for shape, factor in (((6, 5), 1), ((2, 3, 5), 3), ((3, 1, 2, 5), 2)):
        log_p, q = (a.reshape(shape) for a in rows)
        tensors = map(peers.torch.from_numpy, (log_p, q))
        theirs = peers.torch.nn.functional.kl_div(*tensors, reduction="batchmean")
        assert theirs.item() == pytest.approx(factor * kl_divergence(log_p, q), rel=1e-13)


def test_it_is_cross_entropy_minus_entropy(rows, assert_close):
    log_p, q = rows
    entropy = -np.sum(q * np.log(q), axis=-1).mean()
    assert_close(kl_divergence(log_p, q), cross_entropy(log_p, q) - entropy, scale=10)


def test_impossible_classes():
    assert kl_divergence([0.0, -np.inf], [1.0, 0.0]) == 0
    assert kl_divergence([0.0, -np.inf], [0.5, 0.5]) == np.inf
    assert np.isnan(kl_divergence([0.0, 0.0], [1.0, -0.5]))
    _, dq = kl_divergence_vjp(1.0, [-1.0, -1.0], [1.0, 0.0])
    assert dq[1] == -np.inf
    assert kl_divergence_jvp(([-1.0, -1.0], [1.0, 0.0]), ([1.0, 1.0], None)) == -1


def test_errors(rows):
    log_p, q = rows
    for f, first in ((kl_divergence, ()), (kl_divergence_grad, ()), (kl_divergence_vjp, (1.0,))):
        with pytest.raises(ValueError, match=r"'q' must have shape \(6, 5\), not \(6, 4\)"):
            f(*first, log_p, q[:, 1:])
        with pytest.raises(ValueError, match="'log_p' must have at least 1 axis"):
            f(*first, 0.0, 1.0)
        with pytest.raises(ValueError, match="'reduction' must be 'mean'"):
            f(*first, log_p, q, reduction="batchmean")
    with pytest.raises(ValueError, match=r"'primals\[1\]' must have shape"):
        kl_divergence_jvp((log_p, q[1:]), (None, None))
    with pytest.raises(ValueError, match="'reduction' must be 'mean' or 'sum', not 'none'"):
        kl_divergence_grad(log_p, q, reduction="none")

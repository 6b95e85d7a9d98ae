"""Losses of margins, and the focal loss: PyTorch's values and gradients, edges, errors."""

import numpy as np
import pytest

from dlref.losses import (
    binary_cross_entropy_vjp,
    hinge,
    multi_margin_loss,
    multi_margin_loss_grad,
    multi_margin_loss_jvp,
    multi_margin_loss_vjp,
    sigmoid_focal_loss,
    sigmoid_focal_loss_grad,
    sigmoid_focal_loss_vjp,
    sparsemax_loss,
    sparsemax_loss_grad,
    sparsemax_loss_vjp,
    triplet_margin_loss,
    triplet_margin_loss_grad,
)

REDUCTIONS = ("mean", "sum", "none")


def assert_normwise(got, want, tolerance=4e-15):
    """Compare shapes, and the largest difference with the largest number."""
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.max(np.abs(want)))


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_of_pytorch(reduction, p, rng):
    peers = pytest.importorskip("peers")
    x, y, w = 2 * rng.normal(size=(9, 6)), rng.integers(0, 6, 9), rng.uniform(0.5, 2, 6)
    options = {"p": p, "margin": 0.7, "reduction": reduction}
    u = rng.normal(size=9 if reduction == "none" else ())
    for weight in (None, w):

        def f(x, weight=weight):
            given = None if weight is None else peers.torch.tensor(weight)
            target = peers.torch.tensor(y)
            return peers.torch.nn.functional.multi_margin_loss(x, target, weight=given, **options)

        value, (grad,) = peers.value_and_vjp(f, x, dout=u)
        assert_normwise(multi_margin_loss(x, y, weight=weight, **options), value)
        assert_normwise(multi_margin_loss_vjp(u, x, y, weight=weight, **options), grad)


def test_multi_margin_of_two_classes_is_half_a_hinge(rng):
    x, y = rng.normal(size=(20, 2)), rng.integers(0, 2, 20)
    got = multi_margin_loss(x, y, reduction="none")
    want = hinge(x[:, 1] - x[:, 0], 2 * y - 1, reduction="none") / 2
    np.testing.assert_allclose(got, want, atol=1e-15)


def test_multi_margin_at_its_kink():
    """A shortfall of exactly 0 has no slope; the right class is no wrong class of itself."""
    np.testing.assert_array_equal(multi_margin_loss_grad([1.0, 0.0, 0.5], 0) * 3, [-1, 0, 1])
    np.testing.assert_array_equal(multi_margin_loss_grad([1.0, 0.0], 0), [0, 0])
    assert multi_margin_loss([3.0], 0) == 0
    assert np.isnan(multi_margin_loss([1.0, np.nan], 0))
    assert np.isnan(multi_margin_loss_grad([1.0, np.nan], 0)).all()


def test_multi_margin_keeps_its_digits_at_an_offset():
    x = np.array([2.0, 1.5, 1.75]) + 2.0**40
    assert multi_margin_loss(x, 0, margin=0.3, reduction="sum") == pytest.approx(0.05 / 3)


def test_multi_margin_of_no_rows():
    nothing = np.zeros((0, 3)), np.zeros(0, int)
    assert np.isnan(multi_margin_loss(*nothing))
    assert multi_margin_loss(*nothing, reduction="sum") == 0
    assert multi_margin_loss_grad(*nothing).shape == (0, 3)


def test_errors_of_multi_margin():
    x, y = np.zeros((2, 3)), [0, 2]
    with pytest.raises(ValueError, match="'p' must be 1 or 2, not 3"):
        multi_margin_loss(x, y, p=3)
    with pytest.raises(ValueError, match="'target' must hold integers from 0 to 2, not 3"):
        multi_margin_loss(x, [0, 3])
    with pytest.raises(ValueError, match=r"'target'.* shape"):
        multi_margin_loss(x, [0])
    with pytest.raises(ValueError, match=r"'weight'.* shape"):
        multi_margin_loss(x, y, weight=[1.0])
    with pytest.raises(ValueError, match="non-empty last axis"):
        multi_margin_loss(np.zeros((2, 0)), y)
    with pytest.raises(ValueError, match="'reduction'"):
        multi_margin_loss_grad(x, y, reduction="none")
    with pytest.raises(ValueError, match=r"'tangents\[0\]'"):
        multi_margin_loss_jvp((x, y), (np.zeros(3), None))
    with pytest.raises(TypeError, match="'margin'"):
        multi_margin_loss(x, y, margin="wide")


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (-1, 2.0), (0.75, 0.5), (0.25, 0.0)])
def test_focal_loss_of_torchvision(reduction, alpha, gamma, rng):
    """The lines of torchvision.ops.sigmoid_focal_loss, for hard and for soft targets."""
    peers = pytest.importorskip("peers")

    def f(inputs, targets):
        p = peers.torch.sigmoid(inputs)
        ce_loss = peers.torch.nn.functional.binary_cross_entropy_with_logits(
            inputs, targets, reduction="none"
        )
        p_t = p * targets + (1 - p) * (1 - targets)
        loss = ce_loss * ((1 - p_t) ** gamma)
        if alpha >= 0:
            alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
            loss = alpha_t * loss
        return loss if reduction == "none" else getattr(loss, reduction)()

    options = {"alpha": alpha, "gamma": gamma, "reduction": reduction}
    for t in (rng.integers(0, 2, (6, 5)).astype(float), rng.uniform(size=(6, 5))):
        x = 2 * rng.normal(size=(6, 5))
        peers.assert_same("losses.sigmoid_focal_loss", f, x, t, rng=rng, tolerance=1e-14, **options)


def test_focal_loss_without_a_focus_is_binary_cross_entropy(rng):
    x, t, u = rng.normal(size=9), rng.uniform(size=9), 1.5
    got = sigmoid_focal_loss_vjp(u, x, t, alpha=-1, gamma=0)
    for ours, want in zip(got, binary_cross_entropy_vjp(u, x, t), strict=True):
        np.testing.assert_allclose(ours, want, rtol=1e-15)


def test_focal_loss_keeps_its_digits_where_it_is_sure():
    """Against long doubles: 1 - p loses all digits of these, and q ** (gamma - 1) is large."""
    for x in (40.0, 300.0):
        z = np.longdouble(x)
        q, b = np.exp(-z) / (1 + np.exp(-z)), np.log1p(np.exp(-z))
        options = {"alpha": -1, "gamma": 0.5}
        for logit, target in ((x, 1.0), (-x, 0.0)):
            got = sigmoid_focal_loss(logit, target, **options)
            assert got == pytest.approx(float(q**0.5 * b), rel=4e-15)
            slope = -(q**0.5) * (q + (1 - q) * b / 2)
            got = sigmoid_focal_loss_grad(logit, target, **options)
            assert got == pytest.approx(float(slope) * np.sign(logit), rel=4e-15)
    # far beyond the range of exp
    assert sigmoid_focal_loss(-1e4, 1.0, alpha=-1) == 1e4
    assert sigmoid_focal_loss_grad(-1e4, 1.0, alpha=-1) == -1
    assert sigmoid_focal_loss_grad(1e4, 1.0, alpha=-1) == 0


def test_errors_of_the_focal_loss():
    with pytest.raises(ValueError, match="'target'"):
        sigmoid_focal_loss([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="'gamma' must be at least 0, not -1"):
        sigmoid_focal_loss([1.0], [1.0], gamma=-1)
    with pytest.raises(ValueError, match="'alpha' must be from -1 to 1, not 2"):
        sigmoid_focal_loss([1.0], [1.0], alpha=2)
    with pytest.raises(ValueError, match="'reduction'"):
        sigmoid_focal_loss_grad([1.0], [1.0], reduction="none")


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
@pytest.mark.parametrize("swap", [False, True])
def test_triplets_of_pytorch(reduction, p, swap, rng):
    peers = pytest.importorskip("peers")
    triplet = rng.normal(size=(3, 12, 4))
    options = {"margin": 0.7, "p": p, "eps": 1e-3, "swap": swap, "reduction": reduction}
    loss = peers.torch.nn.functional.triplet_margin_loss
    f = lambda *x: loss(*x, **options)  # noqa: E731
    _, grads = peers.value_and_vjp(f, *triplet, dout=np.ones(12 if reduction == "none" else ()))
    assert np.count_nonzero(grads[2]) < grads[2].size  # some have their margin
    peers.assert_same(
        "losses.triplet_margin_loss", f, *triplet, rng=rng, tolerance=1e-14, **options
    )


def test_triplets_at_their_kinks():
    zero, one, two = np.zeros(2), np.array([1.0, 0.0]), np.array([2.0, 0.0])
    for grad in triplet_margin_loss_grad(zero, one, two, eps=0):  # nothing is missing
        np.testing.assert_array_equal(grad, [0, 0])
    da, db, dc = triplet_margin_loss_grad(zero, zero, one, margin=2, eps=0)
    np.testing.assert_array_equal([da, db, dc], [[1, 0], [0, 0], [-1, 0]])
    # both distances are 1, and the anchor's counts
    plain = triplet_margin_loss_grad(zero, two, one, eps=0)
    swapped = triplet_margin_loss_grad(zero, two, one, eps=0, swap=True)
    np.testing.assert_array_equal(plain, swapped)
    assert np.isnan(triplet_margin_loss(zero, [np.nan, 0.0], two))
    assert np.isnan(triplet_margin_loss_grad(zero, [np.nan, 0.0], two)).any()


def test_distances_neither_overflow_nor_underflow():
    for size in (1e-200, 1e200):
        triplet = np.zeros(2), size * np.array([3.0, 4.0]), size * np.array([0.0, 2.0])
        options = {"margin": 0.0, "eps": 0.0}
        assert triplet_margin_loss(*triplet, **options) == pytest.approx(3 * size, rel=4e-15)
        _, db, _ = triplet_margin_loss_grad(*triplet, **options)
        np.testing.assert_allclose(db, [0.6, 0.8], rtol=4e-15)


def test_ordinary_distances_next_to_extreme_ones():
    """Each row is 3, 4, 0 times its size, and its distance 5 times."""
    size = np.array([1e-320, 1e-170, 1e-140, 1.0, 1e140, 1e170, 1e300])
    a, b = np.zeros((7, 3)), size[:, None] * [3.0, 4.0, 0.0]
    options = {"margin": 0.0, "eps": 0.0}
    got = triplet_margin_loss(a, b, a, **options, reduction="none")
    np.testing.assert_allclose(got, 5 * size, rtol=4e-16)
    _, db, dc = triplet_margin_loss_grad(a, b, a, **options, reduction="sum")
    np.testing.assert_allclose(db, 7 * [[0.6, 0.8, 0.0]], rtol=4e-4)  # 1e-320 has four digits
    np.testing.assert_allclose(db[1:], 6 * [[0.6, 0.8, 0.0]], rtol=4e-16)
    np.testing.assert_array_equal(dc, np.zeros((7, 3)))


def test_errors_of_triplets():
    x = np.zeros((2, 3))
    with pytest.raises(ValueError, match="'positive'"):
        triplet_margin_loss(x, x[0], x)
    with pytest.raises(ValueError, match="'anchor'"):
        triplet_margin_loss(0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="'p' must be at least 1"):
        triplet_margin_loss(x, x, x, p=0.5)
    with pytest.raises(TypeError, match="'swap'"):
        triplet_margin_loss(x, x, x, swap=2)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sparsemax_loss_of_pytorch(reduction, rng):
    """The definition, differentiated by PyTorch, with a threshold found by sorting."""
    peers = pytest.importorskip("peers")
    z, y = 1.5 * rng.normal(size=(30, 6)), rng.integers(0, 6, 30)

    def f(z):
        torch = peers.torch
        falling = torch.sort(z, dim=-1, descending=True).values
        total = torch.cumsum(falling, -1)
        count = torch.arange(1, 7)
        size = (1 + count * falling > total).sum(-1, keepdim=True)
        tau = (total.gather(-1, size - 1) - 1) / size
        inside = torch.where(z > tau, z**2 - tau**2, torch.zeros_like(z))
        right = z.gather(-1, torch.tensor(y)[:, None])[:, 0]
        losses = -right + inside.sum(-1) / 2 + 0.5
        return losses if reduction == "none" else getattr(losses, reduction)()

    u = rng.normal(size=30 if reduction == "none" else ())
    value, (grad,) = peers.value_and_vjp(f, z, dout=u)
    assert_normwise(sparsemax_loss(z, y, reduction=reduction), value)
    assert_normwise(sparsemax_loss_vjp(u, z, y, reduction=reduction), grad)


def test_sparsemax_loss_of_a_lead():
    """In closed form, at an offset that the definition's squares would not survive."""
    for offset in (0.0, 2.0**30):
        z = offset + np.array(
            [[3.0, 0.0, 0.0], [1.0, 0.0, -1.0], [0.0, 0.0, -5.0], [0.0, 4.0, 0.0]]
        )
        got = sparsemax_loss(z, [0, 0, 0, 0], reduction="none")
        np.testing.assert_array_equal(got, [0, 0, 0.25, 4])
        grad = sparsemax_loss_grad(z, [0, 0, 0, 0], reduction="sum")
        np.testing.assert_array_equal(grad, [[0] * 3, [0] * 3, [-0.5, 0.5, 0], [-1, 1, 0]])
    assert sparsemax_loss([7.0], 0) == 0
    assert np.isnan(sparsemax_loss([1.0, np.nan], 0))


def test_errors_of_the_sparsemax_loss():
    with pytest.raises(ValueError, match="'target' must hold integers from 0 to 2, not -1"):
        sparsemax_loss(np.zeros((1, 3)), [-1])
    with pytest.raises(ValueError, match="non-empty last axis"):
        sparsemax_loss(np.zeros((2, 0)), [0, 0])
    with pytest.raises(ValueError, match="'reduction'"):
        sparsemax_loss_grad(np.zeros(3), 0, reduction="none")

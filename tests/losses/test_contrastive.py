"""Contrastive losses: PyTorch, CLIP's and SigLIP's code, identities, errors."""

import numpy as np
import pytest

from dlref.losses import (
    cross_entropy,
    info_nce,
    info_nce_grad,
    info_nce_jvp,
    info_nce_vjp,
    siglip_loss,
    siglip_loss_grad,
    siglip_loss_vjp,
)


class TestInfoNCE:
    def test_the_loss_of_clip(self, rng):
        peers = pytest.importorskip("peers")

        def clip(s):
            target = peers.torch.arange(7)
            f = peers.torch.nn.functional.cross_entropy
            return (f(s, target) + f(s.t(), target)) / 2

        s = 3 * rng.normal(size=(7, 7))
        peers.assert_same("losses.info_nce", clip, s, rng=rng, tolerance=1e-14)

    def test_supervised_contrast(self, rng):
        """The lines of SupContrast's `SupConLoss`, with one temperature."""
        peers = pytest.importorskip("peers")
        labels = np.array([0, 1, 0, 2, 1, 0])  # the third class has one item
        positives = (labels[:, None] == labels) & ~np.eye(6, dtype=bool)
        vectors = rng.normal(size=(6, 4))

        def supcon(x):
            logits = x @ x.t()
            logits = logits - logits.max(dim=1, keepdim=True).values.detach()
            others = 1 - peers.torch.eye(6)
            exp_logits = logits.exp() * others
            log_prob = logits - exp_logits.sum(1, keepdim=True).log()
            mask = peers.torch.tensor(positives).double()
            mask_pos_pairs = mask.sum(1)
            mask_pos_pairs = peers.torch.where(
                mask_pos_pairs < 1e-6, peers.torch.ones(6).double(), mask_pos_pairs
            )
            return -((mask * log_prob).sum(1) / mask_pos_pairs).mean()

        value, (grad,) = peers.value_and_vjp(supcon, vectors)
        s = np.where(np.eye(6, dtype=bool), -np.inf, vectors @ vectors.T)
        options = {"positives": positives, "symmetric": False}
        np.testing.assert_allclose(info_nce(s, **options), value, rtol=4e-15)
        g = info_nce_grad(s, **options)
        np.testing.assert_allclose((g + g.T) @ vectors, grad, rtol=0, atol=4e-15 * abs(grad).max())
        assert not g[3].any()

    def test_nt_xent_of_simclr(self, rng):
        """Cross-entropy of 2N views, whose partner is N rows further."""
        peers = pytest.importorskip("peers")
        s = rng.normal(size=(8, 8))

        def nt_xent(s):
            s = s.masked_fill(peers.torch.eye(8).bool(), -1e300)
            target = (peers.torch.arange(8) + 4) % 8
            return peers.torch.nn.functional.cross_entropy(s, target)

        value, (grad,) = peers.value_and_vjp(nt_xent, s)
        views = np.where(np.eye(8, dtype=bool), -np.inf, s)
        options = {"positives": np.roll(np.eye(8, dtype=bool), 4, axis=1), "symmetric": False}
        np.testing.assert_allclose(info_nce(views, **options), value, rtol=4e-15)
        np.testing.assert_allclose(info_nce_grad(views, **options), grad, rtol=0, atol=4e-15)

    @pytest.mark.parametrize("symmetric", [False, True])
    def test_the_diagonal_is_the_default(self, rng, symmetric):
        s, ds = rng.normal(size=(2, 3, 5, 5))
        u = rng.normal(size=(3, 5))
        options = {"symmetric": symmetric, "reduction": "none"}
        pairs = {**options, "positives": np.eye(5, dtype=bool)}
        for f, arguments in (
            (info_nce, (s,)),
            (info_nce_vjp, (u, s)),
            (info_nce_jvp, (s, ds)),
        ):
            np.testing.assert_allclose(
                f(*arguments, **pairs), f(*arguments, **options), rtol=0, atol=1e-14
            )

    def test_one_direction_is_cross_entropy(self, rng):
        s = rng.normal(size=(6, 6))
        got = info_nce(s, symmetric=False, reduction="none")
        want = cross_entropy(s, np.arange(6), reduction="none")
        np.testing.assert_allclose(got, want, rtol=4e-15)

    def test_the_gradient_adds_up_to_zero(self, rng):
        s = rng.normal(size=(2, 6, 6))
        for symmetric in (False, True):
            grad = info_nce_grad(s, symmetric=symmetric)
            np.testing.assert_allclose(grad.sum((-2, -1)), 0, atol=1e-15)

    def test_large_similarities_are_finite(self):
        s = 1e4 * np.ones((3, 3)) + 1e4 * np.eye(3)
        assert info_nce(s) == 0
        assert info_nce(-s) == 1e4 + np.log(2)

    def test_a_single_pair_has_nothing_to_find(self):
        for symmetric in (False, True):
            assert info_nce([[3.7]], symmetric=symmetric) == 0
            assert info_nce_grad([[3.7]], symmetric=symmetric) == 0

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'similarity' must have shape"):
            info_nce(np.ones((2, 3)))
        with pytest.raises(ValueError, match=r"^Argument 'similarity' must have .* N of at least"):
            info_nce(np.ones((0, 0)))
        with pytest.raises(TypeError, match=r"^Argument 'symmetric' must be True or False"):
            info_nce(np.eye(2), symmetric=1)
        with pytest.raises(TypeError, match=r"^Argument 'positives' must be boolean"):
            info_nce(np.eye(2), positives=np.eye(2))
        with pytest.raises(ValueError, match=r"^Argument 'positives' must broadcast to"):
            info_nce(np.eye(2), positives=np.ones((3, 3), bool))
        with pytest.raises(ValueError, match=r"^Argument 'reduction' must be 'mean' or 'sum'"):
            info_nce_grad(np.eye(2), reduction="none")


class TestSigLIP:
    def test_the_published_loss(self, rng):
        peers = pytest.importorskip("peers")

        def published(s, bias):
            label = 2 * peers.torch.eye(7, dtype=s.dtype) - 1
            return -peers.torch.nn.functional.logsigmoid(label * (s + bias)).sum() / 7

        s, bias = 3 * rng.normal(size=(7, 7)), np.float64(-2.0)
        peers.assert_same("losses.siglip_loss", published, s, bias, rng=rng)

    def test_elements_do_not_compete(self, rng):
        s = rng.normal(size=(5, 5))
        other = s.copy()
        other[1, 2] += 3
        moved = siglip_loss_grad(other, 0.0)[0] != siglip_loss_grad(s, 0.0)[0]
        assert np.argwhere(moved).tolist() == [[1, 2]]

    def test_large_similarities_are_finite(self):
        assert siglip_loss(2e4 * np.eye(3), -1e4) == 0
        assert siglip_loss(-2e4 * np.eye(3), 1e4) == 1e4 + 2 * 1e4

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'bias' must have shape \(\), not \(2,\)"):
            siglip_loss(np.eye(2), np.ones(2))
        with pytest.raises(ValueError, match=r"^Argument 'similarity' must have shape"):
            siglip_loss(np.ones(3), 0.0)
        with pytest.raises(ValueError, match=r"^Argument 'reduction' must be 'mean' or 'sum'"):
            siglip_loss_grad(np.eye(2), reduction="none")


def test_siglip_of_no_pairs():
    for shape in ((3, 0, 0), (0, 2, 2)):
        s = np.zeros(shape)
        assert siglip_loss(s, reduction="none").shape == shape[:-1]
        ds, dbias = siglip_loss_vjp(np.zeros(shape[:-1]), s, reduction="none")
        assert (ds.shape, dbias) == (shape, 0.0)


def test_strips_of_rows_and_columns_fit_together(rng, monkeypatch):
    s, u = rng.normal(size=(2, 19, 19)), rng.normal(size=(2, 19))
    whole = info_nce_vjp(u, s, reduction="none")
    monkeypatch.setattr("dlref.losses._info_nce.PIECE", 300)  # of 38 numbers a row: strips of 7
    np.testing.assert_array_equal(info_nce_vjp(u, s, reduction="none"), whole)

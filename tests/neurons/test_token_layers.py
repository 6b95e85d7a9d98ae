"""Embedding, dropout and a correction of low rank: PyTorch, identities, errors."""

import numpy as np
import pytest

from dlref.neurons import (
    dropout,
    dropout_jvp,
    dropout_vjp,
    embedding,
    embedding_jvp,
    embedding_vjp,
    linear,
    linear_vjp,
    lora_linear,
    lora_linear_jvp,
    lora_linear_vjp,
)


class TestEmbedding:
    def test_pytorch(self, rng):
        peers = pytest.importorskip("peers")
        table, ids = rng.normal(size=(6, 4)), rng.integers(0, 6, (3, 5))
        u, where = rng.normal(size=(3, 5, 4)), peers.torch.tensor(ids)
        for padding in (None, 2):

            def f(t, padding=padding):
                vectors = peers.torch.nn.functional.embedding(where, t, padding_idx=padding)
                return 3.0 * vectors

            value, (grad,) = peers.value_and_vjp(f, table, dout=u)
            options = {"padding_id": padding, "scale": 3.0}
            np.testing.assert_array_equal(embedding(table, ids, **options), value)
            got = embedding_vjp(u, table, ids, **options)
            np.testing.assert_allclose(got, grad, rtol=0, atol=4e-15 * abs(grad).max())

    def test_it_is_a_layer_for_one_hot_rows(self, rng):
        table, ids, u = rng.normal(size=(6, 4)), np.array([5, 0, 5]), rng.normal(size=(3, 4))
        rows = np.eye(6)[ids]
        np.testing.assert_array_equal(embedding(table, ids), linear(rows, table.T))
        _, dweight = linear_vjp(u, rows, table.T)
        np.testing.assert_allclose(embedding_vjp(u, table, ids), dweight.T, rtol=1e-15)

    def test_repeated_ids_add_up_in_float64(self):
        u = np.full((2**14, 1), np.float32(0.1))
        got = embedding_vjp(u, np.zeros((2, 1), np.float32), np.ones(2**14, int))
        assert got[1, 0] == np.float32(2**14 * np.float64(np.float32(0.1)))

    def test_padding_has_no_tangent(self, rng):
        table, moved = rng.normal(size=(2, 4, 3))
        got = embedding_jvp((table, [1, 2]), (moved, None), padding_id=2)
        np.testing.assert_array_equal(got, [moved[1], np.zeros(3)])

    def test_errors(self):
        table = np.ones((3, 2))
        with pytest.raises(ValueError, match=r"^Argument 'ids' must hold integers from 0 to 2"):
            embedding(table, [-1])
        with pytest.raises(TypeError, match=r"^Argument 'ids' must be integer, not float64"):
            embedding(table, [1.0])
        with pytest.raises(ValueError, match=r"^Argument 'padding_id' must be at most 2, not 3"):
            embedding(table, [1], padding_id=3)
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\]' must be None"):
            embedding_jvp((table, [1]), (None, np.ones(1)))


class TestDropout:
    @pytest.mark.parametrize("shape", [(4, 3), (3,), (4, 1), ()])
    def test_the_mask_is_the_jacobian(self, rng, shape):
        x, u, v = rng.normal(size=(3, 4, 3))
        mask = 2.0 * rng.integers(0, 2, shape)
        for got, of in (
            (dropout(x, mask), x), (dropout_vjp(u, x, mask), u),
            (dropout_jvp((x, mask), (v, None)), v),
        ):  # fmt: skip
            np.testing.assert_array_equal(got, of * mask)

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^Argument 'mask' must broadcast to"):
            dropout(np.ones(3), np.ones((2, 3)))
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\]' must be None"):
            dropout_jvp((np.ones(3), np.ones(3)), (None, np.ones(3)))


class TestLoRA:
    def test_pytorch(self, rng):
        peers = pytest.importorskip("peers")
        ops = tuple(rng.normal(size=s) for s in ((2, 4, 5), (3, 5), (2, 5), (3, 2), (3,)))
        u = rng.normal(size=(2, 4, 3))
        value, grads = peers.value_and_vjp(
            lambda x, w, a, b, c: x @ (w + 0.25 * b @ a).T + c, *ops, dout=u
        )
        got = lora_linear(*ops, scale=0.25)
        np.testing.assert_allclose(got, value, rtol=0, atol=4e-15 * abs(value).max())
        found = lora_linear_vjp(u, *ops, scale=0.25)
        assert len(found) == 4
        for g, want in zip(found, [grads[0], *grads[2:]], strict=True):
            np.testing.assert_allclose(g, want, rtol=0, atol=8e-15 * abs(want).max())

    def test_zero_factors_are_the_layer(self, rng):
        x, w, a = rng.normal(size=(4, 5)), rng.normal(size=(3, 5)), rng.normal(size=(2, 5))
        np.testing.assert_array_equal(lora_linear(x, w, a, np.zeros((3, 2))), linear(x, w))
        _, da, db = lora_linear_vjp(np.ones((4, 3)), x, w, a, np.zeros((3, 2)))
        assert not da.any()
        assert db.any()

    def test_float32_stays_float32(self, rng):
        ops = [rng.normal(size=s).astype(np.float32) for s in ((4, 5), (3, 5), (2, 5), (3, 2))]
        assert lora_linear(*ops, scale=0.3).dtype == np.float32

    def test_errors(self):
        x, w, a, b = np.ones((4, 5)), np.ones((3, 5)), np.ones((2, 5)), np.ones((3, 2))
        with pytest.raises(ValueError, match=r"^Argument 'b' must have shape \(3, 2\), not"):
            lora_linear(x, w, a, b.T)
        with pytest.raises(ValueError, match=r"^Argument 'a' must have shape \(r, 5\), not"):
            lora_linear(x, w, a[:, 1:], b)
        with pytest.raises(ValueError, match=r"^Argument 'bias' must have shape \(3,\), not"):
            lora_linear(x, w, a, b, np.ones(5))
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\]' must be None"):
            lora_linear_jvp((x, w, a, b, None), (None, w, None, None, None))
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[4\]' must be None"):
            lora_linear_jvp((x, w, a, b, None), (None, None, None, None, np.ones(3)))

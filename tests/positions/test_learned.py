"""Tests of dlref.positions._learned."""

import numpy as np
import pytest

import dlref.positions as P

TABLE = np.arange(12.0).reshape(4, 3)


def test_is_a_product_with_one_hot_rows(rng):
    positions = rng.integers(0, 4, (2, 5))
    np.testing.assert_array_equal(
        P.learned_positions(TABLE, positions), np.eye(4)[positions] @ TABLE
    )


def test_the_gradient_is_dense_with_empty_rows(rng):
    table, dout = rng.normal(size=(1000, 8)), rng.normal(size=(5, 8))
    grad = P.learned_positions_vjp(dout, table, [3, 9, 27, 81, 243])
    assert grad.shape == (1000, 8)
    assert np.count_nonzero(grad.any(-1)) == 5


def test_many_gradients_of_one_row_are_summed_in_float64():
    dout = np.full((3000, 1), 0.1, np.float32)
    grad = P.learned_positions_vjp(dout, np.zeros((1, 1), np.float32), np.zeros(3000, int))
    assert grad.dtype == np.float32
    assert grad.item() == np.float32(3000 * np.float64(np.float32(0.1)))


def test_pytorch(rng):
    peers = pytest.importorskip("peers")
    table, positions = rng.normal(size=(50, 8)), rng.integers(0, 50, (3, 200))
    index, lookup = peers.torch.tensor(positions), peers.torch.nn.functional.embedding
    peers.assert_same(
        "positions.learned_positions",
        lambda t: lookup(index, t),
        table,
        constants=(positions,),
        rng=rng,
    )


class TestErrors:
    @pytest.mark.parametrize(("position", "words"), [(-1, "-1"), (4, "4")])
    def test_out_of_range(self, position, words):
        match = rf"^Argument 'positions' must hold integers from 0 to 3, not {words}\.$"
        with pytest.raises(ValueError, match=match):
            P.learned_positions(TABLE, [0, position])

    def test_dtype(self):
        with pytest.raises(TypeError, match=r"^Argument 'positions' must be integer, not float64"):
            P.learned_positions(TABLE, [0.0])

    @pytest.mark.parametrize("shape", [(), (3,), (1, 2, 3)])
    def test_table(self, shape):
        with pytest.raises(ValueError, match=r"^Argument 'table' must have 2 axes, not shape"):
            P.learned_positions(np.ones(shape), [0])

    def test_positions_have_no_tangent(self):
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\]' must be None"):
            P.learned_positions_jvp((TABLE, [0]), (TABLE, [1]))

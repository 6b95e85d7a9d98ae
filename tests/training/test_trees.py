"""Tests of dlref.training._trees, and of what trees look like when they are printed."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dlref.neurons import LinearParams
from dlref.training import (
    AdamState,
    MinibatchResult,
    mlp_loss,
    mlp_loss_value_and_grad,
    tree_map,
    tree_ravel,
    tree_unravel,
)
from dlref.transformer import LanguageModelConfig, init_language_model


@pytest.fixture
def tree(rng):
    return (
        LinearParams(rng.normal(size=(2, 3)), None),
        (rng.normal(size=4).astype(np.float32), ()),
        rng.normal(),
    )


def test_map_keeps_the_structure(tree):
    out = tree_map(lambda a, b: 2 * a - b, tree, tree)
    assert isinstance(out[0], LinearParams)
    assert out[0].bias is None
    assert out[1][1] == ()
    np.testing.assert_array_equal(out[0].weight, tree[0].weight)
    assert out[1][0].dtype == np.float32
    assert tree_map(np.ndim, [[1.0]]) == 2
    assert tree_map(np.ndim, None) is None


def test_ravel_and_unravel(tree):
    vector = tree_ravel(tree)
    want = np.concatenate([tree[0].weight.ravel(), tree[1][0], [tree[2]]])
    np.testing.assert_array_equal(vector, want)
    assert vector.dtype == np.float64
    back = tree_unravel(vector, tree)
    assert isinstance(back[0], LinearParams)
    assert [back[0].bias, back[1][1]] == [None, ()]
    assert back[1][0].dtype == np.float32
    for a, b in ((back[0].weight, tree[0].weight), (back[1][0], tree[1][0]), (back[2], tree[2])):
        np.testing.assert_array_equal(a, b)
        assert not np.shares_memory(a, vector)
    assert tree_ravel(()).shape == (0,)
    assert tree_unravel([], ()) == ()


def test_they_are_each_others_vjp(tree, rng):
    dout = rng.normal(size=11)
    np.testing.assert_allclose(
        dout @ tree_ravel(tree), tree_ravel(tree) @ tree_ravel(tree_unravel(dout, tree)), rtol=1e-6
    )


def test_scipy_fits_a_network(rng):
    x = rng.normal(size=(60, 2))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)  # no line separates these
    start = tuple(LinearParams(rng.normal(size=(m, n)), np.zeros(m)) for m, n in ((16, 2), (2, 16)))

    def loss_and_gradient(vector):
        params = tree_unravel(vector, start)
        value, grads = mlp_loss_value_and_grad(x, y, params, loss="cross_entropy")
        return value, tree_ravel(grads)

    found = minimize(loss_and_gradient, tree_ravel(start), jac=True, method="L-BFGS-B")
    loss = mlp_loss(x, y, tree_unravel(found.x, start), loss="cross_entropy")
    assert loss == pytest.approx(found.fun)
    assert loss < 0.02


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: tree_map(3, 1.0), TypeError, "Argument 'f' must be"),
        (lambda: tree_map(min, (1.0, "a")), TypeError, "Argument 'tree.1' must be"),
        (lambda: tree_map(min, (1.0, 2.0), (1.0,)), ValueError, "'others[0]' must be a tuple of 2"),
        (lambda: tree_map(min, [1.0], [1.0, 2.0]), ValueError, "'others[0]' must have shape (1,)"),
        (lambda: tree_map(min, (1.0,), (None,)), ValueError, "'others[0].0' must be an array"),
        (lambda: tree_map(min, (None,), (1.0,)), ValueError, "'others[0].0' must be None"),
        (lambda: tree_ravel(("a",)), TypeError, "Argument 'tree.0' must be"),
        (lambda: tree_unravel([1.0], (1.0, 2.0)), ValueError, "'vector' must have shape (2,)"),
        (lambda: tree_unravel(1.0, 2.0), ValueError, "'vector' must have shape (1,)"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)


class TestPrinted:
    """A tree prints in a screen, however large it is."""

    def test_small_ones_as_they_are(self):
        assert repr(LinearParams(np.ones(1))) == "LinearParams(weight=array([1.]), bias=None)"

    def test_large_ones_by_their_shapes(self, rng):
        config = LanguageModelConfig(50, 32, 4, num_layers=12)
        params = init_language_model(rng, config)
        lines = repr(params).splitlines()
        assert lines[0] == "LanguageModelParams: 196 arrays, 186,880 numbers"
        assert len(lines) == 22
        assert lines[1].split() == ["embedding", "(50,", "32)", "float64"]
        assert lines[-3].split() == ["blocks.1", "to", "11", "as", "0"]
        assert not any("head" in line for line in lines)  # None

    def test_layers_of_unlike_shapes_are_all_listed(self):
        layers = tuple(LinearParams(np.ones((n, 20))) for n in (20, 21, 22))
        text = repr(MinibatchResult(layers, (), (), 3))
        assert [f"params.{i}.weight" in text for i in range(3)] == [True] * 3

    def test_numbers_among_arrays(self):
        text = repr(AdamState(7, np.ones(200), np.ones(200), None))
        assert text.splitlines()[1].split() == ["step", "7"]

    def test_notebooks_get_a_table(self, rng):
        html = LinearParams(np.ones((2, 3)), np.ones(2))._repr_html_()
        assert "<p>LinearParams: 2 arrays, 8 numbers</p>" in html
        assert "<tr><td>weight</td><td>(2, 3)</td><td>float64</td></tr>" in html
        html = LanguageModelConfig(50, 32, 4)._repr_html_()
        assert "<tr><td>d_model</td><td>32</td></tr>" in html
        assert "<tr><td>num_kv_heads</td><td>4</td></tr>" in html

"""Feed-forward networks: the formula, PyTorch, and what is special about them."""

import numpy as np
import peers
import pytest
import trees

from dlref.formulas import transformer as formulas
from dlref.transformer import (
    FeedForwardParams,
    GatedFeedForwardParams,
    feed_forward,
    feed_forward_jvp,
    feed_forward_vjp,
    gated_feed_forward,
    gated_feed_forward_jvp,
    gated_feed_forward_vjp,
)


def plain(D=3, F=5, biases=True, shape=(2, 4), **options):
    def problem(rng):
        shapes = (F, D), (F,) if biases else None, (D, F), (D,) if biases else None
        params = FeedForwardParams(*(None if s is None else rng.normal(size=s) for s in shapes))
        return (rng.normal(size=(*shape, D)), params), (), options

    return problem


def gated(D=3, F=5, shape=(2, 4), biases=False, **options):
    def problem(rng):
        shapes = [(F, D), (F, D), (D, F), *([(F,), (F,), (D,)] if biases else [])]
        params = GatedFeedForwardParams(*(rng.normal(size=s) for s in shapes))
        return (rng.normal(size=(*shape, D)), params), (), options

    return problem


class TestPlain(trees.Contract):
    maps = feed_forward, feed_forward_vjp, feed_forward_jvp, formulas.feed_forward
    problems = [  # noqa: RUF012
        plain(activation="gelu"),
        plain(),
        plain(biases=False, activation="tanh"),
        plain(D=1, F=1, shape=()),
        plain(F=7, shape=(1,), activation="silu"),
        plain(activation="gelu_tanh"),
    ]


class TestGated(trees.Contract):
    maps = (
        gated_feed_forward,
        gated_feed_forward_vjp,
        gated_feed_forward_jvp,
        formulas.gated_feed_forward,
    )
    problems = [  # noqa: RUF012
        gated(),
        gated(activation="gelu", shape=()),
        gated(D=1, F=2, activation="sigmoid", shape=(1, 2, 3)),
        gated(activation="gelu_tanh"),
        gated(biases=True),
    ]


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_pytorch(rng, activation):
    functional = peers.torch.nn.functional
    (x, p), _, _ = plain(16, 64, shape=(3, 5))(rng)
    u = rng.normal(size=x.shape)
    value, grads = peers.value_and_vjp(
        lambda x, w1, b1, w2, b2: functional.linear(
            getattr(functional, activation)(functional.linear(x, w1, b1)), w2, b2
        ),
        x, *p, dout=u,
    )  # fmt: skip
    trees.assert_close(feed_forward(x, p, activation=activation), value, 1e-14)
    dx, dparams = feed_forward_vjp(u, x, p, activation=activation)
    trees.assert_close((dx, *dparams), tuple(grads), 1e-14)


def test_positions_do_not_meet(rng):
    (x, p), _, _ = plain(shape=(6,))(rng)
    one_by_one = np.stack([feed_forward(row, p) for row in x])
    np.testing.assert_allclose(feed_forward(x, p), one_by_one, rtol=0, atol=1e-14)


def test_identity_activation_is_one_matrix(rng):
    (x, p), _, _ = plain(biases=False)(rng)
    got = feed_forward(x, p, activation="identity")
    np.testing.assert_allclose(got, x @ (p.w2 @ p.w1).T, rtol=0, atol=1e-13)


def test_gate_of_one_is_plain(rng):
    """A gate that is wide open leaves a linear map of the rest."""
    w_up, w_down = rng.normal(size=(5, 3)), rng.normal(size=(3, 5))
    params = GatedFeedForwardParams(np.tile([100.0, 0.0, 0.0], (5, 1)), w_up, w_down)
    x = rng.normal(size=(4, 3))
    x[:, 0] = 1.0
    got = gated_feed_forward(x, params, activation="sigmoid")
    np.testing.assert_allclose(got, x @ w_up.T @ w_down.T, rtol=0, atol=1e-13)


def test_empty_batch(rng):
    (_, p), _, _ = plain()(rng)
    assert feed_forward(np.ones((0, 2, 3)), p).shape == (0, 2, 3)
    dx, dparams = feed_forward_vjp(np.ones((0, 3)), np.ones((0, 3)), p)
    assert dx.shape == (0, 3)
    assert not np.any(dparams.w1)


def test_plain_tuples_are_fine(rng):
    (x, p), _, _ = plain()(rng)
    np.testing.assert_array_equal(feed_forward(x, tuple(p)), feed_forward(x, p))


class TestErrors:
    @pytest.mark.parametrize("bad", [[], (1, 2), None, np.ones(3)])
    def test_structure(self, bad):
        with pytest.raises(
            TypeError, match=r"'params' must be FeedForwardParams\(w1, b1, w2, b2\)"
        ):
            feed_forward([1.0], bad)

    @pytest.mark.parametrize("b1", [np.zeros(5), None])
    def test_a_forgotten_bias_is_named(self, rng, b1):
        (x, p), _, _ = plain()(rng)
        with pytest.raises(
            TypeError,
            match=r"^Argument 'params' must be FeedForwardParams\(w1, b1, w2, b2\), here b2 is "
            r"missing \(None leaves it out\); a gated network of three matrices is "
            r"GatedFeedForwardParams\(w_gate, w_up, w_down\)\.$",
        ):
            feed_forward(x, (p.w1, b1, p.w2))
        with pytest.raises(TypeError, match=r"^Argument 'params' must be .*, here b2 is missing"):
            feed_forward_vjp(x, x, (p.w1, b1, p.w2))
        with pytest.raises(TypeError, match=r"^Argument 'primals.params' .*, here b2 is missing"):
            feed_forward_jvp((x, (p.w1, b1, p.w2)), (x, None))

    def test_unknown_activation(self, rng):
        (x, p), _, _ = plain()(rng)
        with pytest.raises(ValueError, match=r"'activation' must be 'identity', .* not 'step'"):
            feed_forward(x, p, activation="step")

    @pytest.mark.parametrize("name", ["w1", "b1", "w2", "b2"])
    def test_shape_names_the_parameter(self, rng, name):
        (x, p), _, _ = plain()(rng)
        with pytest.raises(ValueError, match=rf"'params.{name}' must have shape"):
            feed_forward(x, p._replace(**{name: np.ones((2,) * np.ndim(getattr(p, name)))}))

    def test_a_missing_array_names_the_parameter(self, rng):
        (x, p), _, _ = plain()(rng)
        for wrong, words in ((None, "None"), ((1.0,), "a tuple of 1")):
            with pytest.raises(TypeError, match=rf"'params.w1' must be an array, not {words}\."):
                feed_forward(x, p._replace(w1=wrong))
        with pytest.raises(TypeError, match=r"'params.b1' must be an array, not a tuple of 1\."):
            feed_forward(x, p._replace(b1=(1.0,)))

    def test_gated_shape(self, rng):
        (x, p), _, _ = gated()(rng)
        with pytest.raises(ValueError, match=r"'params.w_up' must have shape \(5, 3\)"):
            gated_feed_forward(x, p._replace(w_up=np.ones((4, 3))))

    def test_tangents(self, rng):
        (x, p), _, _ = plain(biases=False)(rng)
        with pytest.raises(ValueError, match=r"'tangents.params.b1' must be None, as its primal"):
            feed_forward_jvp((x, p), (None, (None, np.ones(5), None, None)))
        with pytest.raises(ValueError, match=r"'tangents.params' must be a tuple of 4, not"):
            feed_forward_jvp((x, p), (None, (None,)))
        with pytest.raises(ValueError, match=r"'tangents.x' must have shape .*, not \(0,\)"):
            feed_forward_jvp((x, p), ((), None))
        with pytest.raises(ValueError, match=r"'tangents.params.w1' must be an array, not a tuple"):
            feed_forward_jvp((x, p), (None, ((1.0,), None, None, None)))
        with pytest.raises(TypeError, match=r"'primals' must be a tuple of 2 entries, not ndarray"):
            feed_forward_jvp(x, (None, None))
        with pytest.raises(ValueError, match=r"'tangents' must be a tuple of 2 entries, not of 1"):
            feed_forward_jvp((x, p), (None,))

"""Tests of dlref.check._inputs."""

import numpy as np
import pytest

from dlref import activations, attention, check, losses, neurons, normalization, positions
from dlref.neurons import linear


def test_random_inputs_are_valid(rng):
    log_p, q = check.random_inputs(losses.kl_divergence, [(4, 5)] * 2, np.float64, rng)
    np.testing.assert_allclose([np.exp(log_p).sum(-1), q.sum(-1)], 1, rtol=1e-14)
    assert q.min() > 0
    _, classes = check.random_inputs(losses.cross_entropy, [(4, 5), (4,)], np.float32, rng)
    assert classes.dtype.kind == "i"
    assert 0 <= classes.min() <= classes.max() < 5
    _, cos, sin = check.random_inputs(
        positions.apply_rope, [(3, 8), (3, 4), (3, 4)], np.float64, rng
    )
    np.testing.assert_allclose(cos**2 + sin**2, 1, rtol=1e-14)
    slopes = check.random_inputs(positions.alibi_bias, [(4,), 3, 5], np.float64, rng)[0]
    assert slopes.min() > 0
    _, signs = check.random_inputs(losses.hinge, [(9,), (9,)], np.float64, rng)
    np.testing.assert_array_equal(abs(signs), 1)
    x, groups, w, b = check.random_inputs(
        normalization.group_norm, [(2, 4, 6), 3, (6,), None], np.float32, rng
    )
    assert (x.shape, groups, w.dtype, b) == ((2, 4, 6), 3, np.float32, None)
    assert check.random_inputs(np.abs, [(2,)], np.float32, rng)[0].shape == (2,)
    assert check.random_inputs(_Unsigned(), [(2,)], np.float32, rng)[0].shape == (2,)


class _Unsigned:
    """A function without a signature."""

    __signature__ = "none"

    def __call__(self, x):
        return x


def test_errors(rng):
    with pytest.raises(TypeError, match=r"^Argument 'dtype' must be"):
        check.random_inputs(activations.relu, [(2,)], "U1", rng)
    with pytest.raises(TypeError, match=r"^Argument 'rng'"):
        check.random_inputs(activations.relu, [(2,)], np.float32, None)
    with pytest.raises(ValueError, match=r"^Argument"):
        check.random_inputs(neurons.linear, [(4, 3), (2, 5)], np.float32, rng)
    with pytest.raises(TypeError, match=r"^Argument 'op' must be a function whose inputs are"):
        check.hard_inputs(attention.additive_attention, np.float32)
    with pytest.raises(TypeError, match=r"^Argument 'dtype'"):
        check.hard_inputs(activations.relu, "U1")


OPS = [
    *(getattr(activations, n) for n in ("gelu", "softmax", "logsumexp", "swiglu", "prelu")),
    *(getattr(losses, n) for n in ("cross_entropy", "nll", "huber", "kl_divergence")),
    *(getattr(normalization, n) for n in ("layer_norm", "rms_norm", "batch_norm", "group_norm")),
    neurons.linear,
    positions.apply_rope,
    attention.scaled_dot_product_attention,
    attention.attention_weights,
]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_hard_inputs_are_valid_and_of_their_dtype(op, dtype):
    names = []
    for name, inputs, options in check.hard_inputs(op, dtype):
        names.append(name)
        assert inputs[0].dtype == dtype
        out = op(*inputs, **options)
        assert not np.isnan(out.astype(np.float64)).any()
    assert len(names) == len(set(names)) > 0


def test_hard_inputs_hold_what_kernels_break_at():
    cases = {c.name: c for c in check.hard_inputs(attention.scaled_dot_product_attention, "f4")}
    assert not cases["a row that sees no key"].options["mask"][2].any()
    assert cases["a cache before the queries"].options["q_offset"] == 4
    assert cases["one key"].inputs[1].shape[-2] == 1
    q, k, _ = cases["grouped heads"].inputs
    assert q.shape[1] == 2 * k.shape[1]
    cases = {c.name: c for c in check.hard_inputs(neurons.linear, "f4")}
    assert not cases["memory with gaps"].inputs[0].flags.c_contiguous


def test_rounding_the_inputs_costs_about_as_much_as_a_good_kernel():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(200, 64)), rng.normal(size=(50, 64))
    near_x, near_w = (a.astype(np.float16).astype(float) for a in (x, w))
    exact = linear(near_x, near_w)
    of_inputs = np.sqrt(np.mean((linear(x, w) - exact) ** 2))
    of_kernel = np.sqrt(np.mean((exact.astype(np.float16) - exact) ** 2))
    assert 0.5 < of_inputs / of_kernel < 3

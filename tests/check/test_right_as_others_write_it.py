"""Right kernels as frameworks have them: constants, zeros that are rounded, dtypes, conventions."""

import functools

import ml_dtypes
import numpy as np
import peers
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses, neurons, positions, training
from dlref import normalization as norm
from dlref._core.pytree import tree_leaves

R = np.random.default_rng(61)

# Constants have no gradient, whatever a candidate returns for them.


def rotated(x, cos, sin, *scale, interleaved=True):
    """Rotate pairs of neighbors or halves, by tables that need no gradient."""
    torch = peers.torch
    cos, sin = cos.detach(), sin.detach()
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    factor = scale[0].detach() if scale else 1
    parts = [factor * (a * cos - b * sin), factor * (a * sin + b * cos)]
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


@pytest.mark.parametrize("op", [positions.apply_rope, positions.apply_xpos])
def test_tables_are_constants_under_autograd(op):
    peers.torch  # noqa: B018 - skips where it is missing
    taken = {"options": ("interleaved",), "framework": "torch"}
    cases = [c for c in check.hard_inputs(op, "float32") if not c.options.keys() - {"interleaved"}]
    report = check.check_all(rotated, op, vjp="autograd", cases=cases, **taken)
    assert report, str(report)
    assert {row.form for row in report.rows} == {"forward", "vjp"}


def test_a_frozen_weight_has_no_gradient_in_torch():
    linear = peers.torch.nn.functional.linear

    def lora(x, w, a, b, bias=None, scale=1.0):
        return linear(x, w, bias) + scale * linear(linear(x, a), b)

    report = check.check_all(lora, neurons.lora_linear, vjp="autograd", framework="torch")
    assert report, str(report)


def test_a_mask_has_no_gradient_in_jax():
    pytest.importorskip("jax")
    kinds = {"vjp": "autograd", "framework": "jax"}
    assert check.check_all(lambda x, mask: x * mask, neurons.dropout, **kinds)
    wrong = check.check_all(lambda x, mask: x * mask * mask, neurons.dropout, **kinds)
    assert wrong.failed


@pytest.mark.parametrize("of_mask", [lambda u, x: u * x, lambda *_: None])
def test_a_gradient_of_a_mask_may_be_returned_or_be_none(of_mask):
    def vjp(u, x, mask):
        return u * mask, of_mask(u, x)

    assert check.check_all(None, neurons.dropout, vjp=vjp)
    assert not check.check_all(None, neurons.dropout, vjp=lambda *a: vjp(*a)[::-1])


def test_a_gradient_for_each_input_of_a_function_of_torch():
    def vjp(dout, x, w, a, b, bias=None, scale=1.0):
        dx, *others = neurons.lora_linear_vjp(dout, x, w, a, b, bias, scale=scale)
        return dx, None, *others

    assert check.check_all(None, neurons.lora_linear, vjp=vjp)


# Exact zeros are sums of terms that cancel.


def test_a_gradient_of_decays_by_running_sums():
    def vjp(dout, q, k, v, decay, beta, state):
        dq, dk, dv, _ = att.recurrent_linear_attention_vjp(dout, q, k, v, decay, beta, state)
        sums = np.cumsum((q * dq - k * dk)[::-1], axis=0)[::-1]
        return dq, dk, dv, sums if decay.shape == q.shape else sums.sum(-1, keepdims=True)

    q, k, v = (R.normal(size=(9, n)).astype(np.float32) for n in (4, 4, 3))
    for width in (1, 4):
        decay = -R.random((9, width)).astype(np.float32)
        dout = R.normal(size=v.shape).astype(np.float32), None
        given = dout, q, k, v, decay, None, None
        assert att.recurrent_linear_attention_vjp(*given)[3][0].tolist() == [0.0] * width
        verdict = check.check_vjp(vjp, att.recurrent_linear_attention, *given)
        assert verdict, str(verdict)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_norm_whose_gradient_is_zero_but_for_rounding(dtype):
    x, w = (R.normal(size=s).astype(dtype) for s in ((3, 5, 7), (7,)))
    dout = np.full_like(x, 0.75)

    def vjp(dout, x, w):
        """Add a quarter of a rounding of the terms, so that no element is an exact zero."""
        c = x - x.mean(1, keepdims=True)
        s = 1 / np.sqrt((c * c).mean(1, keepdims=True) + x.dtype.type(1e-5))
        y, g = c * s, dout * w
        dx = s * (g - g.mean(1, keepdims=True) - y * (g * y).mean(1, keepdims=True))
        return dx + np.finfo(dtype).eps / 4 * s * g, (dout * y).sum((0, 1))

    verdict = check.check_vjp(vjp, norm.instance_norm, dout, x, w)
    assert not [o for o in verdict.outputs if not (o.ok or o.inconclusive)], str(verdict)


def test_an_exact_zero_is_no_licence():
    """A row that no token looks up gets nothing, in particular not a part of another row."""
    table, ids = R.normal(size=(6, 4)), np.array([0, 2, 2])
    dout = R.normal(size=(3, 4))

    def leaking(dout, table, ids):
        grad = neurons.embedding_vjp(dout, table, ids)
        return grad + 1e-9 * np.roll(grad, 1, 0)

    assert not check.check_vjp(leaking, neurons.embedding, dout, table, ids)


# The dtype that was asked for.

OPTIMIZERS = (
    *(training.sgd_step, training.momentum_step, training.nesterov_step, training.adagrad_step),
    *(training.rmsprop_step, training.adam_step, training.adamw_step, training.lion_step),
)


@pytest.mark.parametrize("dtype", ["float32", "float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("op", [*OPTIMIZERS, training.muon_step], ids=lambda op: op.__name__)
def test_every_number_of_a_step_has_the_dtype_that_was_asked_for(op, dtype):
    for case in check.hard_inputs(op, dtype, every_option=True):
        kinds = {np.asarray(a).dtype for a in tree_leaves(case.inputs) if a is not None}
        assert {kind for kind in kinds if kind.kind not in "iu"} == {np.dtype(dtype)}, case.name


def test_a_momentum_step_in_float32_is_right():
    def step(p, g, state, *, learning_rate, momentum=0.9, **_):
        _, new = training.momentum_step(p, g, state, learning_rate=learning_rate, momentum=momentum)
        rate = np.float32(learning_rate)
        return training.tree_map(lambda a, v: a - rate * v, p, new.velocity), new

    report = check.check_all(step, training.momentum_step, options=("momentum",))
    assert report, str(report)


# Formulas and dtypes of others.


def test_linear_cross_entropy_by_logsumexp():
    def vjp(dout, x, w, target, b=None):
        z = x @ w.T + (0 if b is None else b)
        top = z.max(-1, keepdims=True)
        lse = top + np.log(np.exp(z - top).sum(-1, keepdims=True))
        dz = dout * (np.exp(z - lse) - np.eye(len(w), dtype=z.dtype)[target]) / z.dtype.type(len(z))
        return dz @ w, dz.T @ x, *(() if b is None else (dz.sum(0),))

    x, w, b = (R.normal(size=s).astype(np.float32) for s in ((6, 7), (5, 7), (5,)))
    target = np.arange(6) % 5
    given = np.float32(1.0), x, w, target, b + np.float32(1e4)
    verdict = check.check_vjp(vjp, losses.linear_cross_entropy, *given)
    assert verdict, str(verdict)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_float32_for_inputs_of_16_bits_is_right_with_a_note(dtype):
    x, w = (R.normal(size=s).astype(dtype) for s in ((5, 7), (3, 7)))

    def linear(x, w):
        return x.astype(np.float32) @ w.astype(np.float32).T

    verdict = check.check_forward(linear, neurons.linear, x, w)
    assert verdict
    assert f"it is float32, where dlref's is {np.dtype(dtype)}" in str(verdict)
    report = check.check_all(lambda x: np.maximum(x, 0).astype(np.float32), act.relu, dtype=dtype)
    assert report
    assert "it is float32" in str(report)
    doubled = check.check_forward(lambda x, w: 2 * linear(x, w), neurons.linear, x, w)
    assert not doubled
    assert "doubled" in doubled.cause
    assert not check.check_forward(lambda x, w: linear(x, w).astype(float), neurons.linear, x, w)


def test_a_slope_for_each_channel_in_torch():
    prelu = peers.torch.nn.functional.prelu

    def of_rows(x, slope):
        return prelu(x.reshape(-1, x.shape[-1]), slope).reshape(x.shape)

    report = check.check_all(of_rows, act.prelu, vjp="autograd", framework="torch")
    assert report, str(report)


def test_a_weight_that_is_demanded():
    """A case without a weight is not for a kernel that demands one."""

    def rms_norm(x, weight, eps=1e-6):
        rms = np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(eps))
        return x / rms * weight.astype(x.dtype)

    report = check.check_all(rms_norm, norm.rms_norm)
    assert report, str(report)
    assert report.unsupported
    assert all("weight is None" in case for case in report.unsupported)
    assert "cases not supported" in str(report)


# Conventions are named as such.


def test_the_slope_of_a_clip_at_its_ends_is_a_convention():
    report = check.check_all(
        None, act.hard_tanh, vjp=lambda u, x: np.where(abs(x) <= 1, u, 0).astype(x.dtype)
    )
    assert report.causes
    assert all("is a convention" in cause for cause in report.causes), report.causes


@pytest.mark.parametrize("form", ["forward", "vjp"])
def test_a_z_loss_that_weights_do_not_divide_is_a_convention(form):
    x, weight = R.normal(size=(6, 5)), np.linspace(0.5, 2.0, 5)
    target = np.array([0, 1, 2, -100, 4, 0])
    options = {"weight": weight, "z_loss": 0.25}
    f = losses.cross_entropy if form == "forward" else losses.cross_entropy_vjp

    def liger(*inputs, weight, z_loss):
        rest = (f(*inputs, z_loss=z) for z in (z_loss, 0.0))
        return f(*inputs, weight=weight) + functools.reduce(np.subtract, rest)

    given = (x, target) if form == "forward" else (1.0, x, target)
    judge = check.check_forward if form == "forward" else check.check_vjp
    verdict = judge(liger, losses.cross_entropy, *given, **options)
    assert not verdict
    assert verdict.cause.startswith("a convention: the z-loss")

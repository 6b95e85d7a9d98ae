"""A cause is a changed program that leads to all results of a kernel, in all cases."""

import ast
import contextlib
import importlib
import inspect

import numpy as np
import pytest
from scipy.special import ndtr

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses, neurons, training, transformer
from dlref import normalization as norm
from dlref.check._oracle.calls import ReferenceCall
from dlref.check._oracle.causes import is_settled, same_cause
from dlref.formulas import transformer as blocks
from dlref.formulas.activations import softmax

programs = importlib.import_module("dlref.check._oracle.causes.programs")
mutations = importlib.import_module("dlref.check._oracle.causes.mutations")
formula_of, mutants = mutations.formula_of, mutations.mutants

R = np.random.default_rng(12)
X, U = R.normal(size=(2, 5, 7))
SDPA = att.scaled_dot_product_attention


def layer_norm_vjp(u, x, weight=None, bias=None, *, eps=1e-5, slip="x"):
    tau = np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(eps))
    x_hat = (x - x.mean(-1, keepdims=True)) / tau
    g = u if weight is None else u * weight
    along = (g * (x if slip == "x" else u)).mean(-1, keepdims=True)
    grads = [(g - g.mean(-1, keepdims=True) - x_hat * along) / tau]
    rows = (u * x_hat).reshape(-1, x.shape[-1]), u.reshape(-1, x.shape[-1])
    grads += [a.sum(0) for a, p in zip(rows, (weight, bias), strict=True) if p is not None]
    return tuple(grads) if len(grads) > 1 else grads[0]


def attention(q, k, v, *, scale=None, block=64, cut=False):
    """Read the keys in blocks, padded with zeros that the softmax counts, or without the last."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    count = k.shape[-2]
    if cut and count > block:
        k, v = (a[..., : count // block * block, :] for a in (k, v))
    elif not cut:
        more = [(0, 0)] * (k.ndim - 2) + [(0, -count % block), (0, 0)]
        k, v = np.pad(k, more), np.pad(v, more)
    return (softmax(q @ np.swapaxes(k, -1, -2) * q.dtype.type(scale)) @ v).astype(q.dtype)


def softmax_vjp(u, x, axis=-1):
    p = act.softmax(x, axis=axis)
    return p * (u - (u * p).mean(axis, keepdims=True))


def online_logsumexp(x, axis=-1, block=32):
    """Add up blocks whose earlier sums keep an older maximum."""
    x = np.moveaxis(x, axis, -1)
    most, total = np.full(x.shape[:-1], -np.inf, x.dtype), np.zeros(x.shape[:-1], x.dtype)
    for i in range(0, x.shape[-1], block):
        part = x[..., i : i + block]
        most = np.maximum(most, part.max(-1))
        total = total + np.exp(part - most[..., None]).sum(-1)
    return most + np.log(total)


def gelu_vjp(u, x):
    density = np.exp(-x * x) / np.sqrt(2 * np.pi)
    return (u * (ndtr(x) + x * density)).astype(x.dtype)


def momentum_after(p, g, state, *, learning_rate, momentum=0.9):
    """Move by the velocity of the step before."""
    old = tuple(np.zeros_like(a) for a in p) if state is None else state
    new = tuple(momentum * v + a for v, a in zip(old, g, strict=True))
    return tuple(a - learning_rate * v for a, v in zip(p, old, strict=True)), new


@pytest.mark.parametrize(
    ("op", "form", "wrong", "message"),
    [
        (norm.layer_norm, "vjp", layer_norm_vjp, "x stands where x_hat is due"),
        (
            act.softmax,
            "vjp",
            softmax_vjp,
            "mean(s * dout, axis=axis) stands where sum(s * dout, axis=axis) is due",
        ),
        (act.gelu, "vjp", gelu_vjp, "-x ** 2 stands where -x ** 2 / 2 is due, in normal_density"),
        (
            SDPA,
            "forward",
            attention,
            "axis -2 of k is padded to a multiple of 64, and the padding is counted",
        ),
        (
            SDPA,
            "forward",
            lambda *a, **options: attention(*a, **options, cut=True),
            "axis -2 of k is cut to a multiple of 64: the last block is left out",
        ),
        (
            act.logsumexp,
            "forward",
            online_logsumexp,
            "the sum so far is not rescaled where a later block of 32 has a larger maximum",
        ),
        (
            SDPA,
            "forward",
            lambda q, k, v, *, scale=None: SDPA(q, k[..., ::-1, :], v, scale=scale),
            "the order of k along axis -2 is reversed",
        ),
        (
            neurons.lora_linear,
            "forward",
            lambda x, w, a, b, bias=None, scale=1.0: neurons.lora_linear(
                x, w, a, b, bias, scale=scale * len(a)
            ),
            "scale * low.shape[-1] stands where scale is due",
        ),
        (
            act.silu,
            "vjp",
            lambda u, x: u * (1 + np.exp(-x) + x * np.exp(-x) / (1 + np.exp(-x)) ** 2),
            "1 + e + beta * x * e / (1 + e) ** 2 stands where",
        ),
        (
            act.log_softmax,
            "vjp",
            lambda u, x: u + act.softmax(x),
            "dout + softmax(x, axis=axis) * sum(dout, axis=axis) stands where",
        ),
    ],
)
def test_one_program_leads_to_all_results(op, form, wrong, message):
    known = inspect.signature(op).parameters
    options = [name for name in ("eps", "axis", "scale") if name in known]
    given = (None, wrong) if form == "vjp" else (wrong, None)
    report = check.check_all(given[0], op, vjp=given[1], options=options)
    assert not report
    assert next(iter(report.causes)).startswith(message)
    assert len(report.causes) <= 2


@pytest.mark.parametrize("what", ["the sum so far", "the average so far", "neither the sum nor"])
def test_an_online_softmax_that_is_not_rescaled(what):
    """Attention in blocks of 16 keys, whose sum or average keeps an older maximum, or both."""
    of_sum, of_average = ("neither" in what or word in what for word in ("the sum", "average"))

    def wrong(q, k, v, *, scale=None):
        s = (
            q
            @ np.swapaxes(k, -1, -2)
            * q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
        )
        most = np.full((*s.shape[:-1], 1), -np.inf, s.dtype)
        total = out = 0
        for i in range(0, s.shape[-1], 16):
            part = s[..., i : i + 16]
            old, most = most, np.maximum(most, part.max(-1, keepdims=True))
            e, by = np.exp(part - most), np.exp(old - most)
            total = (1 if of_sum else by) * total + e.sum(-1, keepdims=True)
            out = (1 if of_average else by) * out + e @ v[..., i : i + 16, :]
        return (out / total).astype(q.dtype)

    report = check.check_all(wrong, SDPA, options=["scale"])
    assert not report
    assert f"{what} " in report._summary()
    assert "rescaled where a later block of 16" in report._summary()


def test_a_scores_sink_has_no_online_softmax():
    online = importlib.import_module("dlref.check._oracle.causes.online")
    _, others = next(online.not_rescaled(16))
    f = others[importlib.import_module("dlref.formulas.attention").weights_and_lse]
    p, lse = f(X)
    np.testing.assert_allclose(p * np.exp(lse)[..., None], np.exp(X))
    with pytest.raises(NotImplementedError):
        f(X, 0.0)


@pytest.mark.broad
def test_a_program_has_to_lead_to_all_results():
    """Of three cases, two have one slip and the third has another: no cause is better than one."""
    count = iter(range(99))

    def two(u, x, weight=None, bias=None, *, eps=1e-5):
        slip = "x" if next(count) % 3 else "u"
        return layer_norm_vjp(u, x, weight, bias, eps=eps, slip=slip)

    report = check.check_all(None, norm.layer_norm, vjp=two)
    assert not report
    assert not report.causes


def test_a_cause_that_other_numbers_refute_is_dropped():
    """The first case's ratio is right for that case alone."""
    first = []

    def wrong(x, axis=-1):
        first[:] = first or [np.exp(x).sum()]
        return act.softmax(x, axis=axis) * np.exp(x).sum()

    case = [check.TestCase("some", (X,), {})]
    verdict = check.check_forward(wrong, act.softmax, X)
    assert verdict.cause == f"it is the exact result times {first[0]:.6g}"
    assert check.check_all(wrong, act.softmax, cases=case, options=()).causes == {}


def test_a_cause_that_other_numbers_do_not_show_is_kept():
    def wrong(u, x):
        return u * (x >= 0)

    case = [check.TestCase("a zero", (np.array([0.0, 1.0, 2.0, -1.0, 3.0]),), {})]
    (cause,) = check.check_all(None, act.relu, vjp=wrong, cases=case).causes
    assert cause.startswith("only where x is 0")


def test_a_cause_that_right_cases_refute_makes_room_for_the_next():
    """With no rows, the sum is 0 as well; where there are rows, it is the mean."""
    none, some = np.full(3, -100), np.array([0, 2, -100])

    def wrong(x, target):
        return losses.cross_entropy(x, target) if (target >= 0).any() else np.float64(0)

    x = X[:3]
    assert check.check_forward(wrong, losses.cross_entropy, x, none).cause.startswith("reduction")
    cases = [check.TestCase(str(t), (x, t), {}) for t in (none, some)]
    (cause,) = check.check_all(wrong, losses.cross_entropy, cases=cases, options=()).causes
    assert cause == "it is 0 where the exact result is infinite or NaN: a special case"


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda p, g: (p, tuple(a + 0.5 * b for a, b in zip(g, p, strict=True)), 0.0, 1.0),
         "the weight decay is added to the gradient, not taken from the parameters"),
        (lambda p, g: (p, g, 0.5, 0.95), "the weight decay is applied twice"),
    ],
)  # fmt: skip
def test_decay(change, cause):
    def wrong(p, g, state, *, learning_rate, weight_decay):
        p, g, decay, factor = change(p, g)
        p, state = training.lion_step(p, g, state, learning_rate=0.1, weight_decay=decay)
        return tuple(factor * a for a in p), state

    p, g = (X, U[0, 0]), (U, X[0, 0])
    options = {"learning_rate": 0.1, "weight_decay": 0.5}
    cases = [check.TestCase(str(n), (p[:n], g[:n], None), options) for n in (1, 2)]
    report = check.check_all(wrong, training.lion_step, cases=cases)
    assert next(iter(report.causes)) == cause


def test_steps_in_another_order():
    """The velocity is updated after the step, not before."""

    def wrong(p, g, state, *, learning_rate, momentum=0.9):
        one = isinstance(p, np.ndarray)
        new = momentum_after(
            (p,) if one else p, (g,) if one else g,
            None if state is None else ((state,) if one else state),
            learning_rate=learning_rate, momentum=momentum,
        )  # fmt: skip
        return (new[0][0], new[1][0]) if one else new

    call = ReferenceCall(training.momentum_step, "forward", (X, U, None), {"learning_rate": 0.1})
    messages = {p.message for p in programs.programs(formula_of(call), call)}
    assert any("comes after" in message or "is left out" in message for message in messages)


def test_all_kinds_of_changes_are_tried():
    call = ReferenceCall(SDPA, "vjp", (U, X, U, X), {"is_causal": True})
    messages = [p.message for p in programs.programs(formula_of(call), call)]
    assert len(messages) > 300
    for words in (
        "is rounded to bfloat16", "is rounded to float16", "is left out", "comes after",
        "is never taken", "is always taken", "stands where", ", in weights_and_lse",
    ):  # fmt: skip
        assert any(words in message for message in messages), words


def test_a_changed_program_does_not_write_to_what_formulas_share():
    """Without dict() around BLOCK_OPTIONS, it would be updated: all later verdicts were wrong."""
    before = dict(blocks.BLOCK_OPTIONS)

    def without_copy(node):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict":
            yield node.args[0]

    refused = [due for _, due, f in mutants(blocks.encoder_block, without_copy) if not run(f)]
    assert "dict(BLOCK_OPTIONS)" in refused
    assert before == blocks.BLOCK_OPTIONS


def run(f):
    """Return whether a formula of a block can be computed."""
    x, params = next(check.hard_inputs(transformer.encoder_block, "float64")).inputs
    with contextlib.suppress(AttributeError, TypeError, KeyError):
        f(x, params, num_heads=2)
        return True
    return False


def test_variables_of_one_shape_are_exchanged():
    call = ReferenceCall(norm.rms_norm, "vjp", (U, X, X[0]), {})
    messages = {p.message for p in programs.programs(formula_of(call), call)}
    assert any(m.startswith("x stands where dout is due") for m in messages)
    assert not any(m.startswith("weight stands where dout is due") for m in messages)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("eps is 1e-05 or 0.001, not 1e-06", "eps is 0.001, not 7.5e-07", True),
        ("eps is 1e-05, not 1e-06", "eps is 0.001, not 1e-06", False),
        ("it is the exact result times 1.41421", "it is the exact result times 1.41402", True),
        ("it is the exact result times 36.99", "it is the exact result times 31.2", False),
        ("it is halved", "it is halved", True),
        ("it is halved", "", False),
    ],
)
def test_causes_that_are_one(left, right, same):
    assert same_cause(left, right) is same


@pytest.mark.parametrize(
    ("causes", "settled"),
    [
        ({"it is halved"}, True),
        ({"it is halved", ""}, False),
        (
            {"it is halved", "it is halved; or divided by the option 'scale', 2, once too often"},
            True,
        ),
        ({"eps is 1e-05 or 0.001, not 1e-06", "eps is 0.001, not 1e-06"}, True),
        ({"it is the exact result times 36.99"}, False),
        ({"the errors are noise, of some size"}, False),
    ],
)
def test_a_cause_that_all_cases_share_is_settled(causes, settled):
    assert is_settled(causes) is settled

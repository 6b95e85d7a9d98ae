"""
Kernels of engineers who have not seen the explanations.

The wrong ones had no cause or a false one, the right ones were called wrong.
"""

import dataclasses
import functools

import numpy as np
import pytest
from scipy.special import expit

import dlref
from dlref import activations as act
from dlref import attention as att
from dlref import check, convolution, losses, neurons, positions, recurrent, training
from dlref import normalization as norm
from dlref.check._candidates import Verdict
from dlref.check._reports import CheckRow, _Call, _without_chance
from dlref.formulas.activations import softmax

R = np.random.default_rng(96)
SDPA = att.scaled_dot_product_attention
X, W, B, U = (R.normal(size=s) for s in ((6, 8), (8, 8), (8,), (6, 8)))
Q, K, V = (R.normal(size=s) for s in ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)))
MATRIX, RATE = R.normal(size=(3, 4)), {"learning_rate": 0.1}
GRU = tuple(R.normal(size=s) / 2 for s in ((2, 5, 3), (2, 4), (12, 3), (12, 4), (12,), (12,)))
LSTM = tuple(
    R.normal(size=s) / 2 for s in ((2, 5, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,))
)


def t(a):
    return np.swapaxes(a, -1, -2)


def row(a):
    return a.mean(-1, keepdims=True)


def layer_norm_vjp(u, x, w, b, slip):
    d = x - row(x)
    s = 1 / np.sqrt(row(d * d) + 1e-5)
    y, g = d * s, u * w
    through = {
        "mean": row(u) + y * row(g * y),
        "variance": row(g) + d * row(g * d),
        "deviation": row(g) + y * row(g * d),
        "weight": row(g) + y * row(u * y),
    }
    dx = s * (g - through.get(slip, row(g) + y * row(g * y)))
    dw = (u * {"x": x, "w": y * w}.get(slip, y)).sum(0)
    return (dx * s if slip == "twice" else dx), dw, (g if slip == "bias" else u).sum(0)


def gru(x, h, w, v, b, c, *, slip):
    out = []
    for step in np.moveaxis(x, -2, 0):
        (r, z, n), (rh, zh, nh) = (np.split(a, 3, -1) for a in (step @ w.T + b, h @ v.T))
        cr, cz, cn = np.split(c, 3)
        r, z = expit(r + rh + cr), expit(z + zh + cz)
        n = np.tanh(n + nh + cn if slip == "no reset" else n + r * nh + cn)
        h = (1 - z) * n + z * h
        out.append(h)
    return np.stack(out, -2)


def lstm_coupled(x, h, c, w, v, b, d):
    out = []
    for step in np.moveaxis(x, -2, 0):
        i, _, g, o = np.split(step @ w.T + h @ v.T + b + d, 4, -1)
        i, o = expit(i), expit(o)
        c = (1 - i) * c + i * np.tanh(g)
        h = o * np.tanh(c)
        out.append((h, c))
    return tuple(np.stack(a, -2) for a in zip(*out, strict=True))


def attend(q, k, v, *, scores=lambda s: s, seen=True, kept=1.0, again=False):
    p = softmax(np.where(seen, scores(q @ t(k) * q.shape[-1] ** -0.5), -np.inf)) * kept
    return (p / p.sum(-1, keepdims=True) if again else p) @ v


def momentum(p, g, state, *, learning_rate, momentum=0.9, slip):
    v = 0.0 if state is None else state.velocity
    step = state.step + 1 if state else 1
    v = momentum * v + {"mean": 1 - momentum, "rate": learning_rate}[slip] * g
    moved = p - v if slip == "rate" else p - learning_rate * v
    return moved, training.MomentumState(step, v)


def muon_of_sums(p, g, state, *, learning_rate):
    m = g if state is None else 0.95 * state.mean + g
    o = training.newton_schulz(g + 0.95 * m)
    moved = (1 - 0.1 * learning_rate) * p - learning_rate * o
    return moved, training.MuonState(1 if state is None else state.step + 1, m)


def newton_schulz(x):
    return training.newton_schulz(x / (np.sqrt((x * x).sum()) + 1e-7), eps=1.0)


SLOPE = {"learning_rate": 0.05}
SECOND = training.muon_step(MATRIX, MATRIX[::-1], None, **RATE)[1]
STATE = training.momentum_step(MATRIX, MATRIX[::-1], None, **RATE)[1]
DROPOUT = 1.25 * (R.random((5, 7)) < 0.8)
WINDOW = {"window": (2, 1), "q_offset": 2}
NEAR = np.abs(np.arange(7) - np.arange(5)[:, None] + 0.5) < 2
CAPPED = {"softcap": 2.0}
# op, candidate, inputs, options, words of the cause
FORWARD = [
    (act.geglu, lambda x, g: x * act.gelu(g, approximate="tanh"), (X, U), {}, "GELU of the gate"),
    (act.relu6, lambda x: act.relu6(x) * (x < 3), (3 * X,), {}, "wrong elements are all zero"),
    (neurons.mlp, lambda x, p, activation: np.maximum(neurons.mlp(x, p), 0),
     (X, ((W, B), (W.T, B))), {"activation": "relu"}, "as after a ReLU"),
    (act.logsumexp, lambda x: act.logsumexp(x) - np.log(8), (X,), {},
     "less the logarithm of axis 1 of x (8)"),
    (act.tanh, lambda x: np.tanh(x) + 0.25, (X,), {}, "the exact result plus 0.25"),
    (act.softplus, lambda x, beta: np.logaddexp(0, beta * x), (X,), {"beta": 0.75},
     "multiplied by the option 'beta', 0.75"),
    (positions.timestep_embedding, lambda x, dim: positions.timestep_embedding(x, dim, shift=1.0),
     (100 * B, 6), {}, "shift is 1.0, not 0.0"),
    (norm.layer_norm, lambda x: (x - row(x)) / np.sqrt(np.maximum(x.var(-1, keepdims=True), 1e-5)),
     (0.003 * X,), {}, "maximum(var, eps) stands"),
    (training.newton_schulz, newton_schulz, (1e-4 * MATRIX,), {}, "norm + eps stands"),
    (training.momentum_step, functools.partial(momentum, slip="mean"), (MATRIX, W[:3, :4], STATE),
     SLOPE, "the factor 1 - momentum"),
    (training.momentum_step, functools.partial(momentum, slip="rate"), (MATRIX, W[:3, :4], None),
     SLOPE, "the velocity is the step"),
    (training.muon_step, muon_of_sums, (MATRIX, W[:3, :4], SECOND), SLOPE,
     "lacks the factor 1 - momentum"),
    (training.lion_step, functools.partial(training.lion_step, betas=(0.99, 0.9)),
     (MATRIX, W[:3, :4], None), SLOPE, "betas is (0.99, 0.9), not (0.9, 0.99)"),
    (SDPA, lambda q, k, v, dropout: attend(q, k, v, kept=dropout != 0), (Q, K, V),
     {"dropout": DROPOUT}, "are not divided by 1 - rate"),
    (SDPA, lambda q, k, v, dropout: attend(q, k, v, kept=dropout, again=True), (Q, K, V),
     {"dropout": DROPOUT}, "normalized again after dropout"),
    (SDPA, lambda q, k, v: att.scaled_dot_product_attention(q, k, v, scale=6**-0.5), (Q, K, V), {},
     "the width of the values"),
    (SDPA, lambda q, k, v, window, q_offset: attend(q, k, v, seen=NEAR), (Q, K, V), WINDOW,
     "the window does not heed q_offset"),
    (SDPA, lambda q, k, v, softcap: attend(q, k, v, scores=lambda s: np.clip(s, -2, 2)), (Q, K, V),
     CAPPED, "the soft cap is a hard one"),
    (SDPA, lambda q, k, v, softcap: attend(q, k, v, scores=lambda s: np.tanh(s / 2)), (Q, K, V),
     CAPPED, "lacks its factor outside of the tanh"),
    (recurrent.gru, functools.partial(gru, slip="no reset"), GRU, {}, "m stands where r * m"),
    (recurrent.gru, functools.partial(gru, slip="bias"), GRU, {}, "b_hn, is not multiplied"),
    (recurrent.lstm, lstm_coupled, LSTM, {}, "1 - i stands where f is due"),
    (norm.batch_norm_inference, lambda x, m, v: (x - m) / (v + 1e-5), (X, B, W[0] ** 2), {},
     "stands where sqrt("),
    (act.leaky_relu, lambda x: np.where(x < 0, x, 0.01 * x), (X,), {}, "x < 0 stands where x > 0"),
]  # fmt: skip
NORM = (U, X, B, W[0])
# the same with dout before the inputs
BACKWARD = [
    *((norm.layer_norm, functools.partial(layer_norm_vjp, slip=slip), NORM, {}, message)
      for slip, message in (
          ("mean", "dout stands where g is due, in mean_g"),
          ("variance", "lacks the factor 1 / variance"),
          ("deviation", "(g - mean_g) / tau - x_hat * along stands"),
          ("weight", "dout stands where g is due, in along"),
          ("x", "x stands where x_hat is due"),
          ("w", "dout * x_hat * weight stands"),
          ("twice", "var + eps stands where tau is due"),
          ("bias", "of the bias is multiplied by the weight"),
      )),
    (act.gumbel_softmax, lambda u, x, n, hard: (0 * x, 0 * x), (U, X, W[:6], ), {"hard": True},
     "it is zero"),
    (act.hard_swish, lambda u, x: u * np.where(abs(x) < 3, x / 3, x > 0), (U, X), {},
     "x / 3 stands where"),
    (convolution.mean_pool, lambda u, x, size: 4 * convolution.mean_pool_vjp(u, x, size=size),
     (R.normal(size=(2, 3, 3)), np.where(np.arange(6) < 4, R.normal(size=(2, 6, 6)), 0)),
     {"size": (2, 2)}, "multiplied by the option 'size'"),
    (norm.rms_norm, lambda u, x, w: (norm.rms_norm_vjp(u, x, w)[0], (u * x).sum(0)), (U, X, B), {},
     "x stands where x_hat is due"),
]  # fmt: skip


def ids(rows):
    return [f"{row[0].__name__}-{row[-1]}" for row in rows]


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.broad] * (row[0] is recurrent.lstm)) for row in FORWARD],
    ids=ids(FORWARD),
)
def test_a_wrong_kernel_is_named(row):
    op, candidate, inputs, options, message = row
    verdict = check.check_forward(candidate, op, *inputs, **options)
    assert not verdict
    assert message in verdict.cause, verdict.cause


@pytest.mark.parametrize("row", BACKWARD, ids=ids(BACKWARD))
def test_a_wrong_gradient_is_named(row):
    op, candidate, inputs, options, message = row
    verdict = check.check_vjp(candidate, op, *inputs, **options)
    assert not verdict
    assert message in verdict.cause, verdict.cause


def changed(out):
    """Return outputs with another number in each place."""
    if isinstance(out, tuple):
        return tuple(map(changed, out))
    return out + np.cos(1.0 + np.arange(np.size(out))).reshape(np.shape(out)) ** 3


@pytest.mark.parametrize(
    ("op", "form", "given"),
    [
        (act.geglu, "vjp", (U, X, U)),
        # minutes, in which thousands of programs of a loop are tried
        pytest.param(recurrent.gru, "forward", GRU[:4], marks=pytest.mark.broad),
        pytest.param(
            *(recurrent.gru, "vjp", (GRU[0][..., :1] * np.ones(4), *GRU)), marks=pytest.mark.broad
        ),
        pytest.param(
            *(recurrent.lstm, "vjp", ((LSTM[0][..., :1] * np.ones(4),) * 2, *LSTM)),
            marks=pytest.mark.broad,
        ),
        (norm.layer_norm, "vjp", (U, X, B)),
        (act.tanh, "jvp", (X, U)),
    ],
)
def test_an_unknown_mistake_has_no_cause(op, form, given):
    suffix = "" if form == "forward" else f"_{form}"
    right = getattr(getattr(dlref, op.__module__.split(".")[1]), op.__name__ + suffix)
    judge = getattr(check, f"check_{form}")
    assert judge(lambda *args: changed(right(*args)), op, *given).cause == ""


@pytest.mark.broad
def test_a_linear_map_has_no_kinks():
    """A gradient that is wrong where x is 0 by chance has another cause."""
    u, x = R.normal(size=(2, 3, 3)), np.where(np.arange(6) < 2, 0.0, R.normal(size=(2, 6, 6)))

    def twice_at_the_end(u, x, size):
        return convolution.mean_pool_vjp(u, x, size=size) * np.where(x == 0, 2.0, 1.0)

    verdict = check.check_vjp(twice_at_the_end, convolution.mean_pool, u, x, size=(2, 2))
    assert not verdict
    assert "kink" not in verdict.cause


def test_gates_times_another_input_are_no_noise():
    """The approximate GELU errs by a wave, which an input of random signs hides."""
    x, gate = R.normal(size=(2, 40, 64))

    def wavy(x, gate):
        return x * (act.gelu(gate) + 3e-4 * np.sin(4 * gate))

    assert "noise" not in check.check_forward(wavy, act.geglu, x, gate).cause


def test_noise_in_some_cases_only_is_chance():
    """Weights of merged parts that are all alike are right but for noise if the parts are."""

    def averaged(out, lse, axis=0):
        return out.mean(axis), att.merge_attention(out, lse, axis=axis)[1]

    report = check.check_all(averaged, att.merge_attention)
    assert not report
    assert not any("noise" in cause for cause in report.causes)


def test_noise_is_a_cause_where_most_cases_show_it():
    def rounded(x, weight):
        return (x.astype("f2") @ weight.astype("f2").T.astype("f4")).astype("f4")

    report = check.check_all(rounded, neurons.linear, shapes=[[(40, 32), (33, 32)]])
    assert report.causes
    assert all("all inputs are rounded to" in c and "float16" in c for c in report.causes)

    output = check.check_forward(rounded, neurons.linear, np.float32(W), np.float32(W)).outputs[0]

    def rows(*causes):
        some = [
            dataclasses.replace(output, ok=False, size=n, cause=c)
            for n, c in enumerate(causes, start=20)
        ]
        return [CheckRow("vjp", "", Verdict(False, (part,), part.cause)) for part in some]

    noise = "the errors are noise, of the size that ..."

    def kept(*causes):
        calls = [_Call(20, 1, frozenset())] * len(causes)
        return [r.verdict.cause for r in _without_chance(rows(*causes), calls)]

    assert kept(noise, "", "") == [noise, "", ""]
    assert kept("", "", "", noise) == ["", "", "", ""]
    last = _without_chance(rows("", "", "", noise), [_Call(20, 1, frozenset())] * 4)[3]
    assert "noise" not in last.verdict.message


def test_a_gradient_too_many_is_named():
    x, w, a, b = (R.normal(size=s) for s in ((5, 7), (6, 7), (2, 7), (6, 2)))
    given = R.normal(size=(5, 6)), x, w, a, b
    verdict = check.check_vjp(lambda *_: (x, w, a, b, b), neurons.lora_linear, *given)
    assert verdict.message.endswith("dlref has 3: gradient of x, gradient of a, gradient of b")
    two = check.check_forward(lambda x: (x, x), act.tanh, X)
    assert two.message == "the candidate has 2 outputs, where dlref has 1"


def test_a_kernel_without_an_option_that_every_case_has():
    with pytest.raises(ValueError, match="must take an option that each case has, of 'activation'"):
        check.check_all(lambda x, params: x, neurons.mlp)


# Right ones.


def forgetting(log_forget, q_offset=0):
    """Subtract sums from the first gate on, as implementations do."""
    z = np.cumsum(log_forget, -1)
    out = z[..., q_offset:, None] - z[..., None, :]
    return np.where(np.tri(*out.shape[-2:], q_offset, dtype=bool), out, out.dtype.type(0))


def cope(q, scores, table):
    p = np.cumsum(expit(scores)[..., ::-1], -1)[..., ::-1]
    p = np.minimum(p, len(table) - 1)
    n, z = np.floor(p).astype(int), q @ table.T
    low, high = (np.take_along_axis(z, np.minimum(n + i, len(table) - 1), -1) for i in (0, 1))
    return ((n + 1 - p) * low + (p - n) * high).astype(q.dtype)


def batch_norm_vjp(u, x, w=None, b=None, eps=1e-5):
    rows, g = (a.reshape(-1, x.shape[-1]) for a in (x, u))
    s = 1 / np.sqrt(rows.var(0) + x.dtype.type(eps))
    y, d = (rows - rows.mean(0)) * s, g if w is None else g * w
    dx = (s * (d - d.mean(0) - y * (d * y).mean(0))).reshape(x.shape)
    grads = [a for a, given in (((g * y).sum(0), w), (g.sum(0), b)) if given is not None]
    return (dx, *grads) if grads else dx


@pytest.mark.parametrize(
    ("op", "candidate", "vjp"),
    [
        (att.forgetting_bias, forgetting, None),
        (positions.cope, cope, None),
        (norm.batch_norm, None, batch_norm_vjp),
    ],
)  # fmt: skip
def test_a_right_kernel_is_right(op, candidate, vjp):
    report = check.check_all(candidate, op, vjp=vjp)
    assert report, str(report)


def test_a_factor_of_one_number_in_all_places_is_no_added_one():
    x = np.full(8, 2.0)
    verdict = check.check_forward(lambda x: 1.37 * x, act.relu, x)
    assert not verdict
    assert "plus" not in verdict.cause


def test_dropout_without_a_factor_may_still_be_normalized_again():
    kept = np.add.outer(np.arange(5), np.arange(7)) % 3 > 0

    def again(q, k, v, *, dropout):
        p = softmax(q @ t(k) * 8**-0.5) * dropout
        return p / p.sum(-1, keepdims=True) @ v

    verdict = check.check_forward(again, SDPA, Q, K, V, dropout=kept.astype(float))
    assert verdict.cause == "the weights are normalized again after dropout"


def test_a_momentum_of_one_has_no_sum_of_gradients():
    def other(p, g, state, **options):
        new, state = training.muon_step(p, g, state, **options)
        return new + 0.37, state

    kwargs = {"momentum": 1.0, **RATE}
    verdict = check.check_forward(other, training.muon_step, MATRIX, MATRIX, None, **kwargs)
    assert not verdict
    assert "momentum" not in verdict.cause


def test_a_candidate_that_lacks_what_each_case_has_is_told_so():
    cases = [check.TestCase("columns", (X,), {"axis": 0})]
    with pytest.raises(ValueError, match="must take an option that each case has, of 'axis'"):
        check.check_all(lambda x: softmax(x, axis=-1), act.softmax, cases=cases)


def test_a_map_that_refuses_some_numbers_is_asked_about_its_kinks():
    r = np.array([0.5, 1.5, 2.5, 1.0])
    dout = np.ones((4, 3, 3))
    right = positions.kerple_bias_vjp(dout, r, r, T=3, S=3)

    def other(*_, **__):
        return right[0], right[1] + np.array([0.0, 0.0, 1.0, 0.0])

    assert not check.check_vjp(other, positions.kerple_bias, dout, r, r, T=3, S=3)


def test_options_of_a_partial_leave_no_case_with_others():
    cases, rows = (
        [check.TestCase("columns", (X,), {"axis": 0})],
        functools.partial(act.softmax, axis=1),
    )
    with pytest.raises(ValueError, match="'op' must be a function that takes one of the cases"):
        check.check_all(softmax, rows, cases=cases)


def z_loss_by_count(logits, target, weight=None, ignore_index=-100, z_loss=0.0, reduction="mean"):
    """A cross-entropy whose z-loss is averaged over the targets, whatever their weights are."""
    if target.ndim == logits.ndim or reduction == "none":
        raise NotImplementedError
    x = logits.astype("f4")
    weights = {} if weight is None else {"weight": weight.astype("f4")}
    loss = losses.cross_entropy(
        x, target, ignore_index=ignore_index, reduction=reduction, **weights
    )
    kept = act.logsumexp(x)[target != ignore_index]
    z = z_loss * (kept**2).sum() / (max(kept.size, 1) if reduction == "mean" else 1)
    return (loss + z).astype(logits.dtype)


def test_sums_in_16_bits_are_no_cause_where_sums_as_long_are_right():
    """Liger's cross-entropy on a GPU was called wrong for the sums that it does not have."""
    report = check.check_all(z_loss_by_count, losses.cross_entropy, dtype="float16")
    assert not report
    assert not any("sums in" in cause for cause in report.causes)


@pytest.mark.parametrize(
    ("size", "words"), [(1, "not written (a tail, a tile, a row)"), (300, "divided by an overflow")]
)
def test_zeros_after_an_overflow_may_be_written(size, words):
    """Liger's group norm on a GPU, whose squares overflow in float16, writes zeros."""
    x = (size * R.normal(size=(7, 9))).astype("f2")
    lost = (2, 3, 5), (1, 8, 0)

    def with_zeros(x):
        y = act.silu(x)
        y[lost] = 0
        return y

    cause = check.check_forward(with_zeros, act.silu, x).cause
    assert cause.startswith("the wrong elements are all zero")
    assert cause.endswith(words)


def test_noise_between_two_formats_names_both():
    def cut(x, weight):
        exact = x.astype("f8") @ weight.T
        off = np.random.default_rng(0).normal(0.0, 2.0**-10.5, exact.shape)
        return (exact * (1 + off)).astype(x.dtype)

    x, w = (R.normal(size=(30, 30)).astype("f4") for _ in range(2))
    cause = check.check_forward(cut, neurons.linear, x, w).cause
    assert cause.endswith("of the size that sums or inputs in TF32 or bfloat16 leave")

"""Mistakes that are a line of a step, a schedule, a table or a sequence: each is named."""

import functools

import numpy as np
import pytest

from dlref import (
    activations,
    attention,
    check,
    losses,
    neurons,
    positions,
    recurrent,
    training,
    transformer,
)
from dlref import normalization as norm
from dlref._records import spec_of

R = np.random.default_rng(21)
TREE = R.normal(size=(3, 4)), (R.normal(size=3), R.normal(size=()))
GRADS = R.normal(size=(3, 4)), (R.normal(size=3), R.normal(size=()))
SMALLER = tuple(g / 8 if isinstance(g, np.ndarray) else tuple(a / 8 for a in g) for g in GRADS)


def each(f, *trees):
    """Apply a function to the arrays of nested tuples."""
    if isinstance(trees[0], tuple):
        return tuple(each(f, *parts) for parts in zip(*trees, strict=True))
    return f(*trees)


def rmsprop(p, g, state, *, learning_rate, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0,
            centered=False):  # fmt: skip
    """RMSprop of TensorFlow, with eps inside the root."""
    _, new = training.rmsprop_step(
        p, g, state, learning_rate=learning_rate, alpha=alpha, eps=eps, weight_decay=weight_decay,
        momentum=momentum, centered=centered,
    )  # fmt: skip
    var = each(lambda s, m: s - m * m, new.square, new.mean) if centered else new.square
    d = each(lambda p, g, v: (g + weight_decay * p) / np.sqrt(v + eps), p, g, var)
    if momentum:
        d = each(lambda d, v: d + momentum * v, d, state.velocity) if state else d
        new = new._replace(velocity=d)
    return each(lambda p, d: p - learning_rate * d, p, d), new


def adagrad(p, g, state, *, learning_rate, eps=1e-10):
    _, new = training.adagrad_step(p, g, state, learning_rate=learning_rate, eps=eps)
    step = each(lambda p, g, s: p - learning_rate * g / np.sqrt(s + eps), p, g, new.total)
    return step, new


def amsgrad(p, g, state, *, learning_rate, amsgrad, betas=(0.9, 0.999), eps=1e-8):
    """AMSGrad that keeps the largest of the corrected means."""
    _, new = training.adam_step(p, g, state, learning_rate=learning_rate, amsgrad=True, betas=betas)
    b, c = (1 - beta**new.step for beta in betas)
    most = each(lambda v: v / c, new.square)
    if state is not None:
        most = each(np.maximum, most, state.largest)
    moved = each(lambda p, m, v: p - learning_rate * m / b / (v**0.5 + eps), p, new.mean, most)
    return moved, new._replace(largest=most)


def dampened(p, g, state, *, learning_rate, momentum, dampening):
    v = each(lambda g: (1 - dampening) * g, g)
    right = training.momentum_step(p, g, state, learning_rate=learning_rate, momentum=momentum)[1]
    return each(lambda p, v: p - learning_rate * v, p, v), right._replace(velocity=v)


def second(step, **options):
    """Return the inputs of a second step."""
    return TREE, SMALLER, step(TREE, GRADS, None, **options)[1]


def grown(v):
    return v * np.linspace(1.0, 3.0, v.size).reshape(v.shape)


RATE = {"learning_rate": 0.1}
CENTERED = {**RATE, "eps": 0.1, "centered": True, "momentum": 0.5, "weight_decay": 0.25}
AMSGRAD = {**RATE, "amsgrad": True, "betas": (0.5, 0.75)}
DAMPENED = {**RATE, "momentum": 0.5, "dampening": 0.5}
LARGE = second(training.adam_step, **AMSGRAD)
LARGE = *LARGE[:2], LARGE[2]._replace(largest=each(grown, LARGE[2].largest))
STEPS = np.arange(9)
LOGITS = R.normal(size=(4, 11))
TABLE, IDS = R.normal(size=(6, 4)), np.array([[0, 3, 3], [5, 0, 3]])
DOUT = R.normal(size=(2, 3, 4))
X, VAR = R.normal(size=(6, 3)), np.full(3, 0.5)
LSTM = [R.normal(size=s) / 2 for s in ((2, 5, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,))]
CELL = [LSTM[0][:, 0], *LSTM[1:]]
RNN = [R.normal(size=s) / 2 for s in ((2, 5, 3), (2, 4), (4, 3), (4, 4), (4,), (4,))]
W_P, LENGTHS = R.normal(size=12), np.array([5, 2])
ROWS_OF_LOGITS, CLASSES = R.normal(size=(5, 7)), np.array([0, -100, 3, 6, -100])
QKV = [R.normal(size=s) for s in ((2, 5, 8), (2, 39, 8), (2, 39, 6))]
LONG = R.normal(size=(3, 70))
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}


def nucleus(logits, top_p, *, keep):
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    order = np.argsort(-p, -1)
    rows = np.take_along_axis(p, order, -1)
    kept = keep(np.cumsum(rows, -1), rows, top_p)
    kept[:, 0] = True
    out = np.zeros_like(p)
    np.put_along_axis(out, order, rows * kept, -1)
    return out


def shared(out):
    return out / out.sum(-1, keepdims=True)


def rows_of(u, table, ids, padding_id=None, scale=1.0, *, first=False):
    out = np.zeros_like(table)
    every = [*zip(ids.ravel(), u.reshape(-1, 4), strict=True)]
    for i, row in every[::-1] if first else every:
        out[i] = scale * row
    if padding_id is not None:
        out[padding_id] = 0
    return out


def lstm_sees_the_old_cell(x, h, c, w_ih, w_hh, b_ih, b_hh, *, w_p):
    """The equations of the page, with the old cell in the output gate."""
    p_i, p_f, p_o = np.split(w_p, 3)
    out = []
    for step in np.moveaxis(x, -2, 0) if x.ndim == 3 else [x]:
        i, f, g, o = np.split(step @ w_ih.T + h @ w_hh.T + b_ih + b_hh, 4, -1)
        i, f, o = (1 / (1 + np.exp(-a)) for a in (i + p_i * c, f + p_f * c, o + p_o * c))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        out.append((h, c))
    h, c = (np.stack(a, -2) for a in zip(*out, strict=True))
    return (h, c) if x.ndim == 3 else (h[..., 0, :], c[..., 0, :])


def held(f, *inputs, lengths):
    """Hold the state, as a loop does that skips the steps beyond the end."""
    out = f(*inputs, lengths=lengths)
    outs = out if isinstance(out, tuple) else (out,)
    for a in outs:
        for row, n in enumerate(lengths):
            a[row, n:] = a[row, n - 1]
    return out


def detached(f, vjp, u, x, *inputs, every, states=1):
    """Differentiate chunk by chunk, with states that are constants at each beginning."""
    outs = f(x, *inputs)
    outs, douts = (a if isinstance(a, tuple) else (a,) for a in (outs, u))
    grads = []
    for start in range(0, x.shape[1], every):
        piece = slice(start, start + every)
        state = [a[:, start - 1] for a in outs] if start else inputs[:states]
        dout = tuple(a[:, piece] for a in douts)
        grads.append(vjp(dout if states > 1 else dout[0], x[:, piece], *state, *inputs[states:]))
    dx, *rest = zip(*grads, strict=True)
    firsts = [g[0] for g in rest[:states]]
    return np.concatenate(dx, 1), *firsts, *(sum(g) for g in rest[states:])


def biased(x, mean, var, *, momentum=0.1):
    y, new, _ = norm.batch_norm_train(x, mean, var, momentum=momentum)
    return y, new, (1 - momentum) * var + momentum * x.var(0)


def unbiased(x, mean, var, weight=1.0, bias=0.0):
    y = (x - x.mean(0)) / np.sqrt(x.var(0, ddof=1) + 1e-5) * weight + bias
    return y, *norm.batch_norm_train(x, mean, var)[1:]


def smoothed(x, c, label_smoothing, reduction="mean"):
    """Count the smoothed labels of all rows, and take a mean of each part."""
    p = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    hard = -np.log(p)[np.arange(len(c)), np.maximum(c, 0)] * (c >= 0)
    soft = -np.log(p).mean(-1)
    if reduction == "mean":
        hard, soft = hard.sum() / (c >= 0).sum(), soft.mean()
    out = (1 - label_smoothing) * hard + label_smoothing * soft
    return out.sum() if reduction == "sum" else out


def online(q, k, v, *, which, is_causal=False, q_offset=0, tile=16):
    """Go through tiles of keys, and rescale the average or the sum only."""
    most = np.full((*q.shape[:-1], 1), -np.inf)
    total, out = np.zeros_like(most), np.zeros((*q.shape[:-1], v.shape[-1]))
    for i in range(0, k.shape[-2], tile):
        s = q @ np.swapaxes(k[..., i : i + tile, :], -1, -2) * q.shape[-1] ** -0.5
        if is_causal:
            seen = np.arange(i, i + s.shape[-1]) <= np.arange(q.shape[-2])[:, None] + q_offset
            s = np.where(seen, s, -np.inf)
        larger = np.maximum(most, s.max(-1, keepdims=True))
        e, factor = np.exp(s - larger), np.exp(most - larger)
        total = total * (1 if which == "sum" else factor) + e.sum(-1, keepdims=True)
        out = out * (1 if which == "average" else factor) + e @ v[..., i : i + tile, :]
        most = larger
    return out / total


def tailless(x, *, of, tile=64):
    some = x[:, : x.shape[-1] // tile * tile]
    if of == "square":
        return x / np.sqrt((some**2).mean(-1, keepdims=True) + 1e-6)
    c = x - x.mean(-1, keepdims=True)
    square = (c[:, : some.shape[-1]] ** 2).sum(-1, keepdims=True)
    return c / np.sqrt(square / x.shape[-1] + 1e-5)


def reversed_ramp(dim, *, base=1e4, scaling):
    plain = positions.rope_frequencies(dim, base=base)
    shares = positions.rope_frequencies(dim, base=base, scaling=scaling) / plain
    gamma = (1 - shares) / (1 - 1 / scaling["factor"])
    return plain * (gamma + (1 - gamma) / scaling["factor"])


def changed_scaling(dim, *, scaling, **changes):
    return positions.rope_frequencies(dim, scaling={**scaling, **changes})


def by_turns(dim, *, scaling):
    """The ramp of Llama 3 with the ends of YaRN."""
    plain = positions.rope_frequencies(dim)
    turns = scaling["original_max_position_embeddings"] * plain / (2 * np.pi)
    kept = np.clip((turns - 1) / 31, 0, 1)
    return plain * ((1 - kept) / scaling["factor"] + kept)


def not_scaled(dim, **_):
    return positions.rope_frequencies(dim)


ADAM, MOMENTUM, NESTEROV = training.adam_step, training.momentum_step, training.nesterov_step
RMS, P = training.rmsprop_step, transformer.next_token_probabilities
FREQUENCIES, BUCKET = positions.rope_frequencies, positions.t5_relative_position_bucket
SDPA = attention.scaled_dot_product_attention
LSTM_F, RNN_F = recurrent.lstm, recurrent.rnn
ROWS = {
    "rmsprop, first": (RMS, rmsprop, (TREE, GRADS, None), CENTERED, "sqrt(s + eps) stands"),
    "rmsprop, second": (RMS, rmsprop, second(RMS, **CENTERED), CENTERED, "sqrt(s + eps) stands"),
    "rmsprop, plain": (RMS, rmsprop, (TREE, GRADS, None), RATE | {"eps": 0.1}, "sqrt(s + eps)"),
    "adagrad": (training.adagrad_step, adagrad, (TREE, GRADS, None), RATE | {"eps": 0.1},
                "sqrt(s + eps) stands"),
    "AMSGrad": (ADAM, amsgrad, LARGE, AMSGRAD,
                "corrected before their maximum is taken"),
    "AMSGrad, first": (ADAM, amsgrad, (TREE, GRADS, None), AMSGRAD, "corrected before their max"),
    "nesterov": (NESTEROV, MOMENTUM, second(NESTEROV, **RATE), RATE, "without Nesterov's"),
    "momentum": (MOMENTUM, NESTEROV, second(MOMENTUM, **RATE), RATE, "it looks ahead"),
    "dampening": (MOMENTUM, dampened, (TREE, GRADS, None), DAMPENED, "share * g) stands where"),
    "warm-up ahead": (training.warmup_schedule,
                      lambda t, **o: training.warmup_schedule(t + 1, **o), (STEPS,),
                      {"peak": 1.0, "warmup": 4}, "a step ahead"),
    "cosine behind": (training.cosine_schedule,
                      lambda t, **o: training.cosine_schedule(np.maximum(t - 1, 0), **o), (STEPS,),
                      {"peak": 1.0, "steps": 8, "warmup": 3}, "a step behind"),
    "top-p": (P, lambda x, top_p: shared(nucleus(x, top_p, keep=lambda c, p, m: c <= m)),
              (LOGITS,), {"top_p": 0.6}, "cumsum(falling, axis=-1) stands where"),
    "top-p, more": (P, lambda x, top_p: shared(nucleus(x, top_p, keep=lambda c, p, m: np.roll(
        c - p, 1, -1) < m)), (LOGITS,), {"top_p": 0.6}, "a token beyond the mass"),
    "top-p, a sum": (P, lambda x, top_p: nucleus(x, top_p, keep=lambda c, p, m: c - p < m),
                     (LOGITS,), {"top_p": 0.6}, "not divided by their sum"),
    "old cell": (recurrent.lstm_cell, lstm_sees_the_old_cell, CELL, {"w_p": W_P},
                 "comes after o = sigmoid(z_o + p_o * c)"),
    "old cells": (LSTM_F, lstm_sees_the_old_cell, LSTM, {"w_p": W_P}, "comes after o = sigmoid("),
    "held": (LSTM_F, functools.partial(held, LSTM_F), LSTM, {"lengths": LENGTHS}, "state is held"),
    "held, rnn": (RNN_F, functools.partial(held, RNN_F), RNN, {"lengths": LENGTHS}, "is held"),
    "no first state": (RNN_F, lambda x, h, *w: RNN_F(x, None, *w), RNN, {}, "h0 is ignored"),
    "biased": (norm.batch_norm_train, biased, (X, VAR, VAR), {"momentum": 0.25},
               "M stands where M - 1 is due"),
    "unbiased": (norm.batch_norm_train, unbiased, (X, VAR, VAR), {},
                 "the sum is divided by n - 1, not n"),
    "unbiased, weights": (norm.batch_norm_train, unbiased,
                          (X, VAR, VAR, X[0], X[1]), {}, "the sum is divided by n - 1, not n"),
    "smoothing, each mean": (losses.cross_entropy, smoothed, (ROWS_OF_LOGITS, CLASSES),
                             {"label_smoothing": 0.2}, "smoothed labels of rows that are ignored"),
    "smoothing, a sum": (losses.cross_entropy, smoothed, (ROWS_OF_LOGITS, CLASSES),
                         {"label_smoothing": 0.2, "reduction": "sum"}, "smoothed labels of rows"),
    "smoothing of each": (losses.cross_entropy, smoothed, (ROWS_OF_LOGITS, CLASSES),
                          {"label_smoothing": 0.2, "reduction": "none"}, "smoothed labels of rows"),
    "online, the sum": (SDPA, functools.partial(online, which="sum"), QKV, {},
                        "the sum so far is not rescaled where a later block of 16 has"),
    "online, the average": (SDPA, functools.partial(online, which="average"), QKV,
                            {"is_causal": True, "q_offset": 34},
                            "the average so far is not rescaled where a later block of 16 has"),
    "the tail of a row": (norm.layer_norm, functools.partial(tailless, of="variance"), (LONG,), {},
                          "the last numbers of a row, 6 beyond a multiple of 64, are left out of"),
    "the tail of a square": (norm.rms_norm, functools.partial(tailless, of="square"), (LONG,), {},
                             "are left out of its variance, and not counted"),
    "ramp": (FREQUENCIES, reversed_ramp, (64,), {"scaling": YARN}, "the ramp goes the other way"),
    "ends": (FREQUENCIES, functools.partial(changed_scaling, truncate=False), (64,),
             {"scaling": YARN}, "the ends of the ramp are not rounded"),
    "turns": (FREQUENCIES, by_turns, (64,), {"scaling": YARN}, "linear in the number of turns"),
    "all": (FREQUENCIES, functools.partial(changed_scaling, type="linear"), (64,),
            {"scaling": {"type": "ntk", "factor": 4.0}}, "as by the type 'linear'"),
    "none": (FREQUENCIES, not_scaled, (64,), {"scaling": YARN}, "'scaling' is ignored"),
    "sign": (BUCKET, lambda d: BUCKET(-d), (np.arange(-9, 9),), {}, "its sign is reversed"),
    "sign of a bias": (positions.t5_bias, lambda table, T, S: table[BUCKET(
        np.arange(T)[:, None] - np.arange(S))].transpose(2, 0, 1), (R.normal(size=(32, 2)),),
        {"T": 5, "S": 7}, "its sign is reversed"),
    "slopes": (positions.alibi_slopes, lambda n: 2.0 ** (-8 * np.arange(1, n + 1) / n), (12,), {},
               "rule is paper"),
}  # fmt: skip
BACKWARD = {
    "last row": (neurons.embedding, rows_of, (DOUT, TABLE, IDS), {"padding_id": 3, "scale": 0.5},
                 "not added: the last one is left"),
    "first row": (positions.learned_positions, functools.partial(rows_of, first=True),
                  (DOUT, TABLE, IDS), {}, "not added: the first one is left"),
    "detached": (RNN_F, functools.partial(detached, RNN_F, recurrent.rnn_vjp, every=2),
                 (R.normal(size=(2, 5, 4)), *RNN), {}, "ends every 2 steps"),
    "detached, lstm": (LSTM_F, functools.partial(
        detached, LSTM_F, recurrent.lstm_vjp, every=1, states=2),
        (tuple(R.normal(size=(2, 2, 5, 4))), *LSTM), {}, "ends every 1 step, where"),
    "truncated": (RNN_F, functools.partial(recurrent.rnn_vjp, truncate=2),
                  (R.normal(size=(2, 5, 4)), *RNN), {}, "goes back 2 steps only"),
}  # fmt: skip


@pytest.mark.parametrize("what", ROWS)
def test_a_line_of_a_step_is_named(what):
    op, wrong, inputs, options, message = ROWS[what]
    assert check.check_forward(op, op, *inputs, **options)
    verdict = check.check_forward(wrong, op, *inputs, **options)
    assert not verdict
    assert message in verdict.cause, str(verdict)


@pytest.mark.parametrize("what", BACKWARD)
def test_a_line_of_a_backward_pass_is_named(what):
    op, wrong, inputs, options, message = BACKWARD[what]
    verdict = check.check_vjp(wrong, op, *inputs, **options)
    assert not verdict
    assert message in verdict.cause, str(verdict)


def contiguous(a):
    """Read memory from the first number on, as a kernel does that is not told of strides."""
    strides = tuple(a.itemsize * int(np.prod(a.shape[i + 1 :])) for i in range(a.ndim))
    return np.lib.stride_tricks.as_strided(a, a.shape, strides)


def test_strides_that_are_ignored():
    x, w = R.normal(size=(2, 7, 7))
    wrong = lambda x, w: neurons.linear(contiguous(x), contiguous(w))  # noqa: E731
    for layout in (np.asfortranarray, lambda a: np.repeat(a, 2, 1)[:, ::2]):
        verdict = check.check_forward(wrong, neurons.linear, layout(x), layout(w))
        assert "the strides of x and weight are ignored" in verdict.cause
        verdict = check.check_forward(wrong, neurons.linear, x, layout(w))
        assert "the strides of weight are ignored" in verdict.cause
    kernel = lambda u, x: u * np.cosh(contiguous(x)) ** -2.0  # noqa: E731
    verdict = check.check_vjp(kernel, activations.tanh, w, x.T)
    assert "the strides of x are ignored" in verdict.cause
    behind = x[::-1, ::-1]  # what follows its first number is other memory
    assert "strides" not in check.check_forward(np.sin, activations.tanh, behind).cause


def with_noise(f):
    """Add noise to each result of a function."""

    def noisy(*args, **options):
        out = f(*args, **options)
        return each(lambda a: np.asarray(a) + R.normal(size=np.shape(a)), out)

    return noisy


@pytest.mark.broad  # thousands of programs of a loop are tried
def test_mistakes_that_do_not_apply_to_sequences():
    for op, inputs, options in (
        (LSTM_F, [*LSTM[:1], None, None, *LSTM[3:]], {"w_p": W_P}),
        (LSTM_F, LSTM, {"w_p": W_P, "reverse": True}),
        (RNN_F, RNN, {"lengths": LENGTHS, "reverse": True}),
    ):
        assert check.check_forward(with_noise(op), op, *inputs, **options).cause == ""
    given = R.normal(size=(2, 5, 4)), *RNN
    off = with_noise(recurrent.rnn_vjp)
    assert check.check_vjp(off, RNN_F, *given, lengths=LENGTHS).cause == ""


LONGROPE = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4,
            "original_max_position_embeddings": 8}  # fmt: skip


def test_a_scaling_without_a_factor():
    """Nothing is claimed of what a mistake cannot be made in."""
    noisy = with_noise(FREQUENCIES)
    assert check.check_forward(noisy, FREQUENCIES, 8, scaling=LONGROPE, seq_len=9).cause == ""


@pytest.mark.broad  # every program is tried in vain, seven times
def test_mistakes_that_do_not_apply():
    for op, inputs, options in (
        (positions.t5_bias, (R.normal(size=(8, 2)),), {"T": 3, "S": 4, "bidirectional": False}),
        (P, (LOGITS,), {}),
        (FREQUENCIES, (64,), {}),
        (FREQUENCIES, (8,), {"scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}),
        (neurons.embedding, (TABLE, IDS), {}),
        (SDPA, QKV, {"sink": np.ones(2)}),
        (P, (LOGITS,), {"top_k": 1}),
    ):  # fmt: skip
        assert check.check_forward(with_noise(op), op, *inputs, **options).cause == ""
    assert spec_of(FREQUENCIES)[0].why_not

"""Programs with rarer changes, conditions and constants, and programs of one output of several."""

import ast
import importlib
import inspect
from dataclasses import replace

import numpy as np
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses, neurons, training, transformer
from dlref import convolution as conv
from dlref import normalization as norm
from dlref import recurrent as rec
from dlref.check._oracle.calls import ReferenceCall
from dlref.formulas import attention as formulas

causes = importlib.import_module("dlref.check._oracle.causes")
changes, evidence, programs, readings, search, slopes = (
    importlib.import_module(f"dlref.check._oracle.causes.{name}")
    for name in ("changes", "evidence", "programs", "readings", "search", "slopes")
)
usual = importlib.import_module("dlref.check._oracle.usual")
HELPERS = importlib.import_module("dlref.check._oracle.helpers").HELPERS
X = np.linspace(-2.0, 2.0, 12).reshape(3, 4)


def layer_norm_backward(u, x, weight=None, bias=None, *, eps=1e-5, slip=""):
    x_hat = norm.layer_norm(x, eps=eps)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(eps))
    g = u if weight is None else u * weight
    along = g * x_hat
    if slip == "block":
        along = np.where(np.arange(x.shape[-1]) < (x.shape[-1] - 1) // 32 * 32, 0, along)
    means = [g.mean(-1, keepdims=True), along.mean(-1, keepdims=True)]
    if slip == "rows":
        pairs = np.arange(means[0].size) // 2
        means = [np.bincount(pairs, m.ravel())[pairs].reshape(m.shape) for m in means]
    if slip == "constant":  # the deviation does not depend on x
        means[1] = 0
    dx = rstd * (g - means[0] - x_hat * means[1])
    rows = (u * x_hat).reshape(-1, x.shape[-1]), u.reshape(-1, x.shape[-1])
    grads = [a.sum(0) for a, p in zip(rows, (weight, bias), strict=True) if p is not None]
    if slip == "mean" and grads:
        grads[0] = grads[0] / len(rows[0])
    dx = dx.astype(x.dtype)
    return (dx, *grads) if grads else dx


def slipped(slip):
    return lambda u, x, weight=None, bias=None, *, eps=1e-5: layer_norm_backward(
        u, x, weight, bias, eps=eps, slip=slip
    )


def group_norm(x, groups, weight=None, bias=None, *, eps=1e-5):
    """Normalize all channels of an entry together."""
    axes = tuple(range(1, x.ndim))
    out = (x - x.mean(axes, keepdims=True)) / np.sqrt(
        x.var(axes, keepdims=True) + x.dtype.type(eps)
    )
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def smoothed(logits, target, *, label_smoothing=0.0):
    """Take the rest of the mass for the mass, where there is some."""
    other = 1 - label_smoothing
    if not label_smoothing:
        return losses.cross_entropy(logits, target)
    rows = np.arange(len(logits))
    q = np.full_like(logits, other / logits.shape[-1])
    q[rows, target] += 1 - label_smoothing
    return -(q * act.log_softmax(logits)).sum() / len(logits)


def each_alone(grads, max_norm):
    return tuple(training.clip_by_norm((g,), max_norm)[0] for g in grads)


def padded_scale(u, q, k, v):
    """Scale by the root of a width that is a power of two."""
    width = 1 << (q.shape[-1] - 1).bit_length()
    return att.scaled_dot_product_attention_vjp(u, q, k, v, scale=width**-0.5)


def whole_blocks(u, q, k, v):
    """The gradients of keys and values lack the queries after the last block of four."""
    dq, dk, dv = att.scaled_dot_product_attention_vjp(u, q, k, v)
    n = q.shape[-2] // 4 * 4
    _, dk, dv = att.scaled_dot_product_attention_vjp(u[..., :n, :], q[..., :n, :], k, v)
    return dq, dk, dv


def padded_variance(x, weight=None, bias=None, *, eps=1e-5):
    """Count zeros that pad a row to eight columns in the variance."""
    n, mean = x.shape[-1], x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).sum(-1, keepdims=True) + (-n % 8) * mean**2
    out = (x - mean) / np.sqrt(var / n + x.dtype.type(eps))
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias).astype(x.dtype)


def forgetful_scan(x, delta, a, b, c, d=None, state=None, *, delta_softplus=False):
    """Each chunk of eight steps begins with a state of 0."""
    parts = []
    for i in range(0, x.shape[-2], 8):
        some = (part[..., i : i + 8, :] for part in (x, delta))
        reads = (part[..., i : i + 8, :] for part in (b, c))
        options = {"delta_softplus": delta_softplus}
        y, last = rec.selective_scan(*some, a, *reads, d, None if i else state, **options)
        parts.append(y)
    return np.concatenate(parts, -2), last


def detached_norm(u, x, weight=None, *, eps=1e-5):
    """The root mean square counts as constant."""
    rms = np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(eps))
    if weight is None:
        return (u / rms).astype(x.dtype)
    dweight = (u * x / rms).reshape(-1, len(weight)).sum(0)
    return (u * weight / rms).astype(x.dtype), dweight


def scaled_conv(u, *inputs):
    return tuple(grad / u.shape[-1] for grad in conv.conv_vjp(u, *inputs))


SHAPES = [[(2, 11, 5), (2, 9, 5), (2, 9, 3)], [(7, 3), (5, 3), (5, 4)]]
SDPA = att.scaled_dot_product_attention


@pytest.mark.parametrize(
    ("op", "form", "wrong", "shapes", "message"),
    [
        pytest.param(
            norm.layer_norm, "vjp", slipped("block"), None,
            "mean(last_block(g * x_hat, 16, -1), axis=-1) stands where", marks=pytest.mark.broad,
        ),
        pytest.param(
            norm.layer_norm, "vjp", slipped("rows"), None,
            "sum_of_rows(mean(g, axis=-1), 2) stands where", marks=pytest.mark.broad,
        ),
        (
            norm.layer_norm, "vjp", slipped("mean"), None,
            "mean(dout * x_hat, axis=batch_axes(x_hat)) stands where",
        ),
        (
            norm.layer_norm, "forward", padded_variance, None,
            "mean((with_zeros(x, 8) - mu) ** 2, axis=-1) * padded(x.shape[-1], 8)",
        ),
        (norm.group_norm, "forward", group_norm, None, "axis=(-2, -1) stands where axis=-1 is due"),
        (
            losses.cross_entropy, "forward", smoothed, None,
            "1 - label_smoothing stands where label_smoothing is due, in q = w * (",
        ),
        (
            SDPA, "vjp", padded_scale, SHAPES,
            "padded(q.shape[-1], 0) stands where q.shape[-1] is due",
        ),
        (
            SDPA, "vjp", whole_blocks, SHAPES,
            "in output 1 (gradient of k) alone, whole_blocks(r.mT, 4, -1) @ q stands where",
        ),
        (rec.selective_scan, "forward", forgetful_scan, None, "h[-1] is 0 again after each 8"),
        (act.logsumexp, "forward", lambda x: act.logsumexp(abs(x)), None, "abs(x)"),
        (act.gelu, "forward", lambda x: act.gelu(act.gelu(x)), None, "the map is applied twice"),
        (act.gelu, "forward", lambda x: np.tanh(act.gelu(x)), None, "tanh(the result) is returned"),
        (
            conv.conv, "vjp", scaled_conv, None,
            "the result is divided by the size of axis -1 of dout",
        ),
    ],
)  # fmt: skip
def test_one_program_leads_to_all_results(op, form, wrong, shapes, message):
    known = inspect.signature(wrong).parameters
    names = "eps", "axis", "label_smoothing", "delta_softplus"
    options = [name for name in names if name in known]
    given = (None, wrong) if form == "vjp" else (wrong, None)
    report = check.check_all(given[0], op, vjp=given[1], options=options, shapes=shapes)
    assert not report
    assert next(iter(report.causes)).startswith(message)


def both_scaled(x, weight, a, b, bias=None, *, scale=1.0):
    """Scale the product with the weight, too."""
    out = scale * (x @ weight.T + x @ a.T @ b.T)
    return out if bias is None else out + bias


def of_last_sample(u, x, groups, weight=None, bias=None, *, eps=1e-5):
    """Keep the gradients of weight and bias of the last sample alone."""
    out = norm.group_norm_vjp(u, x, groups, weight, bias, eps=eps)
    if weight is None:
        return out
    _, *grads = norm.group_norm_vjp(u[-1:], x[-1:], groups, weight, bias, eps=eps)
    return out[0], *grads


def one_length(v, g, *, axis=0):
    """Divide all rows by the length of the whole matrix."""
    others = [i for i in range(v.ndim) if axis is None or i != axis % v.ndim]
    return v / np.sqrt((v * v).sum()) * np.expand_dims(g, others)


def bounded_scores(q, k, v, w, u, vec, *, mask=None):
    """Bound the scores before the softmax."""
    hidden = np.tanh((q @ w.T)[..., :, None, :] + (k @ u.T)[..., None, :, :])
    s = np.tanh(hidden @ vec)
    return act.softmax(s if mask is None else np.where(mask, s, -np.inf)) @ v


def unscaled_products(u, x, weight=None, bias=None, *, eps=1e-5):
    """Multiply dout by the difference from the mean in the gradient of the weight."""
    out = norm.layer_norm_vjp(u, x, weight, bias, eps=eps)
    if weight is None:
        return out
    rows = (u * (x - x.mean(-1, keepdims=True))).reshape(-1, x.shape[-1])
    return out[0], rows.sum(0), *out[2:]


def over_queries(u, q, k, v):
    """Sum over the queries, not the keys, in the derivative of the softmax."""
    p, w = act.softmax(q @ k.mT * q.shape[-1] ** -0.5), u @ v.mT
    d = p * (w - np.sum(p * w, axis=-2, keepdims=True)) * q.shape[-1] ** -0.5
    return d @ k, d.mT @ q, p.mT @ u


def squared_distances(anchor, positive, negative, *, margin=1.0, p=2.0, eps=1e-6, swap=False,
                      reduction="mean"):  # fmt: skip
    """Forget the root: a large distance takes the digits of the margin."""

    def powers(a, b):
        return (np.abs(a - b + a.dtype.type(eps)) ** p).sum(-1)

    far = powers(anchor, negative)
    far = np.minimum(far, powers(positive, negative)) if swap else far
    missing = np.maximum(powers(anchor, positive) - far + margin, 0)
    return {"mean": np.mean, "sum": np.sum, "none": np.copy}[reduction](missing)


def deviation_for_variance(mean, log_var, *, reduction="mean"):
    """Take the root of the variance for the variance."""
    terms = (mean**2 + np.exp(log_var / 2) - 1 - log_var).sum(-1) / 2
    return {"mean": np.mean, "sum": np.sum, "none": np.copy}[reduction](terms)


@pytest.mark.parametrize(
    ("op", "form", "wrong", "message"),
    [
        (neurons.lora_linear, "forward", both_scaled, "x @ weight.T * scale stands where"),
        (norm.group_norm, "vjp", of_last_sample, "sum(last_block(dout * x_hat, 1, 0), axis="),
        (norm.weight_norm, "forward", one_length, "sum(v * v, axis=None) stands where"),
        (att.additive_attention, "forward", bounded_scores, "tanh(hidden @ vec) stands where"),
        (losses.gaussian_kl, "forward", deviation_for_variance, "log_var / 2 stands where"),
        (norm.layer_norm, "vjp", unscaled_products, "x - mu stands where x_hat is due"),
        (SDPA, "vjp", over_queries, "sum(p * w, axis=-2) stands where sum(p * w, axis=-1) is"),
        (
            losses.triplet_margin_loss, "forward", squared_distances,
            "sum(absolute(v) ** p, axis=-1) stands where",
        ),
    ],
)  # fmt: skip
def test_a_function_or_a_factor_too_many(op, form, wrong, message):
    candidate, vjp = (wrong, None) if form == "forward" else (None, wrong)
    options = inspect.signature(wrong).parameters.keys() & {"scale"}  # few, so that it is quick
    report = check.check_all(candidate, op, vjp=vjp, options=options)
    assert not report
    assert message in next(iter(report.causes))


def weighted_probability(logits, target, *, gamma, weight):
    """Take the probability of the weighted cross-entropy, which the loss has as a factor."""
    rows = losses.cross_entropy(logits, target, weight=weight, reduction="none")
    return np.mean((-np.expm1(-rows)) ** gamma * rows)


def test_a_factor_of_a_variable(rng):
    cases = [
        check.TestCase(
            f"{n} rows",
            (rng.normal(size=(n, 4)), rng.integers(0, 4, n)),
            {"gamma": gamma, "weight": rng.uniform(0.5, 2, 4)},
        )
        for n, gamma in ((5, 2.0), (7, 1.0), (6, 3.0))
    ]
    op = losses.softmax_focal_loss
    report = check.check_all(weighted_probability, op, cases=cases, dtype="float64")
    assert len(report.failed) == 3
    assert all("b * w stands where b is due" in cause for cause in report.causes)


def recomputed_without_cap(dout, q, k, v, *, softcap=None):
    """Recompute the probabilities from scores without the cap, as their logarithms had it."""
    _, lse = SDPA(q, k, v, softcap=softcap, return_lse=True)
    s = q @ k.mT * q.shape[-1] ** -0.5
    p, w = np.exp(s - lse[..., None]), dout @ v.mT
    d = p * (w - np.sum(p * w, axis=-1, keepdims=True)) * q.shape[-1] ** -0.5
    d = d if softcap is None else d * (1 - np.tanh(s / softcap) ** 2)
    return d @ k, d.mT @ q, p.mT @ dout


def reset_outside(x, h, *weights, reset_after=True):
    """Multiply the product by the reset gate, and add the bias after that."""
    w_ih, w_hh, b_ih, b_hh = weights
    i, r = (neurons.linear(x, w_ih, b_ih), neurons.linear(h, w_hh, b_hh))
    (i_r, i_z, i_n), (h_r, h_z, _) = np.split(i, 3, -1), np.split(r, 3, -1)
    r, z = act.sigmoid(i_r + h_r), act.sigmoid(i_z + h_z)
    n = np.tanh(i_n + r * (h @ np.split(w_hh, 3)[2].T) + np.split(b_hh, 3)[2])
    return (1 - z) * n + z * h


def top_p_first(logits, *, temperature=1.0, top_k=None, top_p=None):
    """Keep the tokens of top_p among all, and only then the k likeliest."""
    inner = transformer.next_token_probabilities(logits, temperature=temperature, top_p=top_p)
    with np.errstate(divide="ignore"):
        return transformer.next_token_probabilities(np.log(inner), top_k=top_k)


def arguments_of(name):
    """Return two calls of each map: a map, the form, a candidate, the inputs and options."""
    rng = np.random.default_rng(3)
    if name == "cap":
        sizes = (5, 4), (7, 4), (7, 3)
        inputs = [tuple(map(rng.normal, [0.0] * 3, [1.0] * 3, sizes)) for _ in range(2)]
        return SDPA, "vjp", recomputed_without_cap, inputs, {"softcap": 0.7}
    if name == "reset":
        sizes = (3,), (4,), (12, 3), (12, 4), (12,), (12,)
        inputs = [tuple(map(rng.normal, [0.0] * 6, [1.0] * 6, sizes)) for _ in range(2)]
        return rec.gru_cell, "forward", reset_outside, inputs, {"reset_after": False}
    inputs = [(rng.normal(size=(4, 23)),) for _ in range(2)]
    return transformer.next_token_probabilities, "forward", top_p_first, inputs, {
        "top_k": 7, "top_p": 0.6,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cap", "softcap is not passed to recomputed_scores"),
        ("reset", "r * linear(h, w_hn) + b_hn stands where linear(r * h, w_hn, b_hn) is due"),
        (
            "top_p",
            "logits stands where z is due, in z = where(nucleus(softmax(z), top_p) == 0, -inf, z)",
        ),
    ],
)
def test_programs_in_the_spelling_of_kernels(name, message):
    op, form, wrong, inputs, options = arguments_of(name)
    cases = [check.TestCase(str(n), given, options) for n, given in enumerate(inputs)]
    given = (None, wrong) if form == "vjp" else (wrong, None)
    report = check.check_all(given[0], op, vjp=given[1], cases=cases, options=[*options])
    assert message in next(iter(report.causes))


@pytest.mark.parametrize(
    ("due", "others"),
    [
        ("linear(r * h, w, b)", ["plus(r * linear(h, w), b)", "plus(h * linear(r, w), b)"]),
        ("linear(r * h, w)", ["r * linear(h, w)", "h * linear(r, w)"]),
        ("linear(h, w, b)", []),
        ("(a * b) @ w", ["a * (b @ w)", "b * (a @ w)"]),
        ("a @ w", []),
        ("a * (b @ w)", ["a * b @ w"]),
        ("b @ w * a", ["a * b @ w"]),
    ],
)
def test_factors_inside_and_outside_of_products(due, others):
    node = changes.expression(due)
    assert [ast.unparse(other) for other in changes.moved_factors(node)] == others
    (a, b, c), w = np.random.default_rng(0).normal(size=(3, 4)), np.ones((4, 4))
    assert np.array_equal(HELPERS["plus"](a @ w, b), a @ w + b)
    assert HELPERS["plus"](c, None) is c


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0}, {"temperature": 0.5, "top_k": 3}, {"top_p": 0.6, "min_p": 0.1}],
)
def test_filters_of_logits_are_the_map(options):
    logits = np.random.default_rng(0).normal(size=(3, 9))
    np.testing.assert_allclose(
        usual.next_token_probabilities_by_logits(logits, **options),
        transformer.next_token_probabilities(logits, **options),
        rtol=1e-12,
    )


@pytest.mark.parametrize("name", ["elu", "exp", "identity"])
def test_features_as_they_are_written(name):
    x = np.linspace(-3.0, 3.0, 7)
    for f in ("features", "features_deriv"):
        want = getattr(formulas, f)(x, name)
        np.testing.assert_allclose(getattr(usual, f)(x, name), want, rtol=1e-12, atol=1e-14)


def test_recomputed_scores_give_the_gradients():
    """A row without a key, dropout, a sink, a bias and an upstream gradient of the logarithms."""
    rng = np.random.default_rng(0)
    q, k, v, dout = (rng.normal(size=s) for s in ((2, 5, 4), (2, 6, 4), (2, 6, 3), (2, 5, 3)))
    mask = rng.random((5, 6)) < 0.6
    mask[0] = False
    options = {"mask": mask, "bias": rng.normal(size=(5, 6)), "softcap": 0.7, "window": (3, 1)}
    options |= {"sink": rng.normal(size=2), "dropout": rng.integers(0, 2, (2, 5, 6)) * 2.0}
    dlse = np.where(mask.any(-1), rng.normal(size=(2, 5)), 0.0)
    for given in (options | {"dlse": dlse}, {}):
        got = usual.attention_vjp_by_logsumexp(dout, q, k, v, **given)
        want = formulas.scaled_dot_product_attention_vjp(dout, q, k, v, **given)
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_an_argument_that_is_not_passed():
    mutations = importlib.import_module("dlref.check._oracle.causes.mutations")
    assert mutations.described("f(x, b=1)", "f(x, a=2, b=1)") == "a is not passed to f"
    for stands in ("x", "f(y, b=1)", "f(x)", "g(x, b=1)"):
        assert mutations.described(stands, "f(x, a=2, b=1)").endswith("f(x, a=2, b=1) is due")


def test_each_array_alone_and_a_late_decay():
    """Each of two maps has two cases of trees."""
    a, b = np.full((2, 3), 3.0), np.array([4.0, -8.0])
    cases = [check.TestCase(str(n), ((n * a, b), np.float64(1.0)), {}) for n in (1, 2)]
    report = check.check_all(each_alone, training.clip_by_norm, cases=cases, options=())
    assert [*report.causes] == ["each array of grads is treated alone"]

    def late(p, g, state, *, learning_rate, weight_decay):
        p, state = training.adamw_step(p, g, state, learning_rate=learning_rate, weight_decay=0.0)
        return (1 - learning_rate * weight_decay) * p, state

    options = {"learning_rate": 0.1, "weight_decay": 0.5}
    cases = [check.TestCase(str(n), (n * X, X**2, None), options) for n in (1, 2)]
    report = check.check_all(late, training.adamw_step, cases=cases)
    assert next(iter(report.causes)) == "the weight decay is taken from the new parameters"


def vjp_case(op, wrong, *arguments, **options):
    """Return the case of a backward pass, with a bound of 1e-9 on all outputs."""
    call = ReferenceCall(op, "vjp", arguments, options)
    got, want = (as_leaves(run) for run in (wrong(*arguments, **options), call.run()))
    bounds = {i: np.full(np.shape(w), 1e-9) for i, w in enumerate(want)}
    off = {i for i, (a, w) in enumerate(zip(got, want, strict=True)) if np.abs(a - w).max() > 1e-9}
    dtypes = [np.dtype(np.float64)] * len(want)
    names = [f"output {i}" for i in range(len(want))]
    return evidence.Evidence(call, got, want, dtypes, bounds, frozenset(off), names)


def as_leaves(outputs):
    return [*outputs] if isinstance(outputs, tuple) else [outputs]


def said_of(cases):
    """Return the message of the search for another forward pass."""
    start = slopes.along_directions(cases[0])
    found = search._Search(start, [start, *map(slopes.along_directions, cases[1:])])
    return found.among(slopes.slope_searches(cases[0], start))


def test_a_constant_in_the_forward_pass():
    weight = np.linspace(0.5, 2.0, 4)
    cases = [
        vjp_case(norm.rms_norm, detached_norm, np.cos(n * X), X + n, weight, eps=1e-5)
        for n in (1, 2)
    ]
    assert [e.off for e in cases] == [{0}, {0}]
    assert said_of(cases).startswith("no gradient passes through")


def test_the_gradient_of_another_forward_pass():
    """The derivative of gelu without the factor of a half."""

    def wrong(u, x):
        return act.gelu_vjp(2 * u, x)

    cases = [vjp_case(act.gelu, wrong, np.cos(n * X), X + n / 3) for n in (1, 2)]
    assert "stands where" in said_of(cases)
    assert vjp_case(act.gelu, act.gelu_vjp, X, X).off == frozenset()


def test_slopes_need_gradients_of_the_inputs():
    forward = ReferenceCall(act.softmax, "forward", (X,), {})
    case = evidence.Evidence(
        forward, [2 * X], [X], [np.dtype(np.float64)], {0: 1e-9}, frozenset({0}), ["output 0"]
    )
    assert slopes.along_directions(case) is None
    cotangent = ReferenceCall(act.softmax, "vjp", (X, X), {})
    case = replace(case, call=cotangent)
    assert slopes.along_directions(case) is not None
    assert slopes.along_directions(replace(case, got=[X[:2]])) is None
    assert slopes.leaf_numbers(cotangent, [X, X]) is None
    assert slopes.leaf_numbers(cotangent, [X[0]]) is None


def test_slopes_at_a_kink_are_not_compared():
    """Where two numbers are equal, a maximum has no slope."""
    x = np.array([[1.0, 1.0, 0.0, 0.5], [2.0, 2.0, 1.0, 0.0]])
    case = vjp_case(act.relu, lambda u, x: 2 * u, X[:2], np.where(x == 1.0, 0.0, x))
    start = slopes.along_directions(case)
    assert [*slopes.slope_searches(case, start)] == []


def test_a_program_that_cannot_be_run_has_no_slopes():
    case = vjp_case(act.gelu, lambda u, x: 2 * u, X, X)
    start = slopes.along_directions(case)
    wanted = {0: 0}
    assert slopes._slopes(lambda call: None, start, wanted, case.call) is None
    assert slopes._product([X], None) != slopes._product([X], None)
    assert slopes._product([None, X], [X, X]) != slopes._product([None, X], [X, X])


@pytest.mark.parametrize(
    ("change", "text", "others"),
    [
        ("regrouped", "np.sqrt(v + eps)", {"np.sqrt(v) + eps", "v + np.sqrt(eps)"}),
        ("regrouped", "(a * b) ** p", {"a ** p * b", "a * b ** p"}),
        ("regrouped", "f(a) / b", {"f(a / b)"}),
        ("regrouped", "a * b ** p", {"(a * b) ** p"}),
        ("regrouped", "f(*a)", set()),
        ("regrouped", "a + b", set()),
        ("ends", "a <= b", {"a < b"}),
        ("ends", "a == b", set()),
        ("joined_rows", "np.sum(x, axis=0)", set()),
        ("joined_rows", "x[0](1)", set()),
        ("sums_of_a_block", "np.max(x)", set()),
        ("sums_of_a_block", "x[0](1)", set()),
        ("sums_of_a_block", "np.sum(*x)", set()),
        ("other_sizes", "f(x)", set()),
        ("other_sizes", "np.pi", set()),
    ],
)
def test_changes(change, text, others):
    node = ast.parse(text, mode="eval").body
    assert {ast.unparse(other) for other in getattr(changes, change)(node)} == others


@pytest.mark.parametrize(
    ("change", "text", "other"),
    [
        ("sums_of_a_block", "a @ b", "last_block(a, 16, -1) @ b"),
        ("sums_of_a_block", "x.sum(0)", "first_block(x, 4, 0).sum(0)"),
        ("sums_of_a_block", "x.mean()", "whole_blocks(x, 4, None).mean()"),
        ("sums_of_a_block", "sum_of(x)", None),
        ("sums_of_a_block", "np.sum(x, 1)", "np.sum(last_block(x, 1, 1), 1)"),
        ("joined_rows", "np.mean(x, axis=-1)", "sum_of_rows(np.mean(x, axis=-1), 2)"),
        ("other_sizes", "x.shape[-1]", "padded(x.shape[-1], 0)"),
        ("other_sizes", "len(x)", "len(x) - 1"),
    ],
)
def test_changes_of_sums_and_sizes(change, text, other):
    node = ast.parse(text, mode="eval").body
    every = {ast.unparse(change) for change in getattr(changes, change)(node)}
    assert other in every if other else not every


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("a ** b", "b ** a"),
        ("a / b", "a // b"),
        ("np.swapaxes(x, -1, -2)", "np.reshape(x, np.shape(np.swapaxes(x, -1, -2)))"),
        ("np.exp(x * a)", "1 + x * a"),
        ("np.tanh(z)", "sigmoid(z)"),
        ("a * b + c", "c - a * b"),
        ("np.maximum(a, b)", "a + b"),
        ("np.mean(x, axis=0)", "mean_by_less(x, axis=0)"),
        ("np.var(x, axis=0)", "np.var(x, axis=0, ddof=1)"),
    ],
)
def test_further_changes(text, other):
    node = ast.parse(text, mode="eval").body
    assert other in {ast.unparse(change) for change in changes.further_changes(node, {}, {})}


def test_the_larger_term_in_place_of_a_sum():
    [larger] = changes.larger_terms(ast.parse("a + b", mode="eval").body)
    assert ast.unparse(larger) == "np.maximum(a, b)"
    assert not [*changes.larger_terms(ast.parse("a - b", mode="eval").body)]


def test_one_less_another_variable():
    node = ast.parse("f", mode="eval").body
    every = {ast.unparse(other) for other in changes.applied(node, {"f": (3,), "i": (3,), "c": ()})}
    assert "1 - i" in every
    assert "1 - c" not in every


def test_a_mean_by_one_less_is_unbiased():
    by_less = HELPERS["mean_by_less"]
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(by_less((x - x.mean()) ** 2), x.var(ddof=1))
    np.testing.assert_allclose(by_less(x * 0 + 1, axis=-1, keepdims=True), [[1.5], [1.5]])
    np.testing.assert_array_equal(by_less(x[:, :1], axis=-1), x[:, 0])  # of one number, it is that


def test_few_numbers_select_among_usual_programs():
    """A formula may be missing, and 16 bits say too little of a few numbers."""

    def twice(x, y):
        return 2 * losses.squared_error(x, x * y)

    x, y = np.array([0.3, 1.7]), np.array([0.4, -1.1])
    assert not check.check_forward(twice, losses.squared_error, x, y)
    short = [a.astype(np.float16) for a in (x, y)]
    assert check.check_forward(twice, losses.squared_error, *short).cause == ""
    root = lambda x, y: np.sqrt(losses.squared_error(x, y))  # noqa: E731
    cause = check.check_forward(root, losses.squared_error, x, y).cause
    assert cause == "sqrt(the result) is returned"


def test_a_variable_before_its_last_operations():
    lines = "def f(x):", " y = (x - 1) / 2", " z = np.exp(y)", " n = 3", " n = 4"
    (function,) = ast.parse("\n".join(lines)).body
    definitions = changes.definitions_in(function)
    assert definitions.keys() == {"y", "z"}

    def others(name):
        node = ast.parse(name, mode="eval").body
        return [ast.unparse(e) for e in changes.earlier_values(node, definitions)]

    assert others("y") == ["x - 1", "x"]
    assert others("z") == ["y"]
    assert others("n") == others("x + y") == []


def test_a_number_is_used_once_more():
    node = ast.parse("v / n", mode="eval").body
    shapes = {"eps": (), "v": (3,)}
    every = {ast.unparse(change) for change in changes.applied(node, shapes)}
    assert {"v / n + eps", "_sqrt(v / n)"} <= every
    assert "v / n * eps" in {ast.unparse(change) for change in changes.multiplied(node, shapes)}


def test_the_scale_of_another_width():
    """Heads of width 4 are scaled as if the width were that of the model."""
    rng = np.random.default_rng(3)
    params = att.AttentionParams(*rng.normal(size=(4, 8, 8)), *rng.normal(size=(4, 8)))

    def wrong(x, y, params, *, num_heads, scale=None):
        scale = x.shape[-1] ** -0.5 if scale is None else scale
        return att.multi_head_attention(x, y, params, num_heads=num_heads, scale=scale)

    some = rng.normal(size=(2, 5, 8))
    options = [{"num_heads": 2}, {"num_heads": 4}, {"num_heads": 2, "scale": 0.3}]
    cases = [check.TestCase(str(o), (some, some, params), o) for o in options]
    report = check.check_all(wrong, att.multi_head_attention, cases=cases)
    assert [*report.causes] == ["scale is 1 divided by the root of the size of axis -1 of x_q"]


def test_padding_is_of_arrays_with_the_longest_rows():
    def others(text, shapes):
        node = ast.parse(text, mode="eval").body
        return {ast.unparse(other) for other in changes.sums_of_padding(node, shapes)}

    shapes = {"x": (3, 5), "mu": (3, 1)}
    assert "np.sum(with_zeros(x, 8) - mu)" in others("np.sum(x - mu)", shapes)
    assert "np.mean(with_zeros(x, 0)) * padded(x.shape[-1], 0) / x.shape[-1]" in others(
        "np.mean(x)", shapes
    )
    assert not others("np.sum(mu)", shapes)
    assert not others("np.max(x)", shapes)
    assert not others("np.sum(*x)", shapes)
    assert not others("np.sum(x)", {})


def test_helpers():
    a = np.arange(1.0, 8.0)
    np.testing.assert_array_equal(HELPERS["first_block"](a, 3, 0), [1, 2, 3, 0, 0, 0, 0])
    np.testing.assert_array_equal(HELPERS["last_block"](a, 3, None), [0, 0, 0, 0, 0, 0, 7])
    np.testing.assert_array_equal(HELPERS["whole_blocks"](a, 3, (0,)), [1, 2, 3, 4, 5, 6, 0])
    np.testing.assert_array_equal(HELPERS["with_zeros"](a[:3], 0), [1, 2, 3, 0])
    np.testing.assert_array_equal(HELPERS["sum_of_rows"](a[:3], 2), [3, 3, 3])
    np.testing.assert_array_equal(HELPERS["mean_of_rows"](a[:3], 2), [1.5, 1.5, 3])
    np.testing.assert_allclose(HELPERS["softmax"](X).sum(-1), 1)
    assert HELPERS["padded"](5, 0) == 8
    assert HELPERS["padded"](5, 4) == 8


def test_slopes_without_a_formula():
    case = vjp_case(act.gelu, lambda u, x: 2 * u, X, X)
    start = slopes.along_directions(case)
    unknown = {"call": ReferenceCall(lambda x: x, "vjp", (X, X), {})}
    assert [*slopes.slope_searches(replace(case, **unknown), replace(start, **unknown))] == []
    assert slopes._unchanged_slopes(lambda *_: 1 / 0, start, {0: 0}, start) is None


def test_slopes_are_compared_where_no_program_is_found(monkeypatch):
    weight = np.linspace(0.5, 2.0, 4)
    cases = [
        vjp_case(norm.rms_norm, detached_norm, np.cos(n * X), X + n, weight, eps=1e-5)
        for n in (1, 2)
    ]
    monkeypatch.setattr(search, "_searches", lambda first: iter(()))
    assert search.common_program(cases).startswith("no gradient passes through")


def test_maps_that_are_not_searched():
    def searches(op, *arguments):
        call = ReferenceCall(op, "forward", arguments, {})
        want = op(*arguments)
        limits = {0: np.zeros(np.shape(want))}
        case = evidence.Evidence(
            call, [want], [want], [want.dtype], limits, frozenset(), ["output 0"]
        )
        return [*search._searches(case)]

    assert searches(lambda x: x, X) == []
    of_conditions = searches(att.document_mask, np.array([0, 1, 0]))
    assert 0 < len(of_conditions) < len(searches(act.softmax, X))


def test_changes_that_are_no_mathematics():
    formula = importlib.import_module("dlref.formulas.activations").softmax

    def same(node):
        return [node] if isinstance(node, ast.Call) else []

    assert [*programs._at_some_places(formula, formula, same)] == []


def test_programs_that_a_map_refuses(monkeypatch):
    softmax = ReferenceCall(act.softmax, "forward", (X,), {})
    assert [*readings.composed_programs(replace(softmax, form="jvp"))] == []
    refused = ReferenceCall(training.clip_by_norm, "forward", ((X,), -1.0), {})
    assert readings._each_leaf(refused) is None
    decay = {"weight_decay": 0.1, "learning_rate": 0.1}
    steps = ReferenceCall(training.lion_step, "forward", (X, X[0], None), decay)
    assert readings._with_late_decay(steps) is None
    monkeypatch.setattr(readings, "MAX_PADDED", 3)
    assert readings._Block(0, -1, lambda n: 2).run(softmax) is None


def test_numbers_that_a_case_shows():
    call = ReferenceCall(act.softmax, "forward", (X,), {})
    want = call.run()

    def case(got):
        limits = {0: np.full(want.shape, 1e-9)}
        return evidence.Evidence(
            call, [got], [want], [np.dtype(np.float64)], limits, frozenset({0}), ["output 0"]
        )

    assert causes.is_shown("it is the exact result times 2.5", case(2.5 * want))
    assert not causes.is_shown("it is the exact result times 3", case(2.5 * want))
    assert causes.is_shown("it is the exact result plus 1", case(want + 1))
    assert not causes.is_shown("it is zero: not computed", case(want + 1))
    assert causes.is_shown("it is zero: not computed", case(0 * want))
    assert causes.is_shown("it is x, unchanged", case(X))
    assert not causes.is_shown("it is x, unchanged", case(want))
    assert causes.is_measured("it is zero: not computed")
    assert not causes.is_measured("it is the exact result times the width")


def test_a_program_under_a_condition_beside_one_without():
    """Both lead to the output that is off; only one leaves the case without the option alone."""

    def case(options, factor):
        call = ReferenceCall(act.softmax, "forward", (X,), options)
        want = call.run()
        off = frozenset({0}) if factor != 1 else frozenset()
        limits = {0: np.full(want.shape, 1e-9)}
        names = [np.dtype(np.float64)], limits, off, ["output 0"]
        return evidence.Evidence(call, [factor * want], [want], *names)

    off, right = case({"axis": 0}, 2.0), case({}, 1.0)
    every = [
        search.Program("twice", lambda call: [2 * call.run()]),
        search.Program("twice along axis 0", lambda call: [call.run() * (1 + bool(call.options))]),
    ]
    found = search._Search(off, [off, right])
    message = found.among([(every, lambda e: e.want)])
    assert message == "twice, where axis is given or: twice along axis 0"


@pytest.mark.parametrize(
    ("got", "exact", "narrow", "is_within"),
    [
        (1000.3, 1000.0, 1000.1, True),
        (1001.3, 1000.0, 1000.1, False),  # more than eight errors
        (900.0, 1000.0, 900.0, False),  # such a program says nothing in float32
        (1000.3, None, 1000.1, False),
        (1000.3, 1000.0, np.ones(2), False),
    ],
)
def test_errors_of_a_program_in_float32(got, exact, narrow, is_within):
    assert search._is_within_errors(got, exact, narrow) is is_within

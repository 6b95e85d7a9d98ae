"""
Usual formulas, at inputs as a trained model has them.

Sure predictions, a student near its teacher and a policy near its reference make the usual formulas
cancel: they lose digits, but their kernels are not wrong. A mistake of some per mille still is.
"""

import itertools

import numpy as np
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses
from dlref.check._oracle.stochastic_rounding import stochastically_rounded

R = np.random.default_rng(4)
TARGET = np.arange(6) % 5


def log_softmax(x, axis=-1):
    """Add up from the last class to the first, as no formula of dlref does."""
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.flip(np.exp(x), axis).sum(axis, keepdims=True))


def reduced(rows, reduction):
    return rows if reduction == "none" else rows.mean(dtype=rows.dtype)


def each(dout, x, reduction):
    """Return the upstream gradient of each row of x."""
    n = x[..., 0].size if reduction == "mean" else 1
    return np.broadcast_to(dout, x.shape[:-1])[..., None] / x.dtype.type(n)


def cross_entropy(x, target, reduction="mean"):
    return reduced(-log_softmax(x)[np.arange(len(x)), target], reduction)


def cross_entropy_vjp(dout, x, target, reduction="mean"):
    u = each(dout, x, reduction)
    return u * np.exp(log_softmax(x)) - u * np.eye(x.shape[-1], dtype=x.dtype)[target]


def linear_cross_entropy(x, w, target, b=None, reduction="mean"):
    return cross_entropy(x @ w.T + b, target, reduction)


def linear_cross_entropy_vjp(dout, x, w, target, b=None, reduction="mean"):
    dz = cross_entropy_vjp(dout, x @ w.T + b, target, reduction)
    return dz @ w, dz.T @ x, dz.sum(0)


def info_nce(s, reduction="mean"):
    pairs = np.arange(len(s))
    both = cross_entropy(s, pairs, "none") + cross_entropy(s.T, pairs, "none")
    return reduced(both / 2, reduction)


def info_nce_vjp(dout, s, reduction="mean"):
    pairs, u = np.arange(len(s)), each(dout, s, reduction)[:, 0] / 2
    rows = cross_entropy_vjp(u, s, pairs, "none")
    return rows + cross_entropy_vjp(u, s.T, pairs, "none").T


def distillation(z, teacher, kind="kl", temperature=1.0, reduction="mean"):
    t = z.dtype.type(temperature)
    p, q = log_softmax(z / t), log_softmax(teacher / t)
    m = np.log((np.exp(p) + np.exp(q)) / 2)
    terms = {
        "kl": np.exp(q) * (q - p),
        "reverse": np.exp(p) * (p - q),
        "jsd": (np.exp(p) * (p - m) + np.exp(q) * (q - m)) / 2,
    }
    return reduced(t * t * terms[kind].sum(-1), reduction)


def distillation_vjp(dout, z, teacher, temperature=1.0, reduction="mean"):
    t = z.dtype.type(temperature)
    u, p, q = each(dout, z, reduction) * t, log_softmax(z / t), log_softmax(teacher / t)
    d = (np.exp(q) * (q - p)).sum(-1, keepdims=True)
    return u * (np.exp(p) - np.exp(q)), u * np.exp(q) * (q - p - d)


def gaussian_kl(mean, s, reduction="mean"):
    return reduced(-((1 + s - mean**2 - np.exp(s)) / 2).sum(-1), reduction)


def gaussian_kl_vjp(dout, mean, s, reduction="mean"):
    u = each(dout, mean, reduction)
    return u * mean, -(u - u * np.exp(s)) / 2


def k3(p, ref, reduction="mean"):
    return reduced(np.exp(ref - p) - (ref - p) - 1, reduction)


def k3_vjp(dout, p, ref, reduction="mean"):
    u = np.broadcast_to(dout, p.shape) / p.dtype.type(p.size if reduction == "mean" else 1)
    return u * (1 - np.exp(ref - p)), u * (np.exp(ref - p) - 1)


def gumbel_softmax(x, noise, temperature=1.0):
    return np.exp(log_softmax((x + noise) / x.dtype.type(temperature)))


def gumbel_softmax_vjp(dout, x, noise, temperature=1.0):
    p = gumbel_softmax(x, noise, temperature)
    grad = p * (dout - np.flip(p * dout, -1).sum(-1, keepdims=True)) / x.dtype.type(temperature)
    return grad, grad


def attention_of(q, k):
    p = np.exp(log_softmax(q @ k.swapaxes(-1, -2) / q.dtype.type(q.shape[-1] ** 0.5)))
    return p / p.sum(-1, keepdims=True)


def differential_vjp(dout, q1, k1, q2, k2, v, lam):
    grads, dv, scale = [], 0, q1.dtype.type(q1.shape[-1] ** 0.5)
    for q, k, u in ((q1, k1, dout), (q2, k2, -lam * dout)):
        p, dp = attention_of(q, k), u @ v.swapaxes(-1, -2)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True)) / scale
        grads += [ds @ k, ds.swapaxes(-1, -2) @ q]
        dv = dv + p.swapaxes(-1, -2) @ u
    return *grads, dv, -(dout * (attention_of(q2, k2) @ v)).sum()


def logits(margin):
    x = R.normal(size=(6, 5))
    x[np.arange(6), TARGET] += margin
    return x


def near(x, gap):
    return x + gap * R.normal(size=x.shape)


def sure():
    """Yield losses of classes: function, kernel, gradient, inputs, options."""
    mixed = np.eye(5) + 0.1 * R.normal(size=(5, 5))
    for margin, reduction in itertools.product((3, 10, 25), ("none", "mean")):
        options, z = {"reduction": reduction}, logits(margin)
        yield losses.cross_entropy, cross_entropy, cross_entropy_vjp, (z, TARGET), options
        layer = z @ np.linalg.inv(mixed).T, mixed, TARGET, R.normal(size=5)
        both = linear_cross_entropy, linear_cross_entropy_vjp
        yield losses.linear_cross_entropy, *both, layer, options
        pairs = R.normal(size=(6, 6)) + margin * np.eye(6)
        yield losses.info_nce, info_nce, info_nce_vjp, (pairs,), options
        yield act.log_softmax, log_softmax, None, (z,), {}
        for temperature in (1.0, 0.1):
            noisy = z, R.gumbel(size=z.shape)
            both, cold = (gumbel_softmax, gumbel_softmax_vjp), {"temperature": temperature}
            yield act.gumbel_softmax, *both, noisy, cold


def nearly_equal():
    """Yield divergences."""
    each = {"reduction": "none"}
    for gap in (1, 1e-2, 1e-5):
        for margin, options in ((10, each), (0, {"temperature": 4.0})):
            z = logits(margin)
            both = distillation, distillation_vjp
            yield losses.distillation_loss, *both, (z, near(z, gap)), options
        for kind in ("reverse", "jsd"):
            z = logits(3)
            yield losses.distillation_loss, distillation, None, (z, near(z, gap)), {"kind": kind}
        mean, log_var = gap * R.normal(size=(2, 6, 4))
        yield losses.gaussian_kl, gaussian_kl, gaussian_kl_vjp, (mean, log_var), each
        log_p = -abs(R.normal(size=40))
        yield losses.kl_estimate, k3, k3_vjp, (log_p, near(log_p, gap)), each


MAPS = *(8 * R.normal(size=(5, 3, 7, 4))), np.array(0.8)
USUAL = [*sure(), *nearly_equal(), (att.differential_attention, None, differential_vjp, MAPS, {})]
DTYPES = [np.float64, np.float32]


def in_dtype(values, dtype):
    return [a if a.dtype.kind == "i" else a.astype(dtype) for a in map(np.asarray, values)]


def verdicts(row, dtype, wrong=1.0):
    """Yield the verdicts on the kernel and its gradient, multiplied by a factor."""
    op, f, vjp, inputs, options = row
    inputs = in_dtype(inputs, dtype)

    def of(kernel):
        def candidate(*args, **options):
            out = kernel(*args, **options)
            many = out if isinstance(out, tuple) else (out,)
            many = tuple((wrong * part).astype(dtype) for part in many)
            return many if isinstance(out, tuple) else many[0]

        return candidate

    if f:
        yield check.check_forward(of(f), op, *inputs, **options)
    if vjp:
        like = op(*inputs, **options)
        dout = np.random.default_rng(0).normal(size=np.shape(like)).astype(dtype)
        yield check.check_vjp(of(vjp), op, dout, *inputs, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", USUAL, ids=lambda row: row[0].__name__)
def test_a_usual_formula_is_not_accused(row, dtype):
    for verdict in verdicts(row, dtype):
        assert verdict or verdict.inconclusive, str(verdict)


@pytest.mark.parametrize("row", USUAL, ids=lambda row: row[0].__name__)
def test_a_mistake_of_some_per_cent_is(row):
    for verdict in verdicts(row, np.float64, wrong=1.03):
        assert not verdict, str(verdict)
        assert not verdict.inconclusive, str(verdict)


NEW = [
    (losses.distillation_loss, losses.distillation_loss_vjp),
    (losses.gaussian_kl, losses.gaussian_kl_vjp),
    (losses.info_nce, losses.info_nce_vjp),
    (losses.kl_estimate, losses.kl_estimate_vjp),
    (losses.linear_cross_entropy, losses.linear_cross_entropy_vjp),
    (act.gumbel_softmax, act.gumbel_softmax_vjp),
    (att.differential_attention, att.differential_attention_vjp),
]


@pytest.mark.parametrize(("op", "vjp"), NEW, ids=lambda f: f.__name__)
def test_all_cases_fit_the_formulas(op, vjp):
    report = check.check_all(op, op, vjp=vjp, dtype="float64")
    assert report, str(report)


def test_operations_are_rounded_up_and_down():
    """Around the plain result, by a unit in the last place at most; exact operations not at all."""
    rng = np.random.default_rng(0)
    x = np.full(100, 1.7)
    moved = np.asarray(np.exp(stochastically_rounded(x, rng)))
    steps = (moved - np.exp(x)) / np.spacing(np.exp(1.7))
    assert {*steps.tolist()} == {-1.0, 0.0, 1.0}
    for exact in (np.negative, np.maximum.reduce, lambda a: a > 1, np.floor):
        np.testing.assert_array_equal(np.asarray(exact(stochastically_rounded(x, rng))), exact(x))
    after = np.exp(-stochastically_rounded(x, rng))  # an exact operation does not end it
    assert len({*np.asarray(after).tolist()}) == 3


def test_errors_of_a_sum_are_of_its_terms_where_it_cancels():
    rng = np.random.default_rng(0)
    x = np.array([1e8, 1.0, -1e8])
    totals = {float(stochastically_rounded(x, rng).sum()) for _ in range(20)}
    assert len(totals) > 1
    assert max(abs(total - 1) for total in totals) < 1e8 * 2.0**-50


def test_an_operation_in_place_takes_the_rounded_result():
    x = stochastically_rounded(np.full(100, 1.7), np.random.default_rng(0))
    x += 1.7
    assert len({*np.asarray(x).tolist()}) > 1


def test_what_is_added_at_places_is_written_in_place():
    x = stochastically_rounded(np.zeros(3), np.random.default_rng(0))
    np.add.at(x, [0, 0, 2], 1.0)
    np.testing.assert_array_equal(np.asarray(x), [2, 0, 1])

"""Kernels with which verdicts were attacked: wrong ones are not right, and have no wrong cause."""

import subprocess
import sys

import numpy as np
import pytest

import dlref
from dlref import activations as act
from dlref import attention, check, losses, neurons, positions, training, transformer
from dlref import normalization as norm
from dlref._records import spec_of
from dlref.check import _reports
from dlref.check._oracle.causes import positions as of_positions
from dlref.check._oracle.explanations import explanation_of

from .test_cases import maps

BUCKET = positions.t5_relative_position_bucket
ROPE, SDPA = positions.apply_rope, attention.scaled_dot_product_attention
#: Maps whose arrays of floats have two axes at most, and what these are.
FLAT = {
    "losses.neuron_squared_error": "the rows of a neuron",
    "losses.policy_loss": "sequences of tokens",
    "neurons.embedding": "a table",
    "normalization.batch_norm_update": "statistics",
    "positions.fire_bias": "weights",
    "positions.learned_positions": "a table",
    "positions.relative_bias_grid": "a table",
    "positions.rope_score": "rows",
    "positions.t5_bias": "a table",
    "recurrent.vector_to_sequence": "a vector and weights",
    "transformer.encoder_decoder_model": "tokens and parameters",
    "transformer.language_model": "tokens and parameters",
    "transformer.sequence_classifier": "tokens and parameters",
}


# What is right for a kernel that is wrong.


def has_three_axes(case):
    first = next((a for a in case.inputs if isinstance(a, np.ndarray) and a.dtype.kind == "f"), 0)
    return np.ndim(first) > 2 and first.size > 1


@pytest.mark.parametrize(
    "f", [pytest.param(parameter.values[0], id=parameter.id) for parameter in maps()]
)
def test_every_map_has_a_case_of_three_axes(f, request):
    plan = (case for case, _ in _reports._plan(f, "float64", None, None, {}))
    assert any(map(has_three_axes, plan)) == (request.node.callspec.id not in FLAT)


@pytest.mark.parametrize(
    ("op", "form", "x", "options", "zeros"),
    [
        (losses.cross_entropy, "forward", np.float64([[30.0, 0.0, 0.0]]), {}, None),
        (act.sigmoid, "vjp", np.float32([20.0, 20.0]), {}, None),
        (act.sigmoid, "vjp", np.float64([20.0, 20.0]), {}, None),
        (act.tanh, "vjp", np.float32([8.0, 8.0]), {}, None),
        (norm.rms_norm, "vjp", np.float32([[1e20, -1e20, 2e20, 0.0]]), {}, None),
        (act.gelu, "forward", np.float32([-8.0]), {}, 1e-6),
        (act.gelu, "forward", np.float32([-5.5]), {}, None),
        (act.gelu, "forward", np.float32([-6.0]), {"approximate": "tanh"}, None),
    ],
)
def test_small_values_are_not_right_as_zeros(op, form, x, options, zeros):
    """Zeros, or a small number in their place, are off where the dtype tells; never right."""
    wrong = lambda *given, **_: np.full_like(given[-1], zeros or 0.0)  # noqa: E731
    if op is losses.cross_entropy:
        verdict = check.check_forward(lambda *_: np.float64(0), op, x, np.array([0]))
        assert not verdict.inconclusive
    elif form == "vjp":
        verdict = check.check_vjp(wrong, op, np.ones_like(x), x)
        assert verdict.inconclusive == (x.dtype == np.float32 and op is not norm.rms_norm)
    else:
        verdict = check.check_forward(wrong, op, x, **options)
        mixed = np.append(x, np.float32([1.0, 0.5]))
        tail = lambda x, **o: np.where(x < -5, np.float32(zeros or 0.0), op(x, **o))  # noqa: E731
        assert check.check_forward(op, op, mixed, strict=True, **options)
        assert not check.check_forward(tail, op, mixed, strict=True, **options)
    assert not verdict


def row_by_row(terms):
    """Add rows one by one, in their own dtype."""
    rows = terms.reshape(-1, terms.shape[-1])
    total = np.zeros_like(rows[0])
    for row in rows:
        total = total + row
    return total


def of_layer_norm(u, x, w=None, b=None, **options):
    out = norm.layer_norm_vjp(u, x, w, b, **options)
    if w is None or b is None:
        return out
    return out[0], row_by_row(u * norm.layer_norm(x, **options)), row_by_row(u)


def of_rms_norm(u, x, w=None, **options):
    out = norm.rms_norm_vjp(u, x, w, **options)
    return out if w is None else (out[0], row_by_row(u * norm.rms_norm(x, **options)))


def of_linear(u, x, w, b=None):
    dx, dw, *db = neurons.linear_vjp(u, x, w, b)
    if x.ndim < 3:
        return (dx, dw, *db)
    dw = np.stack([row_by_row(u[..., i : i + 1] * x) for i in range(len(w))])
    return dx, dw, *(row_by_row(u) for _ in db)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("op", "vjp"),
    [
        pytest.param(norm.layer_norm, of_layer_norm, marks=pytest.mark.broad),
        (norm.rms_norm, of_rms_norm),
        (neurons.linear, of_linear),
    ],
)
def test_gradients_of_weights_that_are_added_in_16_bits(op, vjp, dtype):
    pytest.importorskip("ml_dtypes")
    report = check.check_all(None, op, vjp=vjp, dtype=dtype)
    failed = {row.case: row.verdict for row in report.failed}
    (many,) = (output for what, output in failed.items() if "2053" in what)
    assert (
        next(output.name for output in many.outputs if output.num_wrong)
        == "output 1 (gradient of weight)"
    )
    if dtype == "float16":
        assert many.cause.startswith("these are sums in float16")
    assert not many.cause or "sums in" in many.cause


@pytest.mark.parametrize("op", [neurons.linear, norm.layer_norm, norm.rms_norm])
def test_sums_over_rows_in_any_order_are_right(op, rng):
    """One after the other in float32, which is less accurate than in blocks."""
    x = rng.normal(size=(4106, 16)).astype("f")
    rest = [rng.normal(size=s).astype("f") for s in ((3, 16), (3,))]
    rest = rest if op is neurons.linear else rest[0][: 1 + (op is norm.layer_norm)]
    vjp = {neurons.linear: of_linear, norm.layer_norm: of_layer_norm, norm.rms_norm: of_rms_norm}
    u = rng.normal(size=np.shape(op(x, *rest))).astype("f")
    assert check.check_vjp(vjp[op], op, u[None], x[None], *rest)
    own = getattr(dlref, op.__module__.split(".")[1])
    assert check.check_vjp(getattr(own, f"{op.__name__}_vjp"), op, u[:0], x[:0], *rest)


def test_float16_is_no_excuse_for_products_that_are_added_in_it(rng):
    x, w = (rng.normal(size=(3, 1024)).astype(np.float16) for _ in "xw")
    wrong = lambda x, w: np.stack([row_by_row((x * b).T) for b in w], -1)  # noqa: E731
    verdict = check.check_forward(wrong, neurons.linear, x, w)
    assert not verdict
    assert "sums in float16" in verdict.cause


def test_a_square_gradient_of_weights_that_is_transposed():
    def vjp(u, x, w, b=None):
        dx, dw, *db = neurons.linear_vjp(u, x, w, b)
        return (dx, dw.T if len(dw) == len(dw.T) else dw, *db)

    assert not check.check_all(None, neurons.linear, vjp=vjp)


# What is off for a kernel that is right.


def test_a_mask_of_dropout_with_a_generator_is_right():
    op = transformer.dropout_mask
    assert check.check_forward(op, op, np.random.default_rng(0), (20, 50), rate=0.5)


def test_bfloat16_by_name_in_a_process_of_its_own():
    pytest.importorskip("ml_dtypes")
    code = (
        "import sys; from dlref import activations, check;"
        "assert 'ml_dtypes' not in sys.modules;"
        "x, = next(check.hard_inputs(activations.relu, 'bfloat16')).inputs; print(x.dtype)"
    )
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert out.stdout == "bfloat16\n"


def adam(p, g, state, *, learning_rate, betas=(0.9, 0.999), eps=1e-8):
    """Return a step of one array."""
    step, mean, square, _ = (0, 0 * p, 0 * p, None) if state is None else state
    mean = betas[0] * mean + (1 - betas[0]) * g
    square = betas[1] * square + (1 - betas[1]) * g * g
    b, c = (1 - beta ** (step + 1) for beta in betas)
    moved = p - learning_rate * (mean / b) / (np.sqrt(square / c) + eps)
    return moved, (step + 1, mean, square, None)


def test_an_optimizer_of_arrays():
    options = {"dtype": "float64", "options": ("betas", "eps")}
    assert not check.check_all(adam, training.adam_step, **options)
    for shapes in ([(4, 5)], [(4, 5), (3,)]):
        report = check.check_all(training.adam_step, training.adam_step, shapes=[shapes])
        assert report
        assert len(report.rows) == 8
    report = check.check_all(adam, training.adam_step, shapes=[[(4, 5)]], **options)
    assert report, str(report)
    assert [row.case.partition(", the ")[2] for row in report.rows[:2]] == [
        "first step",
        "second step",
    ]
    late = lambda p, g, s, **o: adam(p, g, s and (s[0] - 1, *s[1:]), **o)  # noqa: E731
    assert not check.check_all(late, training.adam_step, shapes=[[(4, 5)]], **options)


# Wrong causes.


def wavelengths(dim, *, scaling):
    """Smooth the bands of Llama 3 in wavelengths, not in numbers of turns."""
    plain = positions.rope_frequencies(dim)
    length, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = length / scaling["low_freq_factor"], length / scaling["high_freq_factor"]
    kept = np.clip((2 * np.pi / plain - low) / (high - low), 0, 1)
    return (1 - kept) * plain / factor + kept * plain


@pytest.mark.broad  # every program is tried in vain
def test_bands_that_are_smoothed_in_wavelengths_are_no_noise():
    scaling = {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling["original_max_position_embeddings"] = 8192
    verdict = check.check_forward(wavelengths, positions.rope_frequencies, 128, scaling=scaling)
    assert not verdict
    assert verdict.cause == ""


def test_nan_is_no_overflow_and_no_multiple(rng):
    x, angles = 1e4 * rng.normal(size=(2, 5, 6)), rng.normal(size=(5, 3))
    of_nan = lambda *given: np.nan * ROPE(*given)  # noqa: E731
    verdict = check.check_forward(of_nan, ROPE, x, np.cos(angles), np.sin(angles))
    p, g = rng.normal(size=(2, 4, 5)).astype("f")
    step = lambda p, g, s, **o: (np.nan * p, training.adam_step(p, g, s, **o)[1])  # noqa: E731
    adam = check.check_forward(step, training.adam_step, p, g, None, learning_rate=0.1)
    for judged in (verdict, adam):
        assert judged.cause.startswith("NaN comes from 0 divided by 0, infinities that cancel, or")


def test_infinities_are_no_overflow_for_sure():
    """A rule that fills with an infinity has no overflow; nor has a logarithm of 0."""
    x = np.linspace(-3, 3, 12, dtype="f")
    masked = check.check_forward(lambda x: np.where(x > 2, np.inf, x), act.relu6, x)
    assert "a mask's infinity" in masked.cause


@pytest.mark.broad  # every program is tried in vain
@pytest.mark.parametrize("mean", [0.0, 100.0])
def test_a_variance_does_not_cancel_in_other_mistakes(rng, mean):
    x = (rng.normal(size=(3, 5, 8)) + mean).astype("f")
    u, w, b = (a.astype("f") for a in (rng.normal(size=x.shape), np.ones(8), np.zeros(8)))

    def interleaved(x, groups):
        parts = x.reshape(*x.shape[:-1], -1, groups)
        centered = parts - parts.mean((1, 2), keepdims=True)
        return (centered / np.sqrt((centered**2).mean((1, 2), keepdims=True) + 1e-5)).reshape(
            x.shape
        )

    def of_x(u, x, w, b):
        dx, _, db = norm.layer_norm_vjp(u, x, w, b)
        return dx, (u * x).sum((0, 1)), db

    def two_passes(x):
        centered = x - x.mean(-1, keepdims=True)
        return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + np.float32(1e-5))

    groups = check.check_forward(interleaved, norm.group_norm, x, 2)
    weight = check.check_vjp(of_x, norm.layer_norm, u, x, w, b)
    random = check.check_forward(lambda _: u, norm.layer_norm, x)
    assert check.check_forward(two_passes, norm.layer_norm, x)
    for verdict in (groups, weight, random):
        assert not verdict
        assert "cancels" not in verdict.cause
        assert "noise" not in verdict.cause


def of_16_bits(x):
    """Return a layer norm whose mean and variance are sums in the dtype of the rows."""
    mean = row_by_row(x.T)[:, None] / x.dtype.type(x.shape[-1])
    square = row_by_row(((x - mean) ** 2).T)[:, None] / x.dtype.type(x.shape[-1])
    return ((x - mean) / np.sqrt(square.astype("f") + 1e-5)).astype(x.dtype)


@pytest.mark.parametrize("size", [np.asarray, np.abs])
def test_sums_that_stagnate_are_no_multiple(size):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x, w = (size(a).astype(bfloat16) for a in np.random.default_rng(0).normal(size=(2, 3, 4096)))
    products = lambda x, w: np.stack([row_by_row((x * b).T) for b in w], -1)  # noqa: E731
    for kernel, op, given in (
        (products, neurons.linear, (x, w)),
        (of_16_bits, norm.layer_norm, (x,)),
    ):
        verdict = check.check_forward(kernel, op, *given)
        assert not verdict
        assert not verdict.cause or verdict.cause.startswith("these are sums in bfloat16")
    for dtype in ("f", bfloat16):  # zeros are their own multiples
        relu = x[:, :40].astype(dtype)
        assert "doubled" in check.check_forward(lambda x: 2 * act.relu(x), act.relu, relu).cause
    doubled = check.check_forward(lambda x: 2 * norm.layer_norm(x), norm.layer_norm, x)
    assert doubled.cause.startswith("it is doubled")
    cause = check.check_forward(lambda x: 3 * act.gelu(x), act.gelu, x).cause
    assert cause.startswith("it is the exact result times ")  # no sum over three rows


def test_an_exponential_that_overflows_is_not_taken_for_its_square():
    x = np.float32([-3, 0, 2, 50, 90, 100, 200])
    u = np.linspace(1, 2, 7, dtype="f")
    for limit, message in ((88.0, "an exponential overflows"), (44.0, "the square of an exp")):
        wrong = lambda u, x, n=limit: act.softplus_vjp(u, x) * (x < n)  # noqa: E731
        assert check.check_vjp(wrong, act.softplus, u, x).cause.startswith(message)
    wrong = lambda u, x: act.softplus_vjp(u, x) * (x != 100)  # noqa: E731
    assert "not written" in check.check_vjp(wrong, act.softplus, u, x).cause


# Causes that were missing.


def rounded(distance, num_buckets=32, max_distance=128):
    half = num_buckets // 2
    exact, size = half // 2, np.abs(distance)
    share = np.log(np.maximum(size, exact) / exact) / np.log(max_distance / exact)
    far = np.minimum(exact + np.rint(share * (half - exact)).astype(int), half - 1)
    return np.where(size < exact, size, far) + half * (distance > 0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (rounded, "buckets of far distances are rounded, not down"),
        (lambda d: BUCKET(d, max_distance=64), "max_distance is 64, not 128"),
        (lambda d: BUCKET(d, num_buckets=16), "num_buckets is 16, not 32"),
        (lambda d: BUCKET(d - 1), "the distance is one too small"),
        (lambda d: BUCKET(d, bidirectional=False), "share the buckets of one direction"),
    ],
)
def test_buckets(kernel, message):
    assert message in check.check_forward(kernel, BUCKET, np.arange(-200, 201)).cause


def test_buckets_of_a_bias(rng):
    table = rng.normal(size=(32, 3))
    late = lambda w, T, S: positions.t5_bias(w, T, S, q_offset=1)  # noqa: E731
    verdict = check.check_forward(late, positions.t5_bias, table, T=9, S=12)
    assert verdict.cause == "the distance is one too small"


@pytest.mark.broad  # every program is tried in vain, twice
def test_another_base_of_given_tables(rng):
    def tables(base, first=0):
        frequencies = positions.rope_frequencies(8, base=base)
        return positions.rope_tables(np.arange(first, first + 9), frequencies)

    def other(x, _cos, _sin):
        return ROPE(x, *tables(5e5))

    x = rng.normal(size=(2, 9, 8))
    verdict = check.check_forward(other, ROPE, x, *tables(1e4))
    assert verdict.cause == "the base of the rotation is 500000, not 10000"
    for given_tables in (
        tables(1e4, 3),
        [a[:, :1] for a in tables(1e4)],
    ):  # of a cache, of one pair
        width = 2 * given_tables[0].shape[-1]
        wrong = check.check_forward(lambda x, *_: np.cos(x), ROPE, x[..., :width], *given_tables)
        assert "base" not in wrong.cause


def test_a_bias_that_is_subtracted(rng):
    q, k, v = rng.normal(size=(3, 2, 5, 8))
    bias = rng.normal(size=(5, 5))
    wrong = lambda *qkv, bias: SDPA(*qkv, bias=-bias)  # noqa: E731
    assert check.check_forward(wrong, SDPA, q, k, v, bias=bias).cause.startswith("the bias is sub")


def test_no_momentum_in_a_first_step_is_also_plain_momentum(rng):
    p, g = rng.normal(size=(2, 4, 5))
    nesterov, options = training.nesterov_step, {"learning_rate": 0.1}
    for kernel in (training.momentum_step, lambda *a, **o: nesterov(*a, momentum=0.0, **o)):
        cause = check.check_forward(kernel, nesterov, p, g, None, **options).cause
        assert cause == (
            "it is plain momentum, without Nesterov's look-ahead, or momentum is 0.0, not 0.9"
        )


def test_formulas_of_buckets_are_those_of_the_map():
    for both in (False, True):
        call = check._oracle.calls.ReferenceCall(
            BUCKET, "forward", (np.arange(-300, 301),), {"bidirectional": both}
        )
        rounding = dict(of_positions.other_buckets(call))
        down = rounding["buckets of far distances are rounded up, not down"][0] - call.run()
        assert set(np.unique(down)) == {0, 1}
    assert explanation_of(spec_of(BUCKET)[0]).mistakes

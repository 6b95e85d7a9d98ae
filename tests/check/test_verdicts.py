"""A verdict does not lie: no wrong cause, no alarm for what a kernel may leave out."""

import dataclasses
import functools

import numpy as np
import peers
import pytest

from dlref import activations as act
from dlref import attention as att
from dlref import check, losses, neurons, positions, recurrent, training, transformer
from dlref import normalization as norm
from dlref._records import spec_of
from dlref.check._reports import prepared

SDPA = att.scaled_dot_product_attention
SIZES = ((2, 5, 8), (2, 7, 8), (2, 7, 6))


def t(a):
    return np.swapaxes(a, -1, -2)


@pytest.fixture
def qkv(rng):
    return tuple(rng.normal(size=size) for size in SIZES)


# What is allowed.


def test_sums_are_judged_as_accumulated_in_float32(rng):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for n in (1024, 4096):
        x, w = (rng.normal(size=(5, n)).astype(ml_dtypes.bfloat16) for _ in "xw")

        def linear(x, w):
            out = np.zeros((len(x), len(w)), x.dtype)
            for j in range(x.shape[1]):
                out += x[:, j, None] * w[:, j]
            return out

        assert check.check_forward(neurons.linear, neurons.linear, x, w)
        verdict = check.check_forward(linear, neurons.linear, x, w)
        assert not verdict
        if n == 1024:  # beyond that they stagnate
            assert "sums in bfloat16" in verdict.cause
            assert check.check_forward(linear, neurons.linear, x, w, accum_dtype="bfloat16")


def test_a_strict_verdict_holds_each_element_to_its_own_size():
    def tail(x):
        return act.tanhshrink(x) + np.float32(2e-11)

    x = np.float32([1e-3, 0.5, 1.0])
    assert check.check_forward(tail, act.tanhshrink, x)
    assert not check.check_forward(tail, act.tanhshrink, x, strict=True)
    assert check.check_forward(act.tanhshrink, act.tanhshrink, x, strict=True)


def test_a_formula_that_overflows_grants_nothing():
    x = np.float32([[1e20, -1e20, 2e20, 0]])
    verdict = check.check_forward(np.zeros_like, norm.rms_norm, x)
    assert not verdict
    assert not verdict.inconclusive
    assert check.check_forward(norm.rms_norm, norm.rms_norm, x)


@pytest.mark.parametrize("name", ["strict", "accum_dtype"])
def test_limits_are_checked(name):
    with pytest.raises((TypeError, ValueError), match=name):
        check.check_forward(act.relu, act.relu, np.ones(3), **{name: "float128"})


# What a candidate may leave out.

TARGETED = [
    losses.binary_cross_entropy,
    losses.squared_error,
    losses.huber,
    losses.hinge,
    losses.absolute_error,
    losses.kl_divergence,
]


@pytest.mark.parametrize("op", TARGETED, ids=lambda op: op.__name__)
def test_a_target_needs_no_gradient(op):
    vjp = getattr(losses, f"{op.__name__}_vjp")
    first = next(check.hard_inputs(op, "float32"))
    x, target = first.inputs
    dout = np.float32(0.7)
    assert check.check_vjp(lambda *a: vjp(*a)[0], op, dout, x, target)
    assert check.check_vjp(lambda *a: (vjp(*a)[0], None), op, dout, x, target)
    assert check.check_vjp(vjp, op, dout, x, target)
    if "target" in op.__code__.co_varnames:
        bound = functools.partial(op, target=target)
        assert check.check_vjp(lambda u, x: vjp(u, x, target)[0], bound, dout, x)
    assert not check.check_vjp(lambda *a: 2 * vjp(*a)[0], op, dout, x, target)
    assert not check.check_vjp(lambda *a: (None, vjp(*a)[1]), op, dout, x, target)
    assert not check.check_vjp(lambda *a: (vjp(*a)[0], 2 * vjp(*a)[1]), op, dout, x, target)


def test_a_lambda_in_float32(rng):
    x, y = (rng.normal(size=(3, 4)).astype(np.float32) for _ in "xy")

    def vjp(u, x):
        return losses.squared_error_vjp(u, x, y)[0]

    wrapped = functools.partial(losses.squared_error, y.astype(float))  # in another order
    wrapped = lambda x, f=wrapped: f(x)  # noqa: E731
    assert check.check_vjp(vjp, wrapped, np.float32(1), x)
    assert not check.check_vjp(lambda u, x: 1.001 * vjp(u, x), wrapped, np.float32(1), x)


@pytest.mark.parametrize("form", ["forward", "vjp"])
def test_inputs_given_by_keyword_have_the_same_cause(rng, form):
    x, dout = rng.normal(size=(2, 4, 6))
    weight, bias = 1 + rng.normal(size=(2, 6)) / 4

    def unbiased(x, weight, bias, **_):
        n = x.shape[-1]
        shared = np.sqrt((n - 1) / n)
        return weight * (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * shared + bias

    def without_mean(dout, x, weight, bias, **_):
        xhat = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
        g = dout * weight
        dx = (g - xhat * (g * xhat).mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
        return dx, (dout * xhat).sum(0), dout.sum(0)

    judged, mine, given = {
        "forward": (check.check_forward, unbiased, (x,)),
        "vjp": (check.check_vjp, without_mean, (dout, x)),
    }[form]
    cause = judged(mine, norm.layer_norm, *given, weight, bias, eps=0.0).cause
    assert cause
    for places, names in [((), {"weight": weight, "bias": bias}), ((weight,), {"bias": bias})]:
        verdict = judged(mine, norm.layer_norm, *given, *places, **names, eps=0.0)
        assert verdict.cause == cause


def test_all_targets_ignored(rng):
    x, target = rng.normal(size=(3, 4)), np.full(3, -100)
    assert check.check_forward(losses.cross_entropy, losses.cross_entropy, x, target)
    assert not check.check_forward(lambda *_: np.float64(0), losses.cross_entropy, x, target)


@pytest.mark.parametrize(
    ("op", "gates"), [(recurrent.lstm_cell, 4), (recurrent.gru_cell, 3)], ids=["lstm", "gru"]
)
def test_missing_biases(rng, op, gates):
    states = (2, 4), (2, 4)
    shapes = (2, 3), *states[: gates - 2], (4 * gates, 3), (4 * gates, 4)
    inputs = [rng.normal(size=shape) for shape in shapes]
    out = op(*inputs)
    vjp = getattr(recurrent, f"{op.__name__}_vjp")
    jvp = getattr(recurrent, f"{op.__name__}_jvp")
    assert check.check_vjp(vjp, op, out, *inputs)
    point = (*inputs, None, None)
    assert check.check_jvp(jvp, op, point, point)
    wrong = check.check_forward(lambda *a: act.relu(a[1]), op, *inputs, None, None)
    assert not wrong


def test_boolean_results():
    verdict = check.check_forward(lambda *a: ~att.causal_mask(*a), att.causal_mask, 3, 4)
    assert verdict.cause == "it is inverted"
    assert check.check_forward(att.causal_mask, att.causal_mask, 3, 4)
    every = check.check_forward(lambda *a: np.ones((3, 4), bool), att.causal_mask, 3, 4)
    assert every.cause == "it is True everywhere"


def test_an_option_in_nested_lists(qkv):
    mask = np.ones((5, 7), bool)
    mask[1:, 2:5] = False

    def inverted(q, k, v, mask):
        return SDPA(q, k, v, mask=~np.asarray(mask))

    verdict = check.check_forward(inverted, SDPA, *qkv, mask=mask.tolist())
    assert "inverted" in verdict.cause


def test_a_partial_of_two_outputs(qkv):
    op = functools.partial(SDPA, return_lse=True)

    def vjp(dout, q, k, v, **options):
        return att.scaled_dot_product_attention_vjp(dout[0], q, k, v, dlse=dout[1], **options)

    def without_lse(dout, q, k, v, **options):
        return att.scaled_dot_product_attention_vjp(dout[0], q, k, v, **options)

    assert check.check_vjp(vjp, op, op(*qkv), *qkv)
    assert not check.check_vjp(without_lse, op, op(*qkv), *qkv)
    few = [[(2, 5, 8), (2, 7, 8), (2, 7, 6)]]
    report = check.check_all(op, op, vjp=vjp, shapes=few)
    assert report, str(report)
    assert report.op == "scaled_dot_product_attention"
    assert not check.check_all(None, op, vjp=without_lse, shapes=few)


def test_an_option_that_a_partial_decides_is_not_tried_again():
    op = functools.partial(act.softmax, axis=0)
    assert check.check_all(lambda x: act.softmax(x, axis=0), op)


def test_exchanged_arguments(qkv):
    def mine(q, k, v):
        return SDPA(q, k, v)

    with pytest.raises(TypeError, match="they are exchanged"):
        check.check_forward(SDPA, mine, *qkv)


def test_slopes_at_kinks_are_conventions():
    x = np.array([-2.0, -1, -0.5, 0, 0.5, 1, 2])
    for slope in (0.5, 1.0):
        verdict = check.check_vjp(
            lambda u, x, s=slope: u * np.where(abs(x) == 1, s, abs(x) < 1),
            act.hard_tanh,
            np.ones(7),
            x,
        )
        assert verdict.cause == (
            "only at -1 or 1, where two branches meet: the slope there is a convention"
        )
    twice = check.check_jvp(
        lambda x, dx: dx * np.where(abs(x) == 1, 2, abs(x) < 1), act.hard_tanh, x, np.ones(7)
    )
    assert "convention" not in twice.cause
    right = check.check_jvp(lambda x, dx: dx * (abs(x) <= 1), act.hard_tanh, x, np.ones(7))
    assert "convention" in right.cause
    inside = check.check_vjp(
        lambda u, x: u * (abs(x) < 1) * (x != 0.5), act.hard_tanh, np.ones(7), x
    )
    assert "convention" not in inside.cause


# Restricted and repeated.


def narrow(q, k, v, is_causal=False):
    if q.shape[-1] != 64 or k.shape[-2] % 128:
        msg = "a head is 64 wide, and the keys are a multiple of 128"
        raise ValueError(msg)
    return SDPA(q, k, v, is_causal=is_causal)


FITS = [[(1, 2, 128, 64)] * 3]


def test_shapes_that_a_kernel_can_take():
    assert not check.check_all(narrow, SDPA, options=())
    report = check.check_all(narrow, SDPA, shapes=FITS)
    assert report, str(report)
    assert [row.case for row in report.rows][-1].endswith(", is_causal")
    assert {"mask", "window", "sink"} <= {*report.skipped_options}
    wrong = check.check_all(lambda *a, is_causal=False: narrow(*a), SDPA, shapes=FITS)  # noqa: PLW0108
    assert not wrong
    with pytest.raises(ValueError, match="shape"):
        check.check_all(SDPA, SDPA, shapes=[[(1, 2), (3, 4), (5, 6)]])
    assert check.check_all(norm.layer_norm, norm.layer_norm, shapes=[[(2, 8), (8,), (8,)]])
    table = [[(9, 5, 4), (9, 5, 4), (5, 6), (5, 6)]]
    with pytest.raises((TypeError, ValueError), match=r"[Aa]rgument"):
        check.check_all(recurrent.lstm, recurrent.lstm, shapes=table)


def test_cases_of_ones_own():
    case = check.TestCase("mine", (np.ones(3, np.float32),), {})
    report = check.check_all(act.relu, act.relu, cases=[case])
    assert [row.case for row in report.rows] == ["mine"]
    with pytest.raises(ValueError, match="'cases' must hold at least one case"):
        check.check_all(act.relu, act.relu, cases=[])


def test_what_is_no_case_is_refused():
    array = np.ones(3)
    for wrong in (3, (array, {}), ("a", array, {}), ("a", (array,), None), (1, (array,), {})):
        for cases in ([wrong], wrong):
            with pytest.raises(TypeError, match="'cases' must have a name, a tuple of inputs"):
                check.check_all(act.relu, act.relu, cases=cases)
    with pytest.raises(TypeError, match="'cases' must have a name"):
        check.check_all(act.relu, act.relu, cases=check.TestCase("a", (array,), {}))
    with pytest.raises(ValueError, match="'shapes' must be None where 'cases' are given"):
        check.check_all(act.relu, act.relu, cases=[("a", (array,), {})], shapes=[[(3,)]])
    with pytest.raises(TypeError, match="'op' must be a function, not 3"):
        check.random_inputs(3, [(2,)], "float32", np.random.default_rng(0))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_a_report_on_cases_has_their_dtype(dtype):
    cases = [("a", (np.ones((2, 3), dtype), [0, 1]), {})]
    assert check.check_all(losses.cross_entropy, losses.cross_entropy, cases=cases).dtype == (
        np.dtype(dtype).name
    )
    assert check.check_all(act.relu, act.relu, cases=[("a", ([1, 2],), {})]).dtype == "float32"


def test_options_that_a_kernel_takes():
    report = check.check_all(lambda x, **options: act.gelu(x, **options), act.gelu, options=())  # noqa: PLW0108
    assert report
    assert report.skipped_options == ("approximate",)


@pytest.mark.parametrize(
    ("op", "options", "message"),
    [
        (act.softmax, ("axes",), r"have only 'axis', not 'axes'\. Did you mean 'axis'\?$"),
        (act.softmax, ["axis", "typo"], r"have only 'axis', not 'typo'\.$"),
        (act.softmax, [1], r"have only 'axis', not 1\.$"),
        (act.relu, {"axis"}, r"have no names, not 'axis'\.$"),
        (transformer.encoder_block, ["num_head"], r".* Did you mean 'num_heads'\?$"),
    ],
)
def test_names_of_no_option_are_refused(op, options, message):
    with pytest.raises(ValueError, match=f"^Argument 'options' must {message}"):
        check.check_all(op, op, options=options)


@pytest.mark.parametrize("options", ["axis", 3])
def test_options_are_several_names(options):
    with pytest.raises(TypeError, match=r"^Argument 'options' must be names of options"):
        check.check_all(act.softmax, act.softmax, options=options)


def test_an_option_of_a_case_and_of_a_form_is_known():
    cases = [("a", (np.ones((2, 3)), [0, 1]), {"weight": np.ones(3)})]
    loss = losses.cross_entropy
    assert check.check_all(loss, loss, cases=cases, options=["weight", "ignore_index"])
    known = spec_of(SDPA)[0]
    names = {
        key for samples in known.of_forms.values() for sample in samples for key in sample.options
    }
    assert "dlse" in names
    assert prepared(SDPA, SDPA, options=names).lacking.isdisjoint(names)


def test_a_case_alone_has_the_verdict_of_the_whole_run():
    """As fixture dlref_case asks, in any order."""
    wrong = lambda x: np.maximum(x, -1)  # noqa: E731
    run = prepared(wrong, act.relu)
    alone = [row for k in reversed(range(len(run.plan))) for row in run.report_on(k).rows]
    whole = check.check_all(wrong, act.relu).rows
    assert [(r.case, bool(r.verdict)) for r in reversed(alone)] == [
        (r.case, bool(r.verdict)) for r in whole
    ]
    assert 0 < sum(not r.verdict for r in alone) < len(alone)


def test_layouts():
    def bthe(q, k, v, is_causal=False):
        return np.swapaxes(
            SDPA(*(np.swapaxes(a, 1, 2) for a in (q, k, v)), is_causal=is_causal), 1, 2
        )

    assert check.check_all(bthe, SDPA, shapes=FITS, layout="BTHE")
    assert not check.check_all(bthe, SDPA, shapes=FITS)
    with pytest.raises(ValueError, match="layout"):
        check.check_all(bthe, SDPA, layout="BTH")


def test_results_that_differ_from_call_to_call():
    calls = []

    def race(x):
        calls.append(1)
        out = act.gelu(x)
        return np.nextafter(out, np.inf) if len(calls) % 3 == 0 and x.size > 20 else out

    report = check.check_all(race, act.gelu, repeats=2)
    assert {row.verdict.message.partition(":")[0] for row in report.failed} == {"nondeterministic"}
    assert check.check_all(act.gelu, act.gelu, repeats=2)

    def of_the_first_call(x, kept=[]):  # noqa: B006
        kept.append(x.copy())
        same = [a for a in kept if a.shape == x.shape]
        return act.relu(same[0])

    shown = check.check_all(of_the_first_call, act.relu, repeats=2)
    assert not shown
    assert not check.check_all(lambda x: 2 * x, act.relu, repeats=2)

    case = check.TestCase("one", (np.float32([1, -2, 3]),), {})
    only_once = iter([True])
    report = check.check_all(
        lambda x: act.relu(x) if next(only_once, False) else 0 * x,
        act.relu,
        cases=[case],
        repeats=2,
    )
    assert "keeps a state" in report.failed[0].verdict.message


def test_the_candidates_own_gradient():
    F = peers.torch.nn.functional
    options = {"vjp": "autograd", "framework": "torch"}
    assert check.check_all(F.silu, act.silu, **options)
    assert check.check_all(lambda x: peers.torch.nn.SiLU()(x), act.silu, **options)  # noqa: PLW0108
    detached = check.check_all(lambda x: x * x.sigmoid().detach(), act.silu, **options)
    assert {row.form for row in detached.failed} == {"vjp"}

    def attend(q, k, v, is_causal=False):
        q, k, v = (a.transpose(1, 2) for a in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).transpose(1, 2)

    assert check.check_all(attend, SDPA, shapes=FITS, layout="BTHE", **options)
    pairs = [[(5, 7), (5, 7)]]
    assert check.check_all(F.mse_loss, losses.squared_error, shapes=pairs, **options)


def test_the_candidates_own_gradient_in_jax():
    jax = pytest.importorskip("jax")
    options = {"vjp": "autograd", "framework": "jax"}
    softmax = jax.jit(jax.nn.softmax, static_argnames="axis")  # eager, it is compiled by operation
    assert check.check_all(softmax, act.softmax, **options)
    stopped = check.check_all(
        lambda x: x * jax.lax.stop_gradient(jax.nn.sigmoid(x)), act.silu, **options
    )
    assert {row.form for row in stopped.failed} == {"vjp"}


def test_the_candidates_own_gradient_of_a_bias_and_of_parameters():
    linear = peers.torch.nn.functional.linear

    def attend(q, k, v, bias=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (scores if bias is None else scores + bias).softmax(-1) @ v

    def without(q, k, v, bias=None):
        return attend(q, k, v, None if bias is None else bias.detach())

    def heads(x_q, x_kv, p, num_heads):
        x_kv = x_q if x_kv is None else x_kv
        of = ((x_q, p.w_q, p.b_q), (x_kv, p.w_k, p.b_k), (x_kv, p.w_v, p.b_v))
        q, k, v = (linear(*a).unflatten(-1, (num_heads, -1)).transpose(-2, -3) for a in of)
        return linear(attend(q, k, v).transpose(-2, -3).flatten(-2), p.w_o, p.b_o)

    options = {"vjp": "autograd", "framework": "torch"}
    assert check.check_all(attend, SDPA, shapes=[[(2, 5, 8)] * 3], **options)
    report = check.check_all(without, SDPA, shapes=[[(2, 5, 8)] * 3], **options)
    assert {(row.form, "bias" in row.case) for row in report.failed} == {("vjp", True)}
    assert check.check_all(heads, att.multi_head_attention, **options)


def test_nan_everywhere_is_no_slip():
    torch = peers.torch

    def attend(q, k, v, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        return torch.nan_to_num(scores.softmax(-1) @ v)

    case = next(c for c in check.hard_inputs(SDPA, "float32") if "sees no key" in c.name)
    options = {"vjp": "autograd", "framework": "torch"}
    (row,) = check.check_all(attend, SDPA, cases=[case], **options).failed
    assert row.form == "vjp"
    assert "stands where" not in row.verdict.cause


def test_autograd_is_of_a_framework():
    with pytest.raises(ValueError, match="framework"):
        check.check_all(act.silu, act.silu, vjp="autograd")
    with pytest.raises(ValueError, match="vjp"):
        check.check_all(act.silu, act.silu, vjp="numeric", framework="torch")


# Causes.

GRID = np.random.default_rng(3).normal(size=(40, 50)).astype(np.float32)
ONES = np.random.default_rng(4).normal(size=(40, 50)).astype(np.float32)
SYSTEMATIC = {
    "a term of the input": lambda x, y: y + np.float32(1e-3) * np.tanh(3 * x),
    "an even term": lambda x, y: y + np.float32(1e-3) * np.cos(x),
    "a term of the place": lambda x, y: y + np.float32(1e-3) * np.linspace(-1, 1, 50, dtype="f"),
    "a term of the row": lambda x, y: y * (1 + np.float32(1e-3) * ONES[:, :1]),
    "a constant": lambda x, y: y + np.float32(1e-3),
    "a few elements": lambda x, y: y + np.float32(0.1) * (abs(ONES) > 3.3),
}


@pytest.mark.parametrize("what", SYSTEMATIC)
def test_what_is_systematic_is_no_noise(what):
    verdict = check.check_forward(lambda x: SYSTEMATIC[what](x, act.gelu(x)), act.gelu, GRID)
    assert not verdict
    assert "noise" not in verdict.cause


def test_noise_is_noise():
    for seed in range(5):
        rng = np.random.default_rng(seed)

        def rounded(x, rng=rng):
            y = act.gelu(x)
            return y * (1 + rng.uniform(-1, 1, y.shape).astype("f") * np.float32(2.0**-9))

        assert "bfloat16" in check.check_forward(rounded, act.gelu, GRID).cause


def test_a_small_factor_is_named():
    verdict = check.check_vjp(
        lambda u, x: act.gelu_vjp(u, x) * np.float32(1.0005), act.gelu, ONES, GRID
    )
    assert verdict.cause == "it is the exact result times 1.0005"


@pytest.mark.parametrize(
    ("op", "shapes"),
    [(norm.layer_norm, [(4, 8)]), (neurons.linear, [(4, 8), (3, 8)]), (act.relu, [(4, 8)])],
)
def test_nan_is_no_overflow_of_an_exponential_where_there_is_none(rng, op, shapes):
    inputs = [1e4 * rng.normal(size=shape).astype("f") for shape in shapes]
    verdict = check.check_forward(lambda *a: np.nan * op(*a), op, *inputs)
    assert not verdict
    assert "exponential" not in verdict.cause


def test_a_variance_that_cancels_is_computed():
    x = (GRID + np.float32(300)).astype(np.float32)

    def one_pass(x):
        mean = x.mean(-1, keepdims=True)
        var = (x * x).mean(-1, keepdims=True) - mean * mean
        return (x - mean) / np.sqrt(var + np.float32(1e-5))

    assert "variance cancels" in check.check_forward(one_pass, norm.layer_norm, x).cause
    for wrong in (
        lambda x: np.random.default_rng(0).normal(size=x.shape).astype("f"),
        lambda x: norm.layer_norm(x)[..., ::-1].copy(),
    ):
        assert "variance" not in check.check_forward(wrong, norm.layer_norm, x).cause


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_wrong_scalar_has_no_specific_cause(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(6, 5)).astype(dtype) for _ in "xy")
    causes = []
    for _ in range(100):
        wrong = np.dtype(dtype).type(rng.uniform(0.1, 9))
        causes.append(check.check_forward(lambda *_, w=wrong: w, losses.squared_error, x, y).cause)
    assert not any(causes), {*causes}
    if dtype != "float16":
        verdict = check.check_forward(lambda a, b: ((a - b) ** 2).sum(), losses.squared_error, x, y)
        assert verdict.cause == "reduction is sum, not mean"


def test_zeros_constants_and_inputs_have_their_own_words():
    for out, message in (
        (np.zeros_like(GRID), "it is zero: not computed, not written, or multiplied by 0"),
        (np.ones_like(GRID), "it is one number in all places"),
        (GRID, "it is x, unchanged"),
    ):
        assert check.check_forward(lambda x, out=out: out, act.gelu, GRID).cause == message
    assert check.check_vjp(lambda u, x: u, act.gelu, ONES, GRID).cause == "it is dout, unchanged"


def test_a_headline_explains_half_of_the_failures():
    rows = []
    for cause in ("a", "b", "c"):
        output = check.check_forward(lambda x: 2 * x, act.relu, np.ones(4)).outputs[0]
        verdict = check.Verdict(False, (dataclasses.replace(output, cause=cause),), "")
        rows.append(check.CheckRow("forward", cause, verdict))
    assert "most often" not in str(check.CheckReport("relu", "float64", tuple(rows)))
    assert "most often (2): a" in str(check.CheckReport("relu", "float64", (*rows[:2], rows[0])))


# Lines of attention's backward.


def backward(dout, q, k, v, *, slip="", softcap=None, dropout=1.0):
    scale, heads = q.shape[-1] ** -0.5, q.shape[-3] // k.shape[-3]
    wide_k, wide_v = (np.repeat(a, heads, -3) for a in (k, v))
    p = att.attention_weights(q, k, softcap=softcap)
    raw = q @ t(wide_k) * scale
    slope = scale * (1 - np.tanh(raw / softcap) ** 2 if softcap and slip != "cap" else 1)
    if slip == "scale":
        slope = slope / scale
    dp = dout @ t(wide_v) * (1 if slip == "dp" else dropout)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    dq, dk, dv = (
        ds * slope @ wide_k,
        t(ds * slope) @ q,
        t(p * (1 if slip == "dv" else dropout)) @ dout,
    )

    def joined(parts):
        each = parts.reshape(*k.shape[:-2], heads, *parts.shape[-2:])
        if slip in ("first", "last"):
            return each[..., 0 if slip == "first" else -1, :, :]
        if slip == "tiled":
            return parts.reshape(*k.shape[:-3], heads, k.shape[-3], *parts.shape[-2:]).sum(-4)
        return each.sum(-3)

    return dq, joined(dk), joined(dv)


@pytest.mark.parametrize(
    ("slip", "options", "message"),
    [
        ("cap", {"softcap": 1.0}, "lacks the slope of the soft cap, 1 - tanh^2"),
        ("scale", {}, "lacks the scale of the scores, 1/sqrt(E)"),
        ("dv", {"dropout": 2.0}, "dv lacks the mask of dropout"),
        ("dp", {"dropout": 2.0}, "the gradient of the probabilities lacks the mask of dropout"),
        ("first", {}, "of the first query head of each group alone"),
        ("last", {}, "of the last query head of each group alone"),
        ("tiled", {}, "summed over heads apart (0 1 0 1)"),
    ],
)
def test_lines_of_the_backward_of_attention(rng, slip, options, message):
    q, k, v = (rng.normal(size=s) for s in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)))
    dout = rng.normal(size=(2, 4, 5, 6))
    if "dropout" in options:
        options = {"dropout": 2.0 * (rng.random((5, 7)) < 0.6)}
    assert check.check_vjp(backward, SDPA, dout, q, k, v, **options)
    verdict = check.check_vjp(
        functools.partial(backward, slip=slip), SDPA, dout, q, k, v, **options
    )
    assert message in verdict.cause, str(verdict)


def test_dlse_is_ignored(qkv):
    out, lse = SDPA(*qkv, return_lse=True)

    def vjp(dout, q, k, v, dlse):
        return att.scaled_dot_product_attention_vjp(dout, q, k, v)

    verdict = check.check_vjp(vjp, SDPA, out, *qkv, dlse=lse)
    assert verdict.cause == "the gradient of the log-sum-exp, dlse, is ignored"


# Mistakes that are one line of mathematics.


def rows_of_smoothed(u, x, c, label_smoothing):
    dx = losses.cross_entropy_vjp(u, x, c, label_smoothing=label_smoothing)
    p = act.softmax(x)
    rest = u / (c >= 0).sum() * label_smoothing * (p - 1 / x.shape[-1])
    return np.where((c >= 0)[:, None], dx, rest)


def lstm_cell(x, h, c, w_ih, w_hh, b_ih, b_hh, *, of_g=np.tanh, of_c=np.tanh):
    i, f, g, o = np.split(x @ w_ih.T + h @ w_hh.T + b_ih + b_hh, 4, -1)
    c = act.sigmoid(f) * c + act.sigmoid(i) * of_g(g)
    return act.sigmoid(o) * of_c(c), c


def identity(x):
    return x


R = np.random.default_rng(11)
Q, K, V = (R.normal(size=s) for s in ((2, 40, 8), (2, 40, 8), (2, 40, 6)))
SINK = np.array([1.0, -0.5])
CELL = [R.normal(size=s) for s in ((2, 3), (2, 4), (2, 4), (16, 3), (16, 4), (16,), (16,))]
LOGITS, CLASSES = R.normal(size=(6, 5)), np.array([0, -100, 2, 3, -100, 1])
SIGNS = R.choice([-1.0, 1.0], (6, 5))
P, G = R.normal(size=(2, 4, 5))
TURNS = np.outer(np.arange(9), [1.0, 0.1, 0.01])
HEADS = R.normal(size=(2, 5, 8)), R.normal(size=(2, 5, 8))
PARAMS = att.AttentionParams(*(R.normal(size=(8, 8)) for _ in range(4)), *R.normal(size=(4, 8)))


def options_of(op, **changes):
    """Return a kernel that takes other values for options, or a function of the right ones."""

    def kernel(*inputs, **options):
        for key, new in changes.items():
            options[key] = new(options[key]) if callable(new) else new
        return op(*inputs, **options)

    return kernel


LINES = {
    "(W, W) for (W, 0)": (
        SDPA,
        options_of(SDPA, window=lambda w: (w[0], w[0])),
        (Q, K, V),
        {"window": (3, 0)},
        "as long to the right",
    ),
    "both ends": (
        SDPA,
        options_of(SDPA, window=lambda w: (w[0] + 1, w[1] + 1)),
        (Q, K, V),
        {"window": (3, 2)},
        "one key too long on both sides",
    ),
    "the last tile": (
        SDPA,
        lambda q, k, v: SDPA(q, k[:, :32], v[:, :32]),
        (Q, K, V),
        {},
        "the last 8 keys, beyond a multiple of 32, are left out",
    ),
    "a sink twice": (
        SDPA,
        options_of(SDPA, sink=lambda s: s + np.log(2)),
        (Q, K, V),
        {"sink": SINK},
        "the sink counts twice",
    ),
    "a sink to base 2": (
        SDPA,
        options_of(SDPA, sink=lambda s: s * np.log(2)),
        (Q, K, V),
        {"sink": SINK},
        "the sink lacks the factor log2(e)",
    ),
    "a sink in the cap": (
        SDPA,
        options_of(SDPA, sink=np.tanh),
        (Q, K, V),
        {"sink": SINK, "softcap": 1.0},
        "the soft cap is applied to the sink",
    ),
    "b_o": (
        att.multi_head_attention,
        lambda x, y, p, **options: att.multi_head_attention(x, y, p._replace(b_o=None), **options),
        (*HEADS, PARAMS),
        {"num_heads": 2},
        "b_o is ignored",
    ),
    "a cache": (
        positions.apply_rope,
        lambda x, cos, sin: positions.apply_rope(x, np.cos(TURNS[:5]), np.sin(TURNS[:5])),
        (R.normal(size=(2, 5, 6)), np.cos(TURNS[4:]), np.sin(TURNS[4:])),
        {},
        "4 too small: a cache is not counted",
    ),
    "an offset twice": (
        norm.rms_norm,
        lambda x, w, weight_offset: norm.rms_norm(x, w + 1, weight_offset=1.0),
        (LOGITS, LOGITS[0]),
        {"weight_offset": 1.0},
        "added twice",
    ),
    "hinge": (
        losses.hinge,
        lambda x, y: (np.maximum(0, 1 - x * y) ** 2).mean(),
        (LOGITS, SIGNS),
        {},
        "the hinge is squared",
    ),
    "tanh of c": (
        recurrent.lstm_cell,
        functools.partial(lstm_cell, of_c=identity),
        CELL,
        {},
        "c stands where tanh(c) is due",
    ),
    "tanh of g": (
        recurrent.lstm_cell,
        functools.partial(lstm_cell, of_g=identity),
        CELL,
        {},
        "z_g stands where tanh(z_g) is due",
    ),
    "decay": (
        training.adamw_step,
        options_of(training.adamw_step, weight_decay=lambda decay: decay / 0.1),
        (P, G, None),
        {"learning_rate": 0.1, "weight_decay": 0.05},
        "weight_decay stands where learning_rate * weight_decay",
    ),
}


@pytest.mark.parametrize("what", LINES)
def test_lines_of_mathematics(what):
    op, wrong, inputs, options, message = LINES[what]
    assert check.check_forward(op, op, *inputs, **options)
    verdict = check.check_forward(wrong, op, *inputs, **options)
    assert not verdict
    assert message in verdict.cause, str(verdict)


def test_smoothed_labels_of_ignored_rows():
    given = 1.0, LOGITS, CLASSES
    verdict = check.check_vjp(rows_of_smoothed, losses.cross_entropy, *given, label_smoothing=0.1)
    assert "ignored keep the gradient" in verdict.cause
    right = losses.cross_entropy_vjp
    assert check.check_vjp(right, losses.cross_entropy, *given, label_smoothing=0.1)


def test_integers_are_exact_numbers():
    f = lambda x: np.exp(x) / np.exp(x).sum(-1)  # noqa: E731
    assert check.check_forward(f, act.softmax, [1, 2, 3])
    assert not check.check_forward(lambda x: f(x) + 0.01, act.softmax, [1, 2, 3])
    right = lambda x, y: np.mean(-np.log([f(row)[k] for row, k in zip(x, y, strict=True)]))  # noqa: E731
    assert check.check_forward(right, losses.cross_entropy, [[1, 2, 3], [3, 4, 1]], [1, 2])


def test_what_is_no_array_is_shown():
    for value in ("text", {"out": 1}, [1, "text"]):
        verdict = check.check_forward(lambda x, value=value: value, act.softmax, np.ones(3))
        assert verdict.message == f"the candidate returned {value!r}, which is no array"


def test_arguments_that_are_none():
    with pytest.raises(ValueError, match="'candidate' must be a function where neither"):
        check.check_all(None, act.softmax)
    with pytest.raises(TypeError, match="'candidate' must be a function, not 'softmax'"):
        check.check_all("softmax", act.softmax)
    for shapes in ([(2, 3)], 5, [5], []):
        with pytest.raises(TypeError, match="'shapes' must have the shapes of all inputs"):
            check.check_all(act.softmax, act.softmax, shapes=shapes)
    with pytest.raises(ValueError, match="'layout' must have the letters"):
        check.check_all(SDPA, SDPA, layout=4)

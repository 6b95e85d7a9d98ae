"""Changes that reports of December 2026 led to: selections, ends, forms, one call of several."""

import ast

import numpy as np
import pytest

from dlref import attention as att
from dlref import calculus, check, convolution, losses, positions, training, transformer
from dlref import normalization as norm
from dlref.check._oracle.calls import ReferenceCall
from dlref.check._oracle.causes import changes, heuristics, mutations, programs, readings
from dlref.check._oracle.causes.changes import expression
from dlref.check._oracle.helpers import HELPERS
from dlref.formulas import transformer as formulas

R = np.random.default_rng(149)


def made(change, text, *rest, **options):
    """Return what stands for an expression."""
    return [ast.unparse(other) for other in change(expression(text), *rest, **options)]


def said(candidate, op, *some, **options):
    """Return the report of some cases of inputs and options."""
    cases = [check.TestCase(f"case {i}", *case) for i, case in enumerate(some)]
    return str(check.check_all(candidate, op, cases=cases, dtype="float64", **options))


# Expressions.


def test_from_one_end_to_the_other():
    others = made(changes.interpolations, "a + (b - a) * w / 2")
    assert others == ["np.maximum(a, b * w / 2)", "np.minimum(a, b * w / 2)", "b - (b - a) * w / 2"]
    assert made(changes.interpolations, "w * (b - a) + a")[0] == "np.maximum(a, w * b)"
    for text in ("a - (b - a) * w", "a + (b - c) * w", "a + w / (b - a)", "a"):
        assert made(changes.interpolations, text) == []


def test_a_root_of_another_statistic():
    others = made(changes.misread_statistics, "np.sqrt(var + eps)")
    assert others == [
        "np.sqrt(np.sqrt(var + eps) + eps)",
        "np.sqrt(1 / np.sqrt(var + eps) + eps)",
        "1 / np.sqrt(var + eps)",
        "1 / var",
    ]
    assert made(changes.misread_statistics, "np.sqrt(var)") == []
    assert made(changes.misread_statistics, "np.exp(var + eps)") == []


def test_functions_of_two_lines():
    lines = {"c": expression("clip(r, e)"), "t": expression("x + h"), "n": expression("3")}
    assert made(changes.regrouped_lines, "c * a", lines) == ["clip(r * a, e)"]
    assert made(changes.regrouped_lines, "f(t, n)", lines) == ["f(x, n) + h", "x + f(h, n)"]
    for text in ("a * b", "f(n)", "f(a)", "t"):
        assert made(changes.regrouped_lines, text, lines) == []


def test_averages_without_complements():
    assert made(changes.without_complements, "(1 - b) * g") == ["g", "b * g"]
    for text in ("(2 - b) * g", "b * g", "1 - b"):
        assert made(changes.without_complements, text) == []


def test_ramps_that_jump():
    others = made(changes.further_changes, "np.clip(t, 0, 1)", {}, {})
    assert {"np.where(t > 0, 1, 0)", "np.where(t >= 1, 1, 0)"} <= {*others}
    assert "0.0" in made(changes.further_changes, "-np.inf", {}, {})


def test_selections():
    shapes = {"p": (4, 3), "x": (4,), "n": ()}
    choices = {"best": ("i", (4, 2)), "c": ("i", (4,)), "m": ("b", (4,)), "w": ("b", (3, 4))}
    assert made(changes.selected, "p", shapes, choices) == [
        *("at_indices(p, best)", "beyond_indices(p, best)", "at_indices(p, c)"),
        *("beyond_indices(p, c)", "p * m[..., None]", "p * ~m[..., None]"),
    ]
    of_rows = {key: choices[key] for key in ("best", "m")}
    assert made(changes.selected, "x", shapes, of_rows) == ["x * m", "x * ~m"]
    assert made(changes.selected, "m", shapes, choices) == ["~m"]
    assert made(changes.selected, "n", shapes, choices) == []
    assert made(changes.selected, "p + 1", shapes, choices) == []
    p, best = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[2, 0], [1, 1]])
    np.testing.assert_array_equal(HELPERS["at_indices"](p, best), [[1, 0, 3], [0, 5, 0]])
    np.testing.assert_array_equal(HELPERS["beyond_indices"](p, best), [[0, 2, 0], [4, 0, 6]])


def test_calls_that_take_another_variable():
    source = "def f(x, z):\n    return x + softmax(z, 1) + np.exp(z) + softmax(2 * z)"
    (f,) = ast.parse(source).body
    calls = changes.calls_of_formulas(f, vars(formulas))
    assert {*map(ast.unparse, calls)} == {"softmax(z, 1)", "softmax(2 * z)"}
    shapes = {"x": (3,), "z": (3,), "n": ()}
    assert made(changes.applied_again, "x", calls, shapes) == ["softmax(x, 1)"]
    assert made(changes.applied_again, "n", calls, shapes) == []
    assert made(changes.applied_again, "x + 1", calls, shapes) == []


def test_results_of_a_branch_that_join_the_others():
    source = "if c:\n    return a\nif d:\n    return\nreturn b"
    (factor, block), (term, other) = changes.returned_factors(ast.parse(source).body)
    assert [*map(ast.unparse, block)][1:] == ["return b * a if c else b"]
    assert ast.unparse(block[0]) == "if d:\n    return"
    assert ast.unparse(other[1]) == "return b + a if c else b"
    assert factor == "a is a factor of what is due without it"
    assert term == "a is added to what is due without it"
    for text in ("if c:\n    y = a", "if c:\n    return a\nelse:\n    y = b", "y = a"):
        assert [*changes.returned_factors(ast.parse(text).body)] == []


def test_additions_that_are_assignments():
    (message, (statement,)), *more = changes.statement_changes(ast.parse("np.add.at(y, i, v)").body)
    assert ast.unparse(ast.fix_missing_locations(statement)) == "y[i] = v"
    assert message == "y[i] = v stands where add.at(y, i, v) is due"
    assert more == []
    assert [*changes.statement_changes(ast.parse("np.exp(y)").body)] == []


def test_functions_of_positive_numbers_and_factors_of_floats():
    assert HELPERS["_sqrt"](np.array([4.0])) == 2
    assert HELPERS["of_floats"](2.5) == 2.5
    for name, a in (("_sqrt", np.array([1.0, -1.0])), ("_log", -1.0), ("of_floats", 7)):
        with pytest.raises(NotImplementedError):
            HELPERS[name](a)


def test_definitions_and_calls_are_copies():
    (f,) = ast.parse("def f(x):\n    x = (x + softmax(x)) * 2\n    return x").body
    value = changes.definitions_in(f)["x"]
    assert ast.unparse(value) == "(x + softmax(x)) * 2"
    assert value is not f.body[0].value
    (call,) = changes.calls_of_formulas(f, vars(formulas))
    assert all(call is not node for node in ast.walk(f))


# Kernels.


def schedule(step, *, peak, steps, floor):
    return np.maximum(peak * (1 + np.cos(np.pi * np.clip(step / steps, 0, 1))) / 2, floor)


def balance(scores, experts):
    chosen = (experts[..., None] == np.arange(scores.shape[-1])).any(-2)
    counts = np.bincount(experts.ravel(), minlength=scores.shape[-1])
    return scores.shape[-1] * (counts / len(scores) * (scores * chosen).mean(0)).sum()


def normalized_vjp(u, x, *, eps=1e-5):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    inverse = 1 / np.sqrt(var + eps)
    rstd = 1 / np.sqrt(inverse + eps)
    y = (x - mu) * rstd
    return rstd * (u - u.mean(-1, keepdims=True) - y * (u * y).mean(-1, keepdims=True))


def surrogate(log_p, old, advantage, *, clip=0.2):
    gain = np.exp(log_p - old) * advantage
    return -np.minimum(gain, np.clip(gain, 1 - clip, 1 + clip)).mean()


def rows_assigned(u, x, indices):
    dx = np.zeros_like(x)
    dx[indices] = u
    return dx


def shared_biases(x, weight, bias, *, groups):
    n = weight.shape[1]
    return convolution.conv_transpose(x, weight, np.tile(bias[:n], groups), groups=groups)


def moments(p, g, state, learning_rate, *, betas=(0.9, 0.999), eps=1e-8):
    t, m, v = state.step + 1, betas[0] * state.mean + g, betas[1] * state.square + g * g
    m_hat, v_hat = m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)
    return p - learning_rate * m_hat / (np.sqrt(v_hat) + eps), (t, m, v, None)


def factor_of_both(scaling):
    own = 0.1 * np.log(scaling["factor"]) + 1
    return float(own * scaling.get("attention_factor", 1))


def after_a_step(*shape):
    state = training.AdamState(3, R.normal(size=shape), R.uniform(0.1, 2, shape), None)
    return (*R.normal(size=(2, *shape)), state), {"learning_rate": 0.1}


def tokens(n, d, k):
    scores = R.uniform(0.1, 1, (n, d))
    return (scores / scores.sum(-1, keepdims=True), np.argsort(-scores)[:, :k]), {}


def policies(*shape):
    log_p = -R.uniform(0.2, 3, shape)
    return (log_p, log_p + R.normal(size=shape) / 2, R.normal(size=shape)), {}


def in_groups(groups, i, o):
    inputs = R.normal(size=(2, groups * i, 5)), R.normal(size=(groups * i, o, 3))
    return (*inputs, R.normal(size=groups * o)), {"groups": groups}


def yarn(factor, given):
    return (
        {"type": "yarn", "factor": factor, "original_max_position_embeddings": 32, **given},
    ), {}


KERNELS = {
    "an end by a maximum": (
        schedule, training.cosine_schedule,
        [((np.arange(9.0 * n),), {"peak": 2.0, "steps": 8 * n, "floor": 0.3}) for n in (1, 2)],
        "maximum(floor, peak",
    ),
    "selected entries alone": (
        balance, transformer.load_balancing_loss, [tokens(6, 5, 2), tokens(7, 4, 3)],
        "the selected entries alone are read",
    ),
    "a product that is clipped": (
        surrogate, losses.policy_loss, [policies(4, 6), policies(3, 9)],
        "limit_ratio(ratio * advantage, clip, high) stands where clipped * advantage is due",
    ),
    "rows that are assigned": (
        rows_assigned, calculus.take_vjp,
        [((R.normal(size=(5, n)), R.normal(size=(4, n)), np.array([1, 3, 1, 0, 3])), {})
         for n in (3, 6)],
        "= updates stands where",
    ),
    "biases of the first group": (
        shared_biases, convolution.conv_transpose, [in_groups(2, 3, 2), in_groups(3, 2, 3)],
        "the first entries are read again of bias for each of groups",
    ),
    "averages without their factors": (
        moments, training.adam_step, [after_a_step(3, 4), after_a_step(7)],
        "g stands where (1 - beta1) * g is due; and",
    ),
    "a result that is a factor": (
        factor_of_both, positions.rope_attention_factor,
        [yarn(s, {"attention_factor": a}) for s, a in ((4.0, 1.3), (64.0, 1.5), (9.0, 0.7))],
        "is a factor of what is due without it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", KERNELS)
def test_kernels_are_named(what):
    candidate, op, cases, words = KERNELS[what]
    assert words in said(candidate, op, *cases)


def test_a_misread_deviation_is_named():
    cases = [((2 * R.normal(size=shape),), {}) for shape in ((3, 5), (4, 7))]
    report = said(None, norm.layer_norm, *cases, vjp=normalized_vjp)
    assert "sqrt(1 / sqrt(var + eps) + eps) stands where sqrt(var + eps) is due" in report


def test_products_of_all_numbers_have_no_kinks():
    def kernel(u, x):
        total = np.cumsum((u * np.cumprod(x))[::-1])[::-1]
        return np.where(x == 0, 0, total / np.where(x == 0, 1, x))

    cases = []
    for n in (5, 8):
        x = R.normal(size=n)
        x[n // 2] = 0
        cases.append(((x,), {}))
    assert "kink" not in said(None, calculus.cumprod, *cases, vjp=kernel)


def test_inputs_that_are_refused_say_nothing_of_elements():
    call = ReferenceCall(calculus.cumprod, "vjp", (np.ones(2), np.ones(3)), {})
    pair = heuristics.Pair(call, 0, np.ones(3), np.ones(3), 0.0, np.dtype("float64"))
    assert heuristics._is_of_elements(pair, np.zeros(3, bool))


def test_an_option_that_a_right_case_heeds_is_not_ignored():
    def kernel(x, target, *, gamma=2.0, reduction="mean"):
        other = "none" if reduction == "none" else "mean"
        return losses.softmax_focal_loss(x, target, gamma=gamma, reduction=other)

    x, target = R.normal(size=(6, 5)), R.integers(0, 5, 6)
    every = ({}, {"gamma": 1.0}, {"gamma": 3.0}, {"gamma": 0.5})
    kinds = ({"reduction": "sum"}, {"gamma": 3.0, "reduction": "sum"}, {"reduction": "none"})
    report = said(kernel, losses.softmax_focal_loss, *(((x, target), o) for o in (*every, *kinds)))
    assert "ignored" not in report
    assert "reduction is mean, not sum" in report


def test_forms_that_are_functions_have_formulas():
    call = ReferenceCall(calculus.max_vjp, "forward", (np.ones(3), np.eye(3)), {"axis": 0})
    assert mutations.formula_of(call).__name__ == "max_vjp"
    assert call.spec is ReferenceCall(calculus.max_vjp, "forward", (), {}).spec


def block():
    d = 4
    network = transformer.FeedForwardParams(*(R.normal(size=s) for s in ((6, d), 6, (d, 6), d)))
    norms = [transformer.NormParams(*R.normal(size=(2, d))) for _ in range(2)]
    attention = att.AttentionParams(*R.normal(size=(4, d, d)))
    params = transformer.EncoderBlockParams(attention, norms[0], network, norms[1])
    options = {"num_heads": 2, "norm_first": True}
    call = ReferenceCall(
        transformer.encoder_block, "forward", (R.normal(size=(3, d)), params), options
    )
    return call, params


def test_a_change_in_one_call_of_several():
    call, params = block()
    formula = mutations.formula_of(call)
    every = {p.message: p for p in programs.programs_at_one_call(formula, call)}
    text = "normalize(x, norm, o) stands where x is due, in the {} call of sublayer alone"
    (got,) = every[text.format("second")].run(call)
    x, _ = call.arguments
    z = norm.layer_norm(x, *params.norm1)
    x = x + att.multi_head_attention(z, z, params.attention, num_heads=2)
    z, f = norm.layer_norm(x, *params.norm2), params.feed_forward
    due = z + np.maximum(z @ f.w1.T + f.b1, 0) @ f.w2.T + f.b2
    np.testing.assert_allclose(got, due, atol=1e-12)
    assert text.format("first") in every
    again = every[text.format("second")].run(call)
    np.testing.assert_array_equal(again[0], got)


def test_counts_of_groups_are_inputs_or_options():
    call = ReferenceCall(norm.group_norm, "forward", (np.ones((2, 6)), 3), {})
    assert readings._counts(call) == {"groups": 3}

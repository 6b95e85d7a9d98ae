"""Two changes that explain a part each, other maps and inputs, and steps of loops."""

import ast
import functools

import numpy as np
import pytest

from dlref import activations as act
from dlref import check, formulas, losses, quantization, transformer
from dlref import normalization as norm
from dlref.check._oracle.calls import ReferenceCall
from dlref.check._oracle.causes import changes, pairs, programs, readings
from dlref.check._oracle.causes.evidence import Evidence
from dlref.check._oracle.causes.mutations import formula_of

R = np.random.default_rng(131)
X, U, W, B = R.normal(size=(5, 8)), R.normal(size=(5, 8)), R.normal(size=8), R.normal(size=8)


def rows(a):
    return a.mean(-1, keepdims=True)


def rms_vjp(u, x, w, *, eps=1e-6):
    """Return gradients whose first term is twice what is due, and whose mean is a sum."""
    rho = np.sqrt(rows(x * x) + eps)
    g, y = u * w, x / rho
    return (2 * g - y * (g * y).sum(-1, keepdims=True)) / rho, np.sum(u * y, axis=0)


def layer_norm(x, w, b, *, eps=1e-5):
    """Return a norm by n - 1, whose weight is an offset from 1: the two changes multiply."""
    return (x - rows(x)) / np.sqrt(x.var(-1, ddof=1, keepdims=True) + eps) * (1 + w) + b


def batch_norm_inference(x, mean, var, w, b, *, eps=1e-5):
    del mean
    return (x - x.mean(0)) / np.sqrt(var + eps) * w + b


def no_variance(x, mean, var, w, b, *, eps=1e-5):
    return (x - mean) / np.sqrt(np.ones_like(var) + eps) * w + b


def cases(*shapes):
    return [
        check.TestCase(f"case {i}", tuple(np.abs(R.normal(size=s)) for s in shapes), {})
        for i in range(3)
    ]


ROWS, PAIR = ((5, 8), (8,)), ((5, 8), (5, 8))
NORMED = *ROWS, (8,), (8,), (8,)
KINDS = {
    "sums": (norm.rms_norm, "vjp", rms_vjp, ROWS,
             "is due; and sum(g * x_hat, axis=-1) stands where mean(g * x_hat, axis=-1) is due"),
    "nearest": (norm.layer_norm, "forward", layer_norm, (*ROWS, (8,)),
                "weight + 1 stands where weight is due; and mean_by_less("),
    "another map": (losses.squared_error, "forward", losses.huber, PAIR, "it is huber"),
    "its gradient": (losses.squared_error, "vjp", losses.huber_vjp, PAIR, "it is huber"),
    "a slope, which another map has": (act.sigmoid, "vjp", lambda u, x: u * (1 - act.sigmoid(x)),
                                       ((5, 8),), "1 - s stands where s * (1 - s) is due"),
    "a statistic": (norm.batch_norm_inference, "forward", batch_norm_inference, NORMED,
                    "the mean of x stands where mean is due"),
    "a number": (norm.batch_norm_inference, "forward", no_variance, NORMED,
                 "1 stands where var is due"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_change_is_named(kind):
    op, form, kernel, shapes, message = KINDS[kind]
    forward, backward = (kernel, None) if form == "forward" else (None, kernel)
    report = check.check_all(forward, op, vjp=backward, cases=cases(*shapes), dtype="float64")
    assert message in report._summary()


def router(x, weight, *, k):
    """Return weights over the sum of all scores, not of the chosen ones."""
    scores = act.sigmoid(x @ weight.T)
    experts = np.argsort(-scores, -1)[..., :k]
    chosen = np.take_along_axis(scores, experts, -1)
    return experts, chosen / scores.sum(-1, keepdims=True), scores


def min_p_of_logits(z, *, min_p):
    p = np.where(z < min_p * z.max(-1, keepdims=True), 0, act.softmax(z))
    return p / p.sum(-1, keepdims=True)


ROUTED = "sum(scores, axis=-1) stands where sum(chosen, axis=-1) is due"
LIKELY = "logits stands where p is due, in p < min_p * max(p, axis=-1)"


@pytest.mark.parametrize(
    ("op", "kernel", "shapes", "options", "message"),
    [
        (transformer.top_k_router, router, ((6, 5), (8, 5)), {"k": 3, "score": "sigmoid"}, ROUTED),
        (transformer.next_token_probabilities, min_p_of_logits, ((4, 9),), {"min_p": 0.2}, LIKELY),
    ],
)
def test_another_variable_in_a_sum_or_in_a_part_of_a_line(op, kernel, shapes, options, message):
    def own(*args, score="", **rest):
        return kernel(*args, **rest)

    some = [
        check.TestCase(f"case {i}", tuple(R.normal(size=s) for s in shapes), options)
        for i in range(3)
    ]
    report = check.check_all(own, op, cases=some, dtype="float64")
    assert message in report._summary()


def test_what_holds_for_any_function_of_an_input_names_none():
    def everywhere(u, x, *, alpha=1 / 6, beta=0.5):
        return u * alpha

    report = check.check_all(None, act.hard_sigmoid, vjp=everywhere)
    assert "0 stands where x is due" in report._summary()


def test_a_zero_point_by_its_name_is_read():
    """Otherwise, a kernel that ignores it would agree with one that rounds halves otherwise."""

    def ignored(x, scale, zero_point=0, *, bits=8):
        return quantization.fake_quantize(x, scale, bits=bits)

    some = [check.TestCase(f"case {z}", (2 * X, 0.01), {"zero_point": z}) for z in (60, -71, 80)]
    report = check.check_all(ignored, quantization.fake_quantize, cases=some, dtype="float64")
    assert not report
    assert "halves" not in report._summary()


# How two changes are put together.


def edits(formula, call):
    """Return the programs of a formula whose expressions are others, by their messages."""
    return {p.message: p for p in programs.programs(formula, call) if p.edit and p.edit.place}


CALL = ReferenceCall(norm.rms_norm, "vjp", (U, X, W), {})
EDITS = edits(formula_of(CALL), CALL)
RIGHT = [np.asarray(a) for a in CALL.run()]
SUM = "sum(g * x_hat, axis=-1) stands where mean(g * x_hat, axis=-1) is due"
TWICE = (
    "2.0 * g - x_hat * mean(g * x_hat, axis=-1) stands where "
    "g - x_hat * mean(g * x_hat, axis=-1) is due"
)
BESIDE = "dout stands where dout * x_hat is due"


@pytest.mark.parametrize("order", [(SUM, TWICE), (TWICE, SUM)])
def test_a_change_within_another_is_made_first(order):
    formula = programs.with_both(*(EDITS[message].edit for message in order))
    np.testing.assert_allclose(formula(U, X, W)[0], rms_vjp(U, X, W)[0])


def test_changes_beside_each_other_and_in_two_functions():
    first, second = EDITS[TWICE].edit, EDITS[BESIDE].edit
    dx, dw = programs.with_both(first, second)(U, X, W)
    np.testing.assert_allclose(dx, EDITS[TWICE].run(CALL)[0])
    np.testing.assert_allclose(dw, U.sum(0))
    assert programs.with_both(first, first) is None
    assert programs.with_both(first, first._replace(formula=None)) is None
    assert programs.with_both(first, second._replace(place=None)) is None
    inner = first._replace(place=(first.place[0], first.place[1], "g"))  # no longer has the other
    assert programs.with_both(inner, EDITS[SUM].edit) is None
    call = ReferenceCall(norm.layer_norm, "forward", (X, W, B), {})
    some = edits(formula_of(call), call)
    less = some["y - bias stands where y + bias is due, in scale_and_shift"].edit
    twice = next(p.edit for m, p in some.items() if m.startswith("2.0 * (") and " in " not in m)
    both = programs.with_both(less, twice)
    assert not np.allclose(both(X, W, B), norm.layer_norm(X, W, B))


def evidence_of(got, call=CALL, right=None):
    want = RIGHT if right is None else right
    off = frozenset(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if (a != b).any())
    bounds = {i: np.full(np.shape(a), 1e-12) for i, a in enumerate(want)}
    names = [f"out{i}" for i in range(len(want))]
    return Evidence(call, got, want, [a.dtype for a in want], bounds, off, names)


def test_pairs_of_inputs_and_formulas_are_run():
    """Each is found by sums or products of its parts: of inputs, and of an input and a formula."""
    x, y = np.abs(X), np.abs(U)
    call = ReferenceCall(losses.squared_error, "forward", (x, y), {"reduction": "none"})
    half, root = (
        programs.Program(name, functools.partial(readings.with_reading, change))
        for name, change in (("half", halved), ("root", rooted))
    )
    edit = next(iter(edits(formula_of(call), call).values()))
    of_both = [np.asarray(rooted(halved(call)).run())]
    changed = edit.run(halved(call))
    wanted = ((half, root, of_both), (half, edit, changed), (edit, half, changed))
    for first, second, want in wanted:
        both = pairs._combined(first, second)
        assert both.message == f"{first.message}; and {second.message}"
        np.testing.assert_allclose(both.run(call)[0], want[0])


def halved(call):
    return call.with_inputs(call.inputs[0] / 2, call.inputs[1])


def rooted(call):
    return call.with_inputs(call.inputs[0], np.sqrt(call.inputs[1]))


def test_rows_that_add_up():
    allowed = np.full(12, 1e-9)
    table = R.normal(size=(30, 12))
    table[4] = 0  # changes nothing
    assert [*pairs._pairs(table, table[3] + table[17], allowed)] == [(3, 17)]
    assert [*pairs._pairs(table, table[3], allowed)] == []


def test_factors_that_multiply():
    due, allowed = np.linspace(1, 2, 12), np.full(12, 1e-9)
    factors = R.uniform(0.5, 2, size=(20, 12)) * np.where(np.arange(20) == 5, -1, 1)[:, None]
    got = factors[5] * factors[11] * due
    assert [*pairs._of_factors(factors * due, due, got, allowed)] == [(5, 11)]
    assert [*pairs._of_factors(factors * due, due, -got, allowed)] == []  # of the other sign
    assert [*pairs._of_factors(factors * due, 0 * due, got, allowed)] == []


def test_few_numbers_have_no_pairs():
    got = [RIGHT[0], RIGHT[1] + 7 * (np.arange(8) == 0)]
    few = pairs.Pairs(evidence_of(got))
    few.add(EDITS[SUM], EDITS[SUM].run(CALL))
    assert (few.programs, [*few.found(RIGHT)]) == ({}, [])


def test_programs_that_can_be_combined():
    some = pairs.Pairs(evidence_of([a + 1 for a in RIGHT]))
    some.add(programs.Program("of no formula", None), RIGHT)
    some.add(EDITS[SUM], [RIGHT[0].T, RIGHT[1]])  # of another shape
    some.add(EDITS[SUM], [np.nan * RIGHT[0], RIGHT[1]])
    some.add(EDITS[SUM], RIGHT[:1])
    assert some.programs == {}
    for message in (SUM, TWICE, SUM):
        some.add(EDITS[message], EDITS[message].run(CALL))
    assert [p.message for p, _ in some.programs.values()] == [SUM, TWICE]
    assert [*some.found(None)] == [*some.found([RIGHT[0].T, RIGHT[1]])] == []


# Other steps, orders and maps.


def test_steps_of_a_loop():
    (loop,) = ast.parse("for t in range(n):\n    h = f(h)").body
    every = changes.other_steps([loop])
    said = {text: ast.unparse(ast.fix_missing_locations(block[0])) for text, block in every}
    assert [*said] == [
        "for t in range(n) leaves its first step out",
        "for t in range(n) leaves its last step out",
        "for t in range(n) goes the other way",
    ]
    assert "[*range(n)][::-1]" in [*said.values()][-1]
    assert [*changes.other_steps(ast.parse("x = 1").body)] == []


def test_functions_in_the_other_order():
    node = changes.expression("np.sum(np.exp(x), axis=-1)")
    assert [ast.unparse(e) for e in changes.regrouped(node)] == ["np.exp(np.sum(x, axis=-1))"]


def test_entries_in_another_order():
    a = np.arange(6).reshape(2, 3)
    entries = {how.format("e"): f for how, f in readings.ENTRIES.items()}
    halves = entries["neighbors e are taken for halves"]
    np.testing.assert_array_equal(halves(np.arange(5), axis=-1), [0, 2, 4, 1, 3])
    back = entries["halves e are taken for neighbors"]
    np.testing.assert_array_equal(back(halves(a, axis=-1), axis=-1), a)
    memory = entries["memory e and the one before it is read in the other order"]
    np.testing.assert_array_equal(memory(a, axis=-1), [[0, 3, 1], [4, 2, 5]])
    np.testing.assert_array_equal(memory(a, axis=-2), a)


def test_maps_that_are_not_of_dlref_have_no_others():
    call = ReferenceCall(act.gelu, "jvp", (X, U), {})
    assert [*readings.other_maps(call)] == []
    call = ReferenceCall(act.gelu, "forward", (X,), {"approximate": "tanh"})
    every = {p.message: p for p in readings.other_maps(call)}
    assert "it is gelu" not in every
    np.testing.assert_allclose(every["it is mish"].run(call)[0], formulas.activations.mish(X))


def test_a_part_that_stays_as_it_is_is_no_program():
    f = formulas.activations.softsign  # x stands twice in its line
    assert not [*programs._in_parts(f, f, lambda node: [node])]
    others = programs._in_parts(f, f, lambda _: [ast.Name("y", ast.Load())])
    assert any(program.message.startswith("y stands where x is due, in x / ") for program in others)


def test_a_change_that_does_not_fit_a_case_has_no_outputs():
    """Inputs of another case may have fewer axes."""

    def refused(_):
        raise ValueError

    assert pairs._after(programs.Program("", list), refused, None) is None

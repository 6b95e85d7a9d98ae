"""The parts of the search for programs: what is changed, what is tried, and what ends it."""

import ast
import importlib
import pickle
import sys

import numpy as np
import pytest

from dlref import activations as act
from dlref import attention, check, losses
from dlref.check._oracle.calls import ReferenceCall
from dlref.check._reports import _other_numbers, prepared

changes, evidence, mutations, programs, readings, search, slopes = (
    importlib.import_module(f"dlref.check._oracle.causes.{name}")
    for name in ("changes", "evidence", "mutations", "programs", "readings", "search", "slopes")
)
causes = importlib.import_module("dlref.check._oracle.causes")
X = np.linspace(-2.0, 2.0, 12).reshape(3, 4)
SOFTMAX = ReferenceCall(act.softmax, "forward", (X,), {})


def evidence_of(got, want=None, call=SOFTMAX):
    """Return a case of one output, off by more than its bound of 1e-6 or not."""
    want = call.run() if want is None else want
    off = frozenset() if np.allclose(got, want, rtol=0, atol=1e-6) else frozenset({0})
    limits = {0: np.full(np.shape(want), 1e-6)}
    return evidence.Evidence(call, [got], [want], [np.dtype(np.float32)], limits, off, ["output 0"])


def further(text, scope=None):
    node = ast.parse(text, mode="eval").body
    return {ast.unparse(other) for other in changes.further_changes(node, {}, scope or {})}


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("sum(widths)", "widths[0]"),
        ("(a, b, c, d, e)", "(e, b, c, d, a)"),
        ("(a, b, c)", "(c, a, b)"),
        ("x / 6", "0.1667 * x"),
        ("a * (b - c)", "a * b - c"),
        ("(b + c) / a", "b + c / a"),
        ("x[1:]", "x[:-1]"),
        ("x[:-1]", "x[1:]"),
        ("h[t]", "h[t - 1]"),
        ("h[..., t, :]", "h[..., t + 1, :]"),
        ("np.where(c, a, b)", "np.where(c, b, a)"),
        ("np.mean(x, axis=-1)", "np.mean(x, axis=-2)"),
        ("np.mean(x)", "np.sum(x)"),
        ("f(x, eps=eps)", "f(x)"),
        ("f(a, b)", "f(b, a)"),
        ("a @ b", "a @ b.mT"),
        ("np.sqrt(x)", "np.sqrt(np.sqrt(x))"),
        ("x >= y", "x > y"),
        ("x ** 2", "x ** 3"),
        ("0.5", "1.0"),
        ("a.mT", "a"),
        ("a * b", "a - b"),
        ("a & b", "a | b"),
        ("a | b", "b"),
        ("~seen", "seen"),
        ("np.sum(x, axis=axis)", "np.sum(x, axis=(axis - 1, axis))"),
        ("np.sum(x, axis=-1)", "np.sum(x, axis=None)"),
        ("softplus(-z)", "np.maximum(0, 1 + -z)"),
    ],
)
def test_expressions_that_stand_for_another(text, other):
    assert other in further(text)


def test_statements_that_stand_for_others():
    body = ast.parse("for t in steps:\n    h = f(h)\n    dw += h\n    dw = 2 * dw").body
    block = next(block for block in changes.lists_of_statements(body[0]) if len(block) == 3)
    messages = {message for message, _ in changes.statement_changes(block)}
    assert messages == {
        "h = f(h) is left out",
        "h = f(h) comes after dw += h, not before",
        "dw += h is left out",
        "dw = h stands where dw += h is due",
        "dw -= h stands where dw += h is due",
        "dw += h comes after dw = 2 * dw, not before",
        "dw = 2 * dw is left out",
        "h = f(h) is done twice",
        "h = f(h) is done again after dw += h",
        "h = f(h) is done again after dw = 2 * dw",
        "dw += h is done twice",
        "dw += h is done again after dw = 2 * dw",
        "dw = 2 * dw is done twice",
    }
    (less,) = ast.parse("x -= y").body
    assert [message for message, _ in changes.statement_changes([less])] == [
        "x -= y is left out",
        "x = y stands where x -= y is due",
        "x -= y is done twice",
    ]
    assert changes.as_sentence(ast.parse("if a:\n    b = 1\n    c = 2").body[0]) == "b = 1"


def test_a_number_in_other_units():
    node = ast.parse("scale", mode="eval").body
    shapes = {"scale": (), "low": (4, 8)}
    others = {ast.unparse(other) for other in changes.further_changes(node, shapes, {})}
    assert {"scale * low.shape[-1]", "scale / low.shape[-2] ** 0.5"} <= others


@pytest.mark.parametrize(
    ("stands", "due", "said"),
    [
        ("(b, a)", "(a, b)", "a and b are exchanged in a tuple"),
        ("f(x, b, a)", "f(x, a, b)", "a and b are exchanged in f(x, a, b)"),
        ("(c, a, b)", "(a, b, c)", "(c, a, b) stands where (a, b, c) is due"),
        ("g(b, a)", "f(a, b)", "g(b, a) stands where f(a, b) is due"),
        ("(*b, _, T)", "(*b, T)", "(*b, _, T) stands where (*b, T) is due"),
    ],
)
def test_how_a_change_is_described(stands, due, said):
    assert mutations.described(stands, due) == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (np.logical_not, "it is inverted"),
        (np.ones_like, "it is True everywhere"),
        (np.zeros_like, "it is False everywhere"),
        (np.triu, ""),
    ],
)
def test_arrays_of_true_and_false(change, said):
    verdict = check.check_forward(
        lambda ids: change(ids[:, None] == ids), attention.document_mask, np.array([0, 1, 0])
    )
    assert not verdict
    assert verdict.cause == said


def test_code_that_makes_no_sense():
    name = ast.Expr(ast.Name("x", ast.Store()))
    formula = mutations.formula_of(SOFTMAX)
    tree = ast.fix_missing_locations(ast.Module([name], []))
    assert mutations.changed_code(formula, tree) is None
    nonsense = [*mutations.mutants(formula, lambda node: [ast.Name("x", ast.Store())])]
    assert {due for _, due, _ in nonsense} <= {"e"}  # a name that is stored may be another one


def test_outputs_that_are_no_numbers():
    assert mutations.outputs_of(lambda x: np.array(["a"]), SOFTMAX) is None
    assert mutations.outputs_of(lambda x: 1 / 0, SOFTMAX) is None
    assert len(mutations.outputs_of(lambda x: (x, None), SOFTMAX)) == 2


def test_variables_are_not_exchanged_beside_a_profiler():
    formula = mutations.formula_of(SOFTMAX)
    assert any(programs._shapes(formula, SOFTMAX).values())
    sys.setprofile(lambda *_: None)
    try:
        shapes = programs._shapes(formula, SOFTMAX)
    finally:
        sys.setprofile(None)
    assert not any(shapes.values())


def test_a_map_that_refuses_a_change():
    assert readings.with_reading(lambda call: 1 / 0, SOFTMAX) is None
    nested = ReferenceCall(act.softmax, "forward", ([np.ones(2)], 3), {})
    arrays = readings._Block(0, -1, lambda n: 4).changed(nested).arguments
    assert isinstance(arrays, tuple)
    assert arrays[1] == 3
    np.testing.assert_array_equal(arrays[0][0], [1.0, 1.0, 0.0, 0.0])


def test_cases_that_do_not_speak():
    right = SOFTMAX.run()
    assert evidence_of(2 * right).speaks
    assert not evidence_of(np.zeros_like(right)).speaks
    assert not evidence_of(np.full_like(right, np.nan)).speaks
    by_differences = ReferenceCall(lambda x: x * x, "vjp", (X, X), {})
    assert not evidence_of(X, 2 * X * X, by_differences).speaks


def test_outputs_agree_with_a_case():
    right = SOFTMAX.run()
    case = evidence_of(2 * right)
    assert case.agrees([2 * right], case.want, slack=4)
    assert not case.agrees([right], case.want, slack=4)
    assert not case.agrees([None], case.want, slack=4)
    assert not case.agrees([], case.want, slack=4)
    assert evidence_of(right).agrees([right], [right])


def test_large_cases_are_not_kept():
    case = evidence_of(2 * SOFTMAX.run())
    assert case.is_small
    rows = np.ones((600, 500))
    large = ReferenceCall(act.softmax, "forward", (rows,), {})
    assert not evidence_of(rows, rows, large).is_small
    run = prepared(lambda x: x, act.relu)
    assert run.judge_once("forward", lambda x: x, (rows,), {})
    assert run.last is None


def test_a_formula_that_does_not_take_a_case(monkeypatch):
    case = evidence_of(2 * SOFTMAX.run())
    assert search._unchanged_outputs(lambda *_: 1 / 0, case) is None
    monkeypatch.setattr(search, "_unchanged_outputs", lambda *_: None)
    assert search.common_program([case, case]) == ""


def test_without_a_source_there_are_no_programs(monkeypatch):
    def missing(_):
        msg = "could not get source code"
        raise OSError(msg)

    formula = mutations.formula_of(SOFTMAX)
    assert next(programs.programs(formula, SOFTMAX)).message
    mutations._module.cache_clear()
    monkeypatch.setattr(mutations.inspect, "getsource", missing)
    assert all("rescaled" in p.message for p in programs.programs(formula, SOFTMAX))
    assert [*programs.rarer_programs(formula, SOFTMAX)] == []
    assert [*programs.pairs_of_changes(formula)] == []
    assert [*slopes._with_constants(formula)] == []


def test_two_changes_are_tried_in_short_formulas(monkeypatch):
    formula = importlib.import_module("dlref.formulas.attention").indexer_scores
    messages = [p.message for p in programs.pairs_of_changes(formula)]
    assert messages
    assert all("; and " in message and "np" not in message for message in messages)
    monkeypatch.setattr(programs, "MAX_CHANGES", 3)
    assert [*programs.pairs_of_changes(formula)] == []


def test_entries_of_a_tangent_are_not_exchanged():
    tangent = ReferenceCall(act.softmax, "jvp", (X, X), {})
    assert not any("along" in p.message for p in readings._entry_programs(tangent))
    cotangent = ReferenceCall(act.softmax, "vjp", (X, X), {})
    assert any("of dout along" in p.message for p in readings._entry_programs(cotangent))


def test_an_error_of_the_search_is_outlived(monkeypatch):
    def wrong(_):
        msg = "no such program"
        raise LookupError(msg)

    monkeypatch.setattr(causes, "common_program", wrong)
    monkeypatch.setattr(causes, "RAISE", False)
    assert causes.cause_in_common([]) == ""


def test_a_search_ends_when_its_time_is_over(monkeypatch):
    """The next program that is evaluated ends it, whichever search yields that."""
    calls = [ReferenceCall(act.softmax, "forward", (x,), {}) for x in (X, 2 * X[:, ::-1])]
    cases = [evidence_of(act.softmax(2 * call.inputs[0]), call=call) for call in calls]
    assert search.common_program(cases)
    monkeypatch.setattr(search, "MAX_SECONDS", -1.0)
    assert search.common_program(cases) == ""
    mutations.check_time()  # what follows has no limit


def test_few_numbers_of_one_case_say_nothing():
    got = SOFTMAX.run()
    got[0, 0] += 1.0
    assert search.common_program([evidence_of(got)]) == ""
    assert search.common_program([]) == ""


@pytest.mark.parametrize(("count", "said"), [(1, "p0"), (3, "p0 or: p1 or: p2"), (4, "")])
def test_programs_that_no_case_tells_apart(count, said, monkeypatch):
    right = SOFTMAX.run()
    case = evidence_of(2 * right)

    def few(*_, **__):
        for i in range(count):
            yield programs.Program(f"p{i}", lambda call, i=i: [2 * right + 1e-9 * i])
        yield programs.Program("another", lambda call: [3 * right])

    monkeypatch.setattr(search, "programs", few)
    for name in ("readings", "scaled_programs"):
        monkeypatch.setattr(search, name, lambda call: iter(()))
    assert search.common_program([case, case, evidence_of(right)]) in (said, "")
    assert search.common_program([case, case]) == said


def test_zero_where_the_result_is_infinite():
    x = np.array([[-np.inf, -np.inf], [1.0, 2.0], [3.0, 1.0], [0.0, 0.5]])

    def wrong(x):
        out = act.logsumexp(x)
        return np.where(np.isfinite(out), out, 0.0)

    verdict = check.check_forward(wrong, act.logsumexp, x)
    assert verdict.cause == "it is 0 where the exact result is infinite or NaN: a special case"


def test_other_numbers_that_a_map_refuses(monkeypatch):
    run = prepared(lambda x: x, act.relu)

    def refusing(*_):
        msg = "no such numbers"
        raise ValueError(msg)

    assert run.judge_other("forward", lambda x: x, (X,), {})[0].ok is False
    monkeypatch.setattr(type(run), "judge_once", refusing)
    assert run.judge_other("forward", lambda x: x, (X,), {}) is None


def test_other_numbers_have_the_signs_of_the_first():
    some = np.linspace(1.0, 2.0, 50)
    other = _other_numbers(np.random.default_rng(0), some)
    assert (other > 0).all()
    assert (other != some).all()
    both = _other_numbers(np.random.default_rng(0), some - 1.5)
    assert both.min() < 0 < both.max()


def test_a_report_is_written_to_a_file_by_its_name():
    report = check.CheckReport("relu", "float32", ())
    with pytest.raises(TypeError, match="Argument 'path' must be the name of a file or None, not"):
        report.to_html(3)


def test_a_mean_of_sizes_that_differ_is_one_cause():
    def wrong(logits, targets):
        return losses.cross_entropy(logits, targets) * logits.shape[-1]

    shapes = [[(5, 3), (5,)], [(7, 4), (7,)]]
    report = check.check_all(wrong, losses.cross_entropy, shapes=shapes)
    assert not report
    assert "multiplied by axis 1 of" in report._summary()


def test_sizes_of_a_jvp_are_those_of_its_inputs():
    sizes = readings._sizes_of(ReferenceCall(act.softmax, "jvp", (X, X), {}))
    assert "the size of axis -1 of x" in sizes
    assert sizes["the size of axis -1 of x"]([X]) == 4


def test_one_call_searches_when_its_cause_is_read():
    """The change is in a formula that the formula of gelu calls: a mutation of gelu's is none."""

    def mistaken(x, **_):
        return (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**2)))).astype("f4")

    x = np.linspace(-3, 3, 40, dtype=np.float32)
    verdict = check.check_forward(mistaken, act.gelu, x, approximate="tanh")
    words = "x ** 2 stands where x ** 3 is due, in gelu_argument"
    assert verdict.outputs[0].cause == ""
    assert verdict.cause == verdict.explained.outputs[0].cause == words
    assert words in repr(verdict)
    assert words in verdict._repr_html_()
    assert pickle.loads(pickle.dumps(verdict)) == verdict.explained
    assert check.check_forward(mistaken, act.gelu, x[:3], approximate="tanh").cause == ""

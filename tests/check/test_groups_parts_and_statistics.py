"""Changed programs of groups, of some places alone, of statistics, and of random draws."""

import ast
import dataclasses
import importlib

import numpy as np
import pytest

from dlref import activations as act
from dlref import check, convolution, losses, propagation, recurrent, training
from dlref import normalization as norm
from dlref import positions as pos
from dlref.check._oracle import usual
from dlref.check._oracle.calls import ReferenceCall
from dlref.check._oracle.helpers import HELPERS
from dlref.formulas import losses as loss_formulas
from dlref.formulas import training as training_formulas

changes, evidence, mutations, programs, readings, search = (
    importlib.import_module(f"dlref.check._oracle.causes.{name}")
    for name in ("changes", "evidence", "mutations", "programs", "readings", "search")
)
R = np.random.default_rng(112)
X = R.normal(size=(2, 4, 6))
POSITIVE = R.random((2, 8)) + 0.1
LOG_P = -np.abs(R.normal(size=(2, 8))) - 0.1
WEIGHTS = tuple(R.normal(size=s) for s in ((3, 5, 4), (3, 6), (6, 4), (6, 6), (6,), (6,)))


def one_weight_for_a_group(x, groups, weight, bias):
    """Return a group norm with the first weights for all channels of a group."""
    size = x.shape[-1] // groups
    first = (np.repeat(a[:groups], size) for a in (weight, bias))
    return norm.group_norm(x, groups, *first)


def linear_where_large(x, *, beta=1.0):
    return np.where(x > 1.5, beta * x, act.softplus(x, beta=beta))


def undivided_below_0(x, *, beta=1.0):
    return np.where(x < 0, beta, 1.0) * act.softplus(x, beta=beta)


def of_the_noise(alpha, sigma, *, kind="noise", gamma=5.0):
    return training.min_snr_weight(alpha, sigma, gamma=gamma)


def odds_beside_1(log_p):
    odds = log_p - np.log(1.0001 - np.exp(log_p))
    return (0.1 * act.softplus(odds[1] - odds[0]) - log_p[0]).mean()


def without_partners(s):
    e = np.exp(s) * (1 - np.eye(len(s)))
    terms = (np.log(e.sum(axis)) - np.diag(s) for axis in (-1, -2))
    return sum(terms).mean() / 2


def mean_advantage(log_p, old, advantage):
    ratio = np.exp(log_p - old)
    free = ratio * advantage.mean()
    return -np.minimum(free, np.clip(ratio, 0.8, 1.2) * advantage).mean()


def last_state(*inputs):
    return 0 * recurrent.rnn(*inputs) + recurrent.rnn(*inputs)[..., -1:, :]


def lost_parentheses(rng, shape):
    return rng.normal(0.0, np.sqrt(2 / shape[1] + shape[0]), shape)


def of_corners(x, size):
    """Return a line whose places are t n / m."""
    n = x.shape[-1]
    at = np.arange(size[0]) * n / size[0]
    low = np.minimum(at.astype(int), n - 1)
    share = at - low
    return (1 - share) * x[..., low] + share * x[..., np.minimum(low + 1, n - 1)]


def eps_in_the_size(x, *, eps):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).sum(-1, keepdims=True) / (x.shape[-1] + eps))


def pairs(*shapes):
    return [tuple(R.normal(size=s) for s in shapes) for _ in range(2)]


def both_factors(p, g, state, *, learning_rate, adjust):
    """Return a step whose factor is both that are known."""
    new, state = training.muon_step(p, g, state, learning_rate=learning_rate, adjust=adjust)
    kept = (1 - learning_rate * 0.1) * p
    return kept + (new - kept) * max(1, p.shape[0] / p.shape[1]) ** 0.5, state


KINDS = {
    "groups": (norm.group_norm, one_weight_for_a_group,
               [((x, 2, *R.normal(size=(2, 6))), {}) for x in (X, X[:, :3])],
               "one entry is read of weight and bias for each of groups"),
    "large numbers": (act.softplus, linear_where_large,
                      [((2 * x,), {"beta": b}) for x, b in zip(X, (0.5, 3.0), strict=True)],
                      "in some places alone: where x is large"),
    "numbers below 0": (act.softplus, undivided_below_0,
                        [((2 * x,), {"beta": b}) for x, b in zip(X, (0.5, 3.0), strict=True)],
                        "in some places alone: where x is below 0"),
    "an ignored option": (training.min_snr_weight, of_the_noise,
                          [((a, b), {"kind": "velocity", "gamma": 1.5})
                           for a, b in (POSITIVE, POSITIVE[::-1])],
                          "the option 'kind' is ignored"),
    "a number beside 1": (losses.orpo_loss, odds_beside_1,
                          [((a,), {}) for a in (LOG_P, 2 * LOG_P)], "1.0001 stands where 1.0"),
    "no diagonal": (losses.info_nce, without_partners,
                    [((R.normal(size=(n, n)),), {}) for n in (4, 5, 6)], "off_diagonal(exp(x))"),
    "a mean": (losses.policy_loss, mean_advantage,
               [((*LOG_P[i][None].repeat(2, 0) * R.random((2, 2, 8)), a), {})
                for i, a in enumerate(R.normal(size=(2, 2, 8)))],
               "mean(advantage) stands where advantage is due"),
    "the last state": (recurrent.rnn, last_state,
                       [(tuple(a / k for a in WEIGHTS), {}) for k in (1, 2)],
                       "the last entry of the result along axis -2 stands for all"),
    "a draw": (propagation.glorot_normal, lost_parentheses,
               [((np.random.default_rng(3), s), {}) for s in ((20, 50), (16, 12))],
               "2 / n_in + n_out stands where 2 / (n_in + n_out) is due"),
    "both branches": (training.muon_step, both_factors,
                      [((R.normal(size=(7, 3)), R.normal(size=(7, 3)), None),
                        {"learning_rate": 0.1, "adjust": "match_rms_adamw"}) for _ in range(2)],
                      "return 0.2 * max(rows, columns) ** 0.5 * max(1, rows / columns) ** 0.5"),
    "zeros for halves": (convolution.interpolate, of_corners,
                         [((R.normal(size=(2, 5)),), {"size": (n,)}) for n in (7, 12)],
                         "0.0 stands where 0.5 is due, everywhere"),
    "parentheses too many": (norm.layer_norm, eps_in_the_size,
                             [((0.01 * x,), {"eps": 0.1}) for x in X],
                             "(n + eps) stands where"),
    "another first number": (pos.rope_frequencies, lambda dim: 1e4 ** (-np.arange(1, dim, 2) / dim),
                             [((n,), {}) for n in (8, 32)],
                             "1 stands where 0 is due, in arange(0, dim, 2)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_change_is_named(kind):
    op, wrong, inputs, message = KINDS[kind]
    cases = [check.TestCase(f"case {n}", *one) for n, one in enumerate(inputs)]
    report = check.check_all(wrong, op, cases=cases, dtype="float64")
    assert report.failed
    assert message in report._summary(), report


def test_a_weight_of_one_number_in_a_case_is_explained():
    """The noise's weight is 1 wherever the ratio is small, which says nothing alone."""
    small = POSITIVE[0] / 10, POSITIVE[1] + 1
    inputs = [(small, {"kind": "velocity"}), ((POSITIVE[0] + 1, POSITIVE[1]), {"kind": "velocity"})]
    cases = [check.TestCase(f"case {n}", *one) for n, one in enumerate(inputs)]
    report = check.check_all(of_the_noise, training.min_snr_weight, cases=cases, dtype="float64")
    assert report.causes == {"the option 'kind' is ignored": 2}


def test_zeros_and_ones_do_not_speak():
    """Many programs keep the best token alone."""
    logits = 2 * R.normal(size=(2, 3, 9))

    def best(z, *, top_p):
        return 1.0 * (z == z.max(-1, keepdims=True))

    cases = [check.TestCase(f"case {n}", (z,), {"top_p": 0.8}) for n, z in enumerate(logits)]
    report = check.check_all(
        best, importlib.import_module("dlref.transformer").next_token_probabilities, cases=cases,
        dtype="float64",
    )  # fmt: skip
    assert len(report.failed) == 2
    assert "exp(logits)" not in repr(report)
    assert not evidence._is_of_few(np.array([0.0, 1.0]))
    assert evidence._is_of_few(np.array([0.0, 1.0, 1.0]))


# The changes.


def others(change, text, *rest):
    return [ast.unparse(other) for other in change(changes.expression(text), *rest)]


def further(text):
    return others(changes.further_changes, text, {}, {})


def test_expressions_of_the_rarest_changes():
    shapes = {"x": (3,), "n": ()}
    assert "np.mean(x, -1, keepdims=True)" in others(changes.statistics, "x", shapes)
    assert others(changes.statistics, "y", shapes) == []
    assert others(changes.variables_for, "a + b", shapes) == ["x", "n"]
    assert others(changes.variables_for, "a", shapes) == []
    assert others(changes.without_integers, "p", {"p"}) == ["0", "1", "2"]
    assert others(changes.without_integers, "q", {"p"}) == []
    assert others(changes.both_branches, "a if c else b") == ["a * b", "a + b"]
    assert others(changes.both_branches, "a + b") == []
    assert "off_diagonal(a) @ b" in others(changes.sums_of_triangles, "a @ b")
    assert "np.sum(np.tril(a), axis=-1)" in others(changes.sums_of_triangles, "np.sum(a, axis=-1)")
    assert others(changes.sums_of_triangles, "a.sum(-1)") == []
    assert others(changes.sums_of_triangles, "a + b") == []


def test_indices_and_sums():
    assert "steps[0]" in further("steps[-1]")
    assert {"x[-1]", "x[1]"} <= {*further("x[0]")}
    assert "a / b + c" in further("a / (b + c)")
    assert "a - b - c" in further("a - (b - c)")
    assert "0.0" in further("0.5")
    assert {"a / (b + c)", "(a + b) / c"} <= {*further("a / b + c"), *further("a + b / c")}


def test_counters_of_comprehensions():
    (f,) = ast.parse("def f(x):\n    return [a + b for a, b in x]").body
    assert changes.counters_in(f) == {"a", "b"}


def test_what_two_branches_return():
    (f,) = ast.parse("def f(x):\n    if x:\n        return a\n    return b").body
    said = [message for message, _ in changes.both_returned(f.body)]
    assert said == [f"return a {op} b stands where return a or return b is due" for op in "*+"]
    for text in ("if x:\n    y = 1\ny = 2", "if x:\n    y = 1\n    z = 2\ny = 3", "y = 1\nz = 2"):
        assert [*changes.both_returned(ast.parse(text).body)] == []


def test_nothing_stands_for_an_index():
    call = changes.expression("slices_at(k, counts)")
    assert [*changes.usual_changes(call, {"slices_at"})] == []


def test_functions_that_return_an_index_are_known():
    call = ReferenceCall(convolution.mean_pool, "forward", (X,), {"size": (2, 2)})
    known = programs._variables(mutations.formula_of(call), call).others
    assert all("slices_at" in names for names in known.values())


def test_the_diagonal_is_one_of_a_square():
    np.testing.assert_array_equal(HELPERS["off_diagonal"](np.ones((2, 2))), [[0, 1], [1, 0]])
    for shape in ((3,), (2, 3)):
        with pytest.raises(NotImplementedError):
            HELPERS["off_diagonal"](np.ones(shape))


# Readings.


def test_options_with_an_entry_for_each_axis():
    call = ReferenceCall(convolution.mean_pool, "forward", (X,), {"size": (2, 2), "stride": (1, 2)})
    said = [program.message for program in readings._tuple_programs(call)]
    assert said == [
        "the first entry of stride stands for all axes",
        "the last entry of stride stands for all axes",
        "the entries of stride are read backwards",
    ]
    got = [program.run(call) for program in readings._tuple_programs(call)]
    for (out,), stride in zip(got, ((1, 1), (2, 2), (2, 1)), strict=True):
        np.testing.assert_array_equal(out, convolution.mean_pool(X, size=(2, 2), stride=stride))
    plain = ReferenceCall(convolution.mean_pool, "forward", (X,), {"size": (2, 2), "stride": 1})
    assert readings._with_tuple(plain, key="stride", f=None) is plain


def test_groups_of_a_tangent_are_not_read():
    call = ReferenceCall(norm.layer_norm, "jvp", ((X,), (X,)), {})
    assert [*readings._group_programs(call)] == []


def test_results_that_a_map_refuses():
    call = ReferenceCall(act.softmax, "forward", (X,), {"axis": 7})
    assert readings._with_first(np.flip, call) is None
    assert [*readings._programs_of_results(call)] == []


# Programs that stand in some places alone.


def partly(got, want=None, x=X[0]):
    """Return a case of one output that is off by more than 1e-6 in some places."""
    want = x.copy() if want is None else want
    call = ReferenceCall(act.tanh, "forward", (x,), {})
    bounds = {0: np.full(want.shape, 1e-6)}
    return evidence.Evidence(
        call, [got], [want], [np.dtype(np.float64)], bounds, frozenset({0}), ["output 0"]
    )


def test_an_input_that_tells_the_places():
    x = np.sort(X[0].ravel())
    for off, said in ((x > 0, "above 0"), (x < 0, "below 0"), (x > x[-6], "large"),
                      (x < x[5], "small")):  # fmt: skip
        case = partly(np.where(off, 2 * x, x), x.copy(), x)
        assert search._where([case, case]) == f": where x is {said}"
    middle = partly(np.where(abs(x) < abs(x).mean(), 2 * x, x), x.copy(), x)
    large = partly(np.where(x > x[-6], 2 * x, x), x.copy(), x)
    assert search._where([middle, large]) == ""
    two = dataclasses.replace(
        large, got=large.got * 2, want=large.want * 2, bounds={0: 1e-6, 1: 1e-6},
        dtypes=large.dtypes * 2, off=frozenset({0, 1}),
    )  # fmt: skip
    assert search._side(two, 0) is None


def test_places_that_are_off():
    x = X[0]
    case = partly(np.where(x > 0, 2 * x, x))
    assert case.is_partly_off
    assert case.agrees_where_off([2 * x])
    assert not case.agrees_where_off([3 * x])
    assert not case.agrees_where_off([])
    assert not case.agrees_where_off([None])
    assert not case.agrees_where_off([x[0]])
    assert not partly(2 * x).is_partly_off


def test_a_program_in_part_holds_in_all_cases():
    first, second = (partly(np.where(x > 0, k * x, x), x=x) for x, k in zip(X, (2, 3), strict=True))
    found = search._Search(first, [first, second])
    twice = programs.Program("twice", lambda call: [2 * call.arguments[0]])
    found.try_in_part(twice, twice.run(first.call))
    assert found.in_part() == ""
    no_second = programs.Program("", lambda call: [2 * X[0]] if call is first.call else None)
    found.try_in_part(no_second, [2 * X[0]])
    assert found.in_part() == ""
    found = search._Search(first, [first])
    found.try_in_part(twice, twice.run(first.call))
    assert found.partly == []


# Spellings.


def test_spellings_of_textbooks_are_the_formulas():
    logits, target = X[0], R.random((4, 6))
    for options in ({}, {"pos_weight": 3.0, "weight": 0.5}, {"reduction": "sum"}):
        got = usual.binary_cross_entropy_of_signs(logits, target, **options)
        want = loss_formulas.binary_cross_entropy(logits, target, **options)
        np.testing.assert_allclose(got, want, rtol=1e-12)
    for kind in ("noise", "data", "velocity", "flow"):
        got = usual.min_snr_weight_by_ratios(*POSITIVE, kind=kind, gamma=1.5)
        want = training_formulas.min_snr_weight(*POSITIVE, kind=kind, gamma=1.5)
        np.testing.assert_allclose(got, want, rtol=1e-12)
    got, want = (
        usual.layer_norm_by_sums(X, X[0, 0], X[0, 1], eps=0.1),
        norm.layer_norm(X, X[0, 0], X[0, 1], eps=0.1),
    )
    np.testing.assert_allclose(got, want, rtol=1e-12)
    got, want = usual.log_odds_as_they_stand(LOG_P), loss_formulas.log_odds(LOG_P)
    np.testing.assert_allclose(got, want, rtol=1e-12)

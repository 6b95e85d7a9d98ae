"""
Kernels whose mistake no program is: none of them has a name.

Each is dlref's own function with results that are changed in a way that nobody would name: noise, a
permutation, a wave, rows times odd numbers, two mistakes that are added up, a part of one. A name
would be a coincidence.
"""

import ast
import functools
import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from dlref import activations as act
from dlref import check, neurons, training
from dlref import positions as pos
from dlref._core.pytree import map_floats, tree_leaves
from dlref.check._oracle.calls import ReferenceCall
from dlref.check._oracle.causes import changes, derivatives, programs, search, values
from dlref.check._oracle.causes.changes import expression
from dlref.check._oracle.causes.evidence import Evidence
from dlref.check._oracle.causes.mutations import formula_of
from dlref.check._reports import _other_numbers, prepared
from dlref.formulas.training import tree_map

#: Maps whose programs are few or short.
MAPS = {
    "activations": (
        *("relu", "leaky_relu", "elu", "sigmoid", "tanh", "softplus", "softsign", "silu"),
        *("hard_swish", "gelu", "softmax", "log_softmax", "logsumexp"),
    ),
    "losses": (
        *("squared_error", "absolute_error", "huber", "nll"),
        *("kl_estimate",),
    ),
    "neurons": ("neuron", "linear", "embedding", "lora_linear"),
    "normalization": ("l2_norm", "batch_norm_update"),
    "positions": ("alibi_bias", "timestep_embedding"),
}
TRIALS = [(chapter, name) for chapter, names in MAPS.items() for name in names]


def of_first_row(a, _):
    return a * np.where(np.arange(len(a)) == 0, 1.0371, 1)[:, None] if a.ndim == 2 else 1.0371 * a


#: What is done to each array of a result.
CHANGES = {
    "noise": lambda a, rng: a + 0.3 * np.abs(a).max(initial=1) * rng.normal(size=a.shape),
    "a wave": lambda a, _: a + 0.05 * np.sin(7 * a) + 0.0123,
    "a permutation": lambda a, rng: rng.permutation(a.ravel()).reshape(a.shape) + 0.1371,
    "odd factors": lambda a, rng: a * rng.uniform(0.5, 1.5, a.shape) + 0.01,
    "a power": lambda a, _: np.sign(a) * np.abs(a) ** 0.4713 * 1.1137,
    "a third of it": lambda a, rng: np.where(rng.random(a.shape) < 0.3, a + 0.137 * a**3 + 0.1, a),
    "two at once": lambda a, rng: of_first_row(a, rng) + 0.0213 * np.cos(3 * a),
}


def changed(f, change):
    """Return a function with another result: what is random is the same for the same shapes."""

    def kernel(*args, **options):
        out = f(*args, **options)
        rng = np.random.default_rng([np.size(a) for a in tree_leaves(out) if a is not None])

        def of_array(a):
            return np.asarray(change(np.asarray(a, float), rng), np.asarray(a).dtype)

        return map_floats(of_array, out)

    return kernel


def cause_of(chapter, name, kernel_of, form, dtype):
    """Return the headline of the report on a kernel, in three cases."""
    module = importlib.import_module(f"dlref.{chapter}")
    op = getattr(module, name)
    f = op if form == "forward" else getattr(module, f"{name}_vjp")
    kernel = kernel_of(f)
    forward, backward = (kernel, None) if form == "forward" else (None, kernel)
    cases = [*check.hard_inputs(op, dtype)][:3]
    with np.errstate(all="ignore"):
        report = check.check_all(forward, op, vjp=backward, cases=cases, dtype=dtype)
    assert not report
    return report._summary().partition("; most often (")[2]


@pytest.mark.parametrize(("number", "chapter", "name"), [(i, *t) for i, t in enumerate(TRIALS)])
def test_a_change_that_nobody_would_name_has_no_name(number, chapter, name):
    change = [*CHANGES.values()][number % len(CHANGES)]
    form = "vjp" if number % 3 == 2 else "forward"
    dtype = "float32" if number % 2 else "float64"
    assert cause_of(chapter, name, lambda f: changed(f, change), form, dtype) == ""


# Numbers that are solved for.

X = np.linspace(0.1, 2.0, 12).reshape(3, 4)


def evidence_of(got, dtype="float32"):
    call = ReferenceCall(act.relu, "forward", (X,), {})
    bound = {0: np.full(X.shape, 1e-7)}
    return Evidence(call, [got], [X], [dtype], bound, frozenset({0}), ["out"])


def test_a_number_is_told_if_its_digits_are_no_chance():
    def run(call, value):
        return [1 + 1e-5 * value * call.inputs[0]]

    e = evidence_of(1 + 2e-5 * X)
    assert values._tells(run, 2.0, 1e3, e)
    assert not values._tells(run, 2.0, 1.0, e)  # 1.9 and 2.1 would fit as well
    assert not values._tells(lambda *_, value: None if value > 2 else [X], 2.0, 1e3, e)
    assert not values._tells(run, 0.0, 1.0, e)


def test_a_program_that_no_case_tells_from_others_is_no_cause():
    cases = [evidence_of(2 * X), evidence_of(2 * X)]

    def found(answer):
        program = programs.Program("twice", lambda call: [2 * X], tells=lambda e: answer)
        return search._Search(cases[0], cases).among([([program], lambda e: e.want)])

    assert found(answer=True) == "twice"
    assert found(answer=False) == ""


def test_numbers_as_people_write_them():
    def written(root):
        return [(text, unit) for _, text, unit in values._written(root)]

    assert written(0.0) == [("0", 1.0)]
    assert written(0.25) == [("0.2", 0.1), ("0.25", pytest.approx(0.01))]
    assert written(1.00001)[0] == ("1.00001", pytest.approx(1e-5))
    assert ("pi", pytest.approx(np.pi / len(values.NAMED))) in written(np.pi)


def blended(params, grads, state, *, learning_rate, betas=(0.9, 0.999), eps=1e-8):
    """A step whose length is a factor of its own, 0.891287, near the root of 0.7944."""
    new, state = training.adam_step(
        params, grads, state, learning_rate=learning_rate, betas=betas, eps=eps
    )
    by = 0.891287
    return tree_map(lambda a, b: (b + by * (a - b)).astype(a.dtype), new, params), state


def test_a_step_of_another_length_has_no_correction_that_would_fit():
    p = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    cases = [
        check.TestCase(f"step {i}", (p, p[::-1] + i, None), {"learning_rate": 0.01})
        for i in range(3)
    ]
    report = check.check_all(blended, training.adam_step, cases=cases)
    assert "beta2" not in report._summary()


# Changes that name the mistakes of the newest reports.


def test_changes_of_counts_ranges_and_operators():
    def made(change, text, *args, **options):
        return [ast.unparse(other) for other in change(expression(text), *args, **options)]

    shapes = {"b": (3,), "w": (3, 2, 5), "x": (3, 4), "y": (3, 4)}
    assert made(changes.counted, "b", shapes) == ["b * w[0].size", "b / w[0].size"]
    assert made(changes.counted, "x", shapes) == made(changes.counted, "b + 1", shapes) == []
    ranges = made(changes.shifted_ranges, "np.arange(0, n, 2)")
    assert ranges == ["np.arange(0, n, 2) - 2", "np.arange(0, n, 2) + 2"]
    assert made(changes.shifted_ranges, "np.arange(n)")[0] == "np.arange(n) - 1"
    assert made(changes.shifted_ranges, "np.exp(n)") == []
    assert made(changes.of_operator, "a / b", operator=ast.Div) == ["a * b"]
    assert made(changes.of_operator, "a + b", operator=ast.Div) == []
    assert made(changes.same_shapes, "x", shapes) == ["y"]
    assert made(changes.same_shapes, "z", shapes) == []


def output_for_dout(dout, x, w, b=None):
    return neurons.linear_vjp(neurons.linear(x, w, b), x, w, b)


def of_the_cotangent(dout, x):
    del x
    return 1 - np.tanh(dout) ** 2


def one_pair_earlier(dim, *, base=10_000.0):
    return base ** (-2 * (np.arange(dim // 2) - 1) / dim)


def multiplied(params, grads, state, *, learning_rate, slip):
    """Adam, whose corrections are factors, or whose corrected moments are kept."""
    zeros = tree_map(np.zeros_like, params)
    step, m, v = (0, zeros, zeros) if state is None else state[:3]
    t = step + 1
    m, v = 0.9 * m + 0.1 * grads, 0.999 * v + 0.001 * grads**2
    by = (1 / (1 - 0.9**t), 1 / (1 - 0.999**t))
    if slip == "multiplied":
        by = (1 - 0.9**t, 1 - 0.999**t)
    params = params - learning_rate * by[0] * m / (np.sqrt(by[1] * v) + 1e-8)
    if slip == "kept":
        m, v = by[0] * m, by[1] * v
    return params, (t, m, v, None)


STEPS = [
    check.TestCase(f"step {t}", (X - t, np.sin(t + X), (t, X / 3, X / 2, None)),
                   {"learning_rate": 0.1})
    for t in (1, 2, 4)
]  # fmt: skip


@pytest.mark.parametrize(
    ("slip", "cause"),
    [
        ("multiplied", "m * (1 - beta1 ** t) stands where m / (1 - beta1 ** t) is due; and v * "),
        ("kept", "m_hat stands where mean is due; and v_hat stands where square is due"),
    ],
)
def test_two_changes_of_one_kind(slip, cause):
    kernel = functools.partial(multiplied, slip=slip)
    report = check.check_all(kernel, training.adam_step, cases=STEPS, dtype="float64")
    assert cause in report._summary()


def test_variables_are_among_two_changes():
    report = check.check_all(None, act.tanh, vjp=of_the_cotangent)
    assert "; and dout stands where x is due" in report._summary()


def test_the_output_for_the_cotangent():
    report = check.check_all(None, neurons.linear, vjp=output_for_dout)
    assert "the output stands where dout is due" in report._summary()


def test_a_vjp_with_options_of_its_own_has_no_output():
    call = ReferenceCall(act.tanh, "vjp", (X, X), {"of_the_vjp": 1})
    assert derivatives._outputs(call) == []


def test_exponents_of_one_pair_earlier():
    cases = [check.TestCase(f"{dim}", (dim,), {}) for dim in (8, 32)]
    report = check.check_all(one_pair_earlier, pos.rope_frequencies, cases=cases)
    assert "arange(0, dim, 2) - 2 stands where arange(0, dim, 2) is due" in report._summary()


def test_long_formulas_have_no_pairs_of_variables(monkeypatch):
    call = ReferenceCall(act.tanh, "vjp", (X, X), {})
    formula = formula_of(call)
    assert any(
        "dout stands" in p.message for p in programs.programs_with_two_changes(formula, call)
    )
    monkeypatch.setattr(programs, "MAX_VARIED", 3)
    some = [p.message for p in programs.programs_with_two_changes(formula, call)]
    assert some
    assert not any("dout stands where x" in message for message in some)


# Numbers that are drawn for the search.


def test_labels_and_probabilities_stay_what_they_are():
    rng, labels = np.random.default_rng(0), np.array([0.0, 1.0, 1.0])
    np.testing.assert_array_equal(_other_numbers(rng, labels, 0.2), labels)
    rows = np.array([[0.25, 0.75], [0.5, 0.5]])
    other = _other_numbers(rng, rows, 0.2)
    np.testing.assert_allclose(other.sum(-1), 1.0)
    assert (other != rows).any()
    assert np.abs(_other_numbers(rng, X, 0.2)).max() < 0.4
    assert np.shape(_other_numbers(rng, np.array(3.0), 0.2)) == ()


def test_further_numbers_are_drawn_where_few_cases_are_off():
    run = prepared(lambda x: 2 * x, act.relu)
    assert run.further_evidence([0, 1, 2, 3]) == []
    assert run.further_evidence([0]) == []  # it cannot be called again
    scales, off, right = [], SimpleNamespace(off=[0]), SimpleNamespace(off=[])
    drawn = {0: ("verdict", off), 1: ("verdict", right), 2: ("verdict", None), 3: None}

    def again(i, scale):
        scales.append(scale)
        return drawn[i]

    run.again = {i: functools.partial(again, i) for i in drawn}
    assert run.further_evidence([0, 1]) == [off]
    assert run.further_evidence([0, 2, 3]) == []
    assert scales == [0.2] * 4

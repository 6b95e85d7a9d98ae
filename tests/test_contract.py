"""
What holds for every public function, whatever it computes.

Each test walks the public list; the records in dlref/_records say how to call what is on it.
"""

import copy
import warnings

import ml_dtypes
import numpy as np
import pytest
from cases import (
    SPECS,
    Problem,
    applicable,
    flat,
    form_of,
    key_of,
    leaves,
    magnitude,
    public_functions,
    split,
    strategy_of,
    tolerance_of,
    tree,
)
from conftest import TOLERANCE
from hypothesis import HealthCheck, given, settings

import dlref._core.threads
from dlref._core.jit import COMPILED

FUNCTIONS = dict(public_functions())
EXACT_STEP = [n for n in FUNCTIONS if split(n)[1] not in {"hessian", "deriv2", "jacobian"}]
JACOBIANS = [n for n in FUNCTIONS if split(n)[1] == "jacobian"]
SECOND = [n for n in FUNCTIONS if split(n)[1] in {"hessian", "deriv2"}]
ADJOINT = [n for n in FUNCTIONS if split(n)[1] == "vjp" and n[:-3] + "jvp" in FUNCTIONS]
FORMS = {"map", "vjp", "jvp", "grad"}

drawn = settings(
    max_examples=25 if COMPILED else 8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def spec_of(name):
    return SPECS[key_of(name)]


def problems(name, **options):
    return [Problem(key_of(name), call, **options) for call in spec_of(name).calls]


#: Vjps of maps with several outputs.
SEVERAL_OUTPUTS = [
    n
    for n in FUNCTIONS
    if split(n)[1] == "vjp" and isinstance(Problem(key_of(n), spec_of(n).calls[0]).dout, tuple)
]


#: How many inputs of a map are constants, which have no gradient: masks, tables, fixed weights.
CONSTANTS = {
    "losses.policy_loss": 2,
    "neurons.dropout": 1,
    "neurons.lora_linear": 1,
    "positions.apply_rope": 2,
    "positions.apply_rope_axial": 2,
    "positions.apply_xpos": 3,
}


def evaluate(name, problem, arguments=None):
    arguments = problem.arguments(form_of(name)) if arguments is None else arguments
    return FUNCTIONS[name](*arguments, **applicable(name, problem))


class TestValues:
    @pytest.mark.parametrize("name", EXACT_STEP)
    def test_against_a_complex_step_on_the_formula(self, name, assert_close):
        for problem in problems(name):
            want, scale = problem.expected(form_of(name))
            tolerance = tolerance_of(key_of(name))
            assert_close(evaluate(name, problem), want, scale=scale, tolerance=tolerance)

    @pytest.mark.broad
    @pytest.mark.parametrize("name", EXACT_STEP)
    def test_on_drawn_shapes(self, name, assert_close):
        @drawn
        @given(strategy_of(key_of(name)))
        def check(call):
            problem = Problem(key_of(name), call)
            want, scale = problem.expected(form_of(name))
            tolerance = tolerance_of(key_of(name))
            assert_close(evaluate(name, problem), want, scale=scale, tolerance=tolerance)

        check()

    @pytest.mark.parametrize("name", JACOBIANS)
    def test_jacobian_times_tangent_is_the_complex_step(self, name):
        for problem in problems(name):
            core = spec_of(name).core
            jacobians = evaluate(name, problem)
            jacobians = jacobians if isinstance(jacobians, tuple) else (jacobians,)
            for position, (k, jac) in enumerate(zip(problem.of, jacobians, strict=True)):
                only = [None] * len(problem.inputs)
                only[k] = problem.tangents[k]
                want = np.asarray(problem.directional(only))
                out, x = np.shape(problem.out), problem.inputs[k]
                inner = x.ndim if core is None else min(core[position + 1], x.ndim)
                outer = len(out) if core is None else min(core[0], len(out))
                batch = out[: len(out) - outer]
                assert jac.shape == out + x.shape[x.ndim - inner :]
                v = np.broadcast_to(problem.tangents[k], batch + x.shape[x.ndim - inner :])
                v = v.reshape(batch + (1,) * outer + x.shape[x.ndim - inner :])
                axes = tuple(range(len(out), jac.ndim))
                got = np.sum(jac * v, axis=axes)
                scale = magnitude(np.sum(abs(jac * v), axis=axes))
                assert got.shape == want.shape
                np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE["float64"] * scale)

    @pytest.mark.parametrize("name", SECOND)
    def test_second_derivative_is_the_slope_of_the_first(self, name):
        for problem in problems(name):
            second = np.asarray(evaluate(name, problem))
            x, v = problem.inputs[0], problem.tangents[0]

            def first(t, x=x, problem=problem):
                problem.inputs = (x + t * problem.tangents[0],)
                return problem.expected("vjp" if form_of(name) == "hessian" else "deriv")[0]

            problem.dout = np.ones_like(problem.out)
            h = 1e-3
            slopes = [(first(s) - first(-s)) / (2 * s) for s in (h, h / 2)]
            want = (4 * slopes[1] - slopes[0]) / 3  # Richardson: error O(h^4)
            got = second * v if form_of(name) == "deriv2" else hessian_times(second, v)
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)

    @pytest.mark.parametrize("name", ADJOINT)
    def test_vjp_is_the_adjoint_of_jvp(self, name):
        for problem in problems(name):
            pushed = FUNCTIONS[name[:-3] + "jvp"](*problem.arguments("jvp"), **problem.options)
            pulled = evaluate(name, problem)
            moving = [problem.tangents[k] for k in problem.varying]
            terms_out = flat(problem.dout) * flat(pushed)
            terms_in = flat(pulled) * flat(moving)
            scale = max(abs(terms_out).sum(), abs(terms_in).sum())
            assert abs(terms_out.sum() - terms_in.sum()) <= 4e-15 * scale


def as_int16(a):
    return a if a.dtype.kind == "b" else a.astype(np.int16)  # a condition stays one


def hessian_times(hessian, v):
    return np.einsum("...ij,...j->...i", hessian, v)


class TestTypes:
    @pytest.mark.broad
    @pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_narrow_input_gives_the_rounded_wide_result(self, name, dtype, assert_close):
        for problem in problems(name, dtype=dtype):
            arguments = problem.arguments(form_of(name))
            wide = tree(lambda a: a if a.dtype.kind in "iub" else a.astype(np.float64), arguments)
            want = evaluate(name, problem, wide)
            assert_close(evaluate(name, problem), tree(np.asarray, want), dtype=dtype)

    @pytest.mark.broad
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_integers_count_as_float64(self, name):
        for problem in problems(name):
            arguments = problem.arguments(form_of(name))
            whole = tree(lambda a: a if a.dtype.kind in "iub" else np.rint(8 * a), arguments)
            got = evaluate(name, problem, tree(as_int16, whole))
            want = evaluate(name, problem, whole)
            for g, w in zip(leaves(got), leaves(want), strict=True):
                assert g.dtype == np.float64
                np.testing.assert_array_equal(g, w)

    @pytest.mark.parametrize("bad", [np.complex128, np.longdouble, object, "datetime64[s]", "U1"])
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_other_dtypes_are_refused(self, name, bad):
        problem = problems(name)[0]
        for _, arguments in each_array_replaced(
            problem.arguments(form_of(name)), lambda a: np.ones(a.shape).astype(bad)
        ):
            with pytest.raises(TypeError, match=r"^Argument '.*' must be .*, not "):
                evaluate(name, problem, arguments)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_ragged_sequences_are_refused(self, name):
        problem = problems(name)[0]
        for _, arguments in each_array_replaced(
            problem.arguments(form_of(name)), lambda _: [[1.0], [1.0, 2.0]]
        ):
            with pytest.raises(ValueError, match=r"^Argument '.*' must be an array, not a ragged"):
                evaluate(name, problem, arguments)

    @pytest.mark.parametrize("axes", [1, -1])
    @pytest.mark.parametrize("name", [n for n in FUNCTIONS if split(n)[1] in {"vjp", "jvp"}])
    def test_cotangents_and_tangents_of_the_wrong_shape_are_refused(self, name, axes):
        def wrong(a):
            return np.ones((*a.shape, 2) if axes > 0 else a.shape[1:])

        place, word = (0, "dout") if form_of(name) == "vjp" else (1, "tangents")
        for problem in problems(name):
            arguments = [*problem.arguments(form_of(name))]
            right = leaves(arguments[place])
            for target, (other,) in each_array_replaced((arguments[place],), wrong):
                if axes < 0 and right[target].ndim == 0:
                    continue
                arguments[place] = other
                with pytest.raises(
                    ValueError, match=rf"^Argument '{word}.*' must have shape .* not"
                ):
                    evaluate(name, problem, arguments)

    @pytest.mark.parametrize("name", [n for n in FUNCTIONS if split(n)[1] == "vjp"])
    def test_a_cotangent_is_needed(self, name):
        for problem in problems(name) if name not in SEVERAL_OUTPUTS else ():
            _, *inputs = problem.arguments("vjp")
            with pytest.raises(TypeError, match=r"^Argument 'dout' must be .*, not "):
                evaluate(name, problem, (None, *inputs))

    @pytest.mark.parametrize("name", [n for n in FUNCTIONS if split(n)[1] == "vjp"])
    def test_a_gradient_for_each_input_that_is_given(self, name):
        for problem in problems(name):
            _, *inputs = problem.arguments("vjp")
            floats = sum(isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in inputs)
            grads = evaluate(name, problem)
            count = len(grads) if isinstance(grads, tuple) else 1
            assert count == floats - CONSTANTS.get(key_of(name), 0)

    @pytest.mark.parametrize("name", [n for n in FUNCTIONS if split(n)[1] == "jvp"])
    def test_a_missing_tangent_is_zero(self, name):
        for problem in problems(name):
            primals, tangents = problem.arguments("jvp")
            pairs = [(tree(lambda _: None, tangents), tree(np.zeros_like, tangents))]
            for k in range(len(tangents) if isinstance(tangents, tuple) else 0):
                zero = tree(np.zeros_like, tangents[k])
                pairs.append(tuple((*tangents[:k], t, *tangents[k + 1 :]) for t in (None, zero)))
            for pair in pairs:
                results = [FUNCTIONS[name](primals, t, **problem.options) for t in pair]
                for got, want in zip(*map(leaves, results), strict=True):
                    np.testing.assert_array_equal(got, want)

    @pytest.mark.parametrize("name", SEVERAL_OUTPUTS)
    def test_a_missing_cotangent_is_zero(self, name):
        for problem in problems(name):
            dout, *inputs = problem.arguments("vjp")
            for missing in range(len(dout)):
                got, want = (
                    FUNCTIONS[name](
                        tuple(zero(u) if k == missing else u for k, u in enumerate(dout)),
                        *inputs,
                        **problem.options,
                    )
                    for zero in (lambda _: None, np.zeros_like)
                )
                for g, w in zip(leaves(got), leaves(want), strict=True):
                    np.testing.assert_array_equal(g, w)

    @pytest.mark.parametrize(
        "name",
        [n for n in FUNCTIONS if split(n)[1] == "jvp" and len(spec_of(n).calls[0].shapes) > 1],
    )
    @pytest.mark.parametrize("bad", [np.ones(2), (), (1.0,) * 99])
    def test_tuples_of_the_wrong_length_are_refused(self, name, bad):
        problem = problems(name)[0]
        primals, tangents = problem.arguments("jvp")
        error = TypeError if isinstance(bad, np.ndarray) else ValueError
        with pytest.raises(error, match=r"^Argument 'primals' must be a tuple of"):
            FUNCTIONS[name](bad, tangents, **problem.options)
        with pytest.raises(error, match=r"^Argument 'tangents' must be a tuple of"):
            FUNCTIONS[name](primals, bad, **problem.options)


def each_array_replaced(arguments, replace):
    """Yield (position, arguments) with one array after the other replaced."""
    total = len(leaves(arguments))
    for target in range(total):
        counter = iter(range(total))
        yield (
            target,
            tree(lambda a, c=counter, t=target: replace(a) if next(c) == t else a, arguments),
        )


class TestMemory:
    @pytest.mark.broad
    @pytest.mark.parametrize(
        "layout",
        [
            lambda a: a.copy(order="F"),
            lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
            lambda a: a[..., ::-1].copy()[..., ::-1] if a.ndim else a,
            lambda a: a.astype(a.dtype.newbyteorder()),
            lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),  # read-only
            lambda a: a.tolist(),
        ],
        ids=["fortran", "strided", "reversed", "byte-swapped", "read-only", "lists"],
    )
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_any_layout_gives_the_same_values(self, name, layout):
        for problem in problems(name):
            arguments = problem.arguments(form_of(name))
            if 0 in flat_shape(arguments):
                continue  # an empty array has but one layout, and a list of it no shape
            want = leaves(evaluate(name, problem))
            got = leaves(evaluate(name, problem, tree(layout, arguments)))
            for g, w in zip(got, want, strict=True):
                assert g.dtype == w.dtype
                assert g.shape == w.shape
                np.testing.assert_allclose(g, w, rtol=1e-13, atol=1e-14 * magnitude(w))

    @pytest.mark.broad
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_inputs_are_neither_written_to_nor_aliased(self, name):
        for problem in problems(name):
            arguments = problem.arguments(form_of(name))
            before = [a.copy() for a in leaves(arguments)]
            outputs = [o for o in leaves(evaluate(name, problem)) if o.size]
            for a, old in zip(leaves(arguments), before, strict=True):
                np.testing.assert_array_equal(a, old)
                assert not any(np.shares_memory(a, out) for out in outputs)
            for out in outputs:
                assert out.ndim == 0 or out.flags.writeable
                assert not any(np.shares_memory(out, o) for o in outputs if o is not out)

    @pytest.mark.broad
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_the_number_of_threads_changes_no_bit(self, name, monkeypatch, set_num_threads):
        monkeypatch.setattr(dlref._core.threads, "MIN_WORK", 1)
        for problem in problems(name):
            results = []
            for threads in (1, 8):
                set_num_threads(threads)
                results.append(leaves(evaluate(name, problem)))
            for one, eight in zip(*results, strict=True):
                assert one.tobytes() == eight.tobytes()

    @pytest.mark.parametrize(
        "name", [n for n in FUNCTIONS if spec_of(n).batched and split(n)[1] != "jacobian"]
    )
    def test_batch_axes_are_a_loop(self, name):
        call = spec_of(name).calls[0]
        singles = [Problem(key_of(name), call, seed=seed) for seed in range(3)]
        arguments = [problem.arguments(form_of(name)) for problem in singles]
        together = evaluate(name, singles[0], stack(arguments))
        one_by_one = stack([as_tuple(evaluate(name, p)) for p in singles])
        for got, want in zip(leaves(together), leaves(one_by_one), strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=0, atol=4e-15 * magnitude(want))


def flat_shape(arguments):
    return [side for a in leaves(arguments) for side in a.shape]


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def stack(arguments):
    """Stack the arrays of equal nested tuples."""
    if isinstance(arguments[0], tuple):
        return tuple(stack(list(entries)) for entries in zip(*arguments, strict=True))
    return None if arguments[0] is None else np.stack(arguments)


def without(size, tree_of_arrays):
    """Cut to nothing every axis that has this size."""
    return tree(
        lambda a: a[tuple(slice(0) if n == size else slice(None) for n in a.shape)],
        tree_of_arrays,
    )


def empty_value(name, problem):
    """Return the value of the map; NumPy has those of calculus, and takes nothing of nothing."""
    if key_of(name) in FUNCTIONS:
        return evaluate(key_of(name), problem, problem.inputs)
    try:
        return problem.value()
    except (IndexError, ValueError):
        return np.zeros(())


class TestEmpty:
    @pytest.mark.broad
    @pytest.mark.parametrize("name", [n for n in FUNCTIONS if form_of(n) in FORMS])
    def test_an_axis_of_size_0_has_a_result_or_is_refused_in_words(self, name):
        for problem in problems(name):
            arrays = [a for a in problem.inputs if isinstance(a, np.ndarray)]
            for size in {n for a in arrays for n in a.shape} - {0, 1}:
                cut = copy.copy(problem)
                cut.inputs = without(size, problem.inputs)
                cut.tangents = without(size, problem.tangents)
                try:
                    cut.dout = tree(np.zeros_like, empty_value(name, cut))
                    evaluate(name, cut)
                except (TypeError, ValueError) as error:
                    assert str(error).startswith("Argument"), (size, cut.inputs)  # noqa: PT017


class TestNaN:
    @pytest.mark.parametrize("name", [n for n in FUNCTIONS if split(n)[1] in {"vjp", "jvp"}])
    def test_in_a_cotangent_or_tangent_reaches_what_depends_on_it(self, name):
        for problem in problems(name):
            primals = problem.arguments("jvp")[0]
            nan = lambda a: np.full(np.shape(a), np.nan)  # noqa: E731
            if split(name)[1] == "vjp":
                out = evaluate(name, problem, (tree(nan, problem.dout), *problem.inputs))
                reached = [abs(J).sum(0) > 0 for J in problem.jacobians()]
            else:
                out = evaluate(name, problem, (primals, tree(nan, problem.arguments("jvp")[1])))
                reached = [sum(abs(J).sum(1) for J in problem.jacobians()) > 0]
            for hit, got in zip(np.concatenate(reached), flat(out), strict=True):
                assert np.isnan(got) or not hit

    @pytest.mark.broad
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_in_an_input_flows_or_does_not_matter(self, name):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for problem in problems(name):
                out = flat(evaluate(name, problem))
                if not out.size:
                    continue
                for position in problem.varying:
                    if not problem.inputs[position].size:
                        continue
                    inputs = list(problem.inputs)
                    inputs[position] = 1.5 * inputs[position] + 0.125
                    moved = flat(with_inputs(name, problem, inputs))
                    inputs[position] = np.full_like(inputs[position], np.nan)
                    with_nan = flat(with_inputs(name, problem, inputs))
                    if spec_of(name).analytic and not np.array_equal(out, moved):
                        assert np.isnan(with_nan).any(), (name, position)


def with_inputs(name, problem, inputs):
    """Evaluate at other inputs, with the same cotangent or tangents."""
    if form_of(name) == "vjp":
        arguments = (problem.dout, *inputs)
    elif form_of(name) == "jvp":
        arguments = (inputs[0] if len(inputs) == 1 else tuple(inputs), problem.arguments("jvp")[1])
    else:
        arguments = inputs
    return evaluate(name, problem, arguments)

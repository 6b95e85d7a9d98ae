"""
Parameters in nested tuples: to draw them, and what holds for every map that takes them.

A topic's tests subclass `Contract` and say which maps they mean; dlref.formulas says what
has to come out.
"""

import ml_dtypes
import numpy as np
import pytest
from complex_step import complex_step
from conftest import TOLERANCE

import dlref
import dlref._core.threads


def leaves(tree):
    """List the arrays of a nested tuple, in order."""
    if isinstance(tree, tuple):
        return [leaf for entry in tree for leaf in leaves(entry)]
    return [] if tree is None else [np.asarray(tree)]


def mapped(f, tree):
    """Apply f to every array of a nested tuple; None stays None."""
    if isinstance(tree, tuple):
        entries = [mapped(f, entry) for entry in tree]
        return type(tree)(*entries) if hasattr(tree, "_fields") else tuple(entries)
    return None if tree is None else f(np.asarray(tree))


def filled(tree, arrays):
    """Put arrays, in order, in the places of those of a nested tuple."""
    rest = iter(arrays)
    return mapped(lambda _: next(rest), tree)


def drawn(rng, tree, deviation=0.5):
    """Draw normal numbers in the structure of a tree, around those that are there."""
    return mapped(lambda a: a + deviation * rng.normal(size=a.shape), tree)


def moving(tree):
    """Whether an argument is one of reals."""
    return all(a.dtype.kind not in "iub" for a in leaves(tree))


def assert_close(got, want, tolerance):
    """Compare two trees, normwise: the scale is that of the largest number of all."""
    ours, theirs = leaves(got), leaves(want)
    scale = max((float(np.max(abs(t), initial=0.0)) for t in theirs), default=0.0)
    assert len(ours) == len(theirs)
    for g, t in zip(ours, theirs, strict=True):
        assert g.shape == t.shape
        assert np.max(abs(g - t), initial=0.0) <= tolerance * scale


class Contract:
    """
    What holds for a map with parameters in a tuple, and for its two products.

    Subclasses have `problems`: a list of functions of a generator that return the arguments
    (arrays, trees, integers) and the options, and `maps`: the map, vjp, jvp and formula.
    `after` are arguments behind the primals that are not arrays.
    """

    def pytest_generate_tests(self, metafunc):
        if "number" in metafunc.fixturenames:
            metafunc.parametrize("number", range(len(self.problems)))

    @pytest.fixture
    def problem(self, number, rng):
        return self.problems[number](rng)

    def formula(self, primals, after, options):
        return self.maps[3](*primals, *after, **options)

    def tangents(self, rng, primals):
        return tuple(
            mapped(lambda a: rng.normal(size=a.shape), p) if moving(p) else None for p in primals
        )

    def test_value_is_that_of_the_formula(self, problem):
        primals, after, options = problem
        got = self.maps[0](*primals, *after, **options)
        assert_close(got, self.formula(*problem), 1e-14)

    def test_jvp_is_a_complex_step(self, problem, rng):
        primals, after, options = problem
        tangents = self.tangents(rng, primals)
        got = self.maps[2](primals, tangents, *after, **options)
        flat = [
            a for p, t in zip(primals, tangents, strict=True) for a in leaves(p) if t is not None
        ]

        def f(*arrays):
            rest = iter(arrays)
            filled_in = tuple(
                p if t is None else mapped(lambda _: next(rest), p)
                for p, t in zip(primals, tangents, strict=True)
            )
            return self.formula(filled_in, after, options)

        want = complex_step(f, flat, leaves(tuple(t for t in tangents if t is not None)))
        assert_close(got, want, 3e-14)

    def test_vjp_is_the_adjoint_of_jvp(self, problem, rng):
        primals, after, options = problem
        tangents = self.tangents(rng, primals)
        pushed = self.maps[2](primals, tangents, *after, **options)
        dout = rng.normal(size=pushed.shape)
        pulled = self.maps[1](dout, *primals, *after, **options)
        pulled = pulled if type(pulled) is tuple else (pulled,)
        there = tuple(t for t in tangents if t is not None)
        terms = [
            (g * t).ravel()
            for g, t in zip(leaves(pulled[: len(there)]), leaves(there), strict=True)
        ]
        left, right = np.sum(dout * pushed), np.sum(np.concatenate(terms))
        scale = max(np.sum(abs(dout * pushed)), np.sum(abs(np.concatenate(terms))))
        assert abs(left - right) <= 1e-14 * scale

    @pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
    def test_narrow_input_gives_the_rounded_wide_result(self, dtype, rng):
        primals, after, options = self.problems[0](rng)
        narrow = tuple(mapped(lambda a: a.astype(dtype), p) if moving(p) else p for p in primals)
        wide = tuple(mapped(lambda a: a.astype(float), p) if moving(p) else p for p in narrow)
        got, want = (self.maps[0](*p, *after, **options) for p in (narrow, wide))
        assert got.dtype == dtype
        assert_close(mapped(lambda a: a.astype(float), got), want, TOLERANCE[np.dtype(dtype).name])
        dout = np.asarray(rng.normal(size=want.shape).astype(dtype))
        got = self.maps[1](dout, *narrow, *after, **options)
        want = self.maps[1](dout.astype(float), *wide, *after, **options)
        assert all(g.dtype == dtype for g in leaves(got))
        tolerance = 8 * TOLERANCE[np.dtype(dtype).name]  # of a chain of several
        assert_close(mapped(lambda a: a.astype(float), got), want, tolerance)

    def test_integers_count_as_float64(self, rng):
        primals, after, options = self.problems[0](rng)
        whole = tuple(mapped(lambda a: np.rint(3 * a), p) if moving(p) else p for p in primals)
        ints = tuple(mapped(lambda a: a.astype(int), p) for p in whole)
        got, want = (self.maps[0](*p, *after, **options) for p in (ints, whole))
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, want)

    def test_complex_parameters_are_refused(self, rng):
        primals, after, options = self.problems[0](rng)
        for k, p in enumerate(primals):
            bad = (*primals[:k], mapped(lambda a: a.astype(complex), p), *primals[k + 1 :])
            with pytest.raises(TypeError, match=r"^Argument '.*' must be .*, not complex128"):
                self.maps[0](*bad, *after, **options)

    def test_inputs_are_neither_written_to_nor_aliased(self, problem, rng):
        primals, after, options = problem
        dout = rng.normal(size=np.shape(self.maps[0](*primals, *after, **options)))
        inputs = leaves((dout, *primals))
        before = [a.copy() for a in inputs]
        outs = leaves(self.maps[0](*primals, *after, **options))
        outs += leaves(self.maps[1](dout, *primals, *after, **options))
        for a, old in zip(inputs, before, strict=True):
            np.testing.assert_array_equal(a, old)
            assert not any(np.shares_memory(a, out) for out in outs)

    def test_any_layout_gives_the_same_values(self, rng):
        primals, after, options = self.problems[0](rng)
        want = self.maps[0](*primals, *after, **options)
        for layout in (
            lambda a: a.copy(order="F"),
            lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
            lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
        ):
            moved = tuple(mapped(layout, p) for p in primals)
            assert_close(self.maps[0](*moved, *after, **options), want, 1e-14)

    def test_the_number_of_threads_changes_no_bit(self, rng, monkeypatch, set_num_threads):
        monkeypatch.setattr(dlref._core.threads, "MIN_WORK", 1)
        primals, after, options = self.problems[0](rng)
        dout = rng.normal(size=np.shape(self.maps[0](*primals, *after, **options)))
        results = []
        for threads in (1, 8):
            set_num_threads(threads)
            results.append(leaves(self.maps[1](dout, *primals, *after, **options)))
        for one, eight in zip(*results, strict=True):
            assert one.tobytes() == eight.tobytes()

    def test_missing_tangents_are_zero(self, rng):
        primals, after, options = self.problems[0](rng)
        none = (None,) * len(primals)
        moved = self.maps[2](primals, none, *after, **options)
        np.testing.assert_array_equal(moved, np.zeros_like(moved))

    def test_a_cotangent_or_tangent_of_the_wrong_shape_is_refused(self, rng):
        primals, after, options = self.problems[0](rng)
        out = self.maps[0](*primals, *after, **options)
        with pytest.raises(ValueError, match=r"^Argument 'dout' must have shape"):
            self.maps[1](np.ones((*out.shape, 2)), *primals, *after, **options)
        bad = tuple(
            mapped(lambda a: np.ones((*a.shape, 2)), p) if moving(p) else None for p in primals
        )
        with pytest.raises(ValueError, match=r"^Argument 'tangents.* must have shape"):
            self.maps[2](primals, bad, *after, **options)

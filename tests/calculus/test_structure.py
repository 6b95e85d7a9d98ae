"""Tests of the maps that move numbers, and of sums of products by their indices."""

import numpy as np
import pytest

from dlref import calculus

NAN, INF = np.nan, np.inf


@pytest.fixture
def peers():
    return pytest.importorskip("peers")


#: A dtype, three numbers, and their sum rounded once.  Rounded after each addition, or to float32
#: on the way to float16, it would be 1.
ROUNDED_ONCE = [
    (np.float16, [2**-11, 1, 2**-24], 1 + 2**-10),
    (np.float32, [2**-24, 1, 2**-24], 1 + 2**-23),
]


@pytest.mark.parametrize(("dtype", "terms", "want"), ROUNDED_ONCE)
class TestSumsAreRoundedOnce:
    def check(self, got, dtype, want):
        assert got.dtype == dtype
        assert np.unique(got) == want

    def test_scatter_add(self, dtype, terms, want):
        x, updates = np.array(terms[:1], dtype), np.array(terms[1:], dtype)
        self.check(calculus.scatter_add(x, [0, 0], updates), dtype, want)
        primals = (np.zeros(1, dtype), [0, 0], np.zeros(2, dtype))
        self.check(calculus.scatter_add_jvp(primals, (x, None, updates)), dtype, want)

    def test_take(self, dtype, terms, want):
        dout = np.array(terms, dtype)
        self.check(calculus.take_vjp(dout, np.zeros(1, dtype), [0, 0, 0]), dtype, want)

    def test_where(self, dtype, terms, want):
        dout, x = np.array(terms, dtype), np.zeros(3, dtype)
        self.check(calculus.where_vjp(dout, [True] * 3, dtype(0), x)[0], dtype, want)
        self.check(calculus.where_vjp(dout, [False] * 3, x, dtype(0))[1], dtype, want)

    def test_pad(self, dtype, terms, want):
        """Also where the terms come from two axes."""
        dout, options = np.array(terms, dtype), {"pad_width": 1, "mode": "edge"}
        self.check(calculus.pad_vjp(dout, np.zeros(1, dtype), **options), dtype, want)
        dout = np.zeros((3, 3), dtype)
        dout[0], dout[1, 1] = [terms[0], 0, 0], terms[1]
        dout[2, 0] = terms[2]
        self.check(calculus.pad_vjp(dout, np.zeros((1, 1), dtype), **options), dtype, want)


class TestIndices:
    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_pytorch(self, axis, rng, peers, assert_close):
        x, places = rng.normal(size=(4, 4, 4)), np.array([3, 0, 3, 3, 1])
        of_torch = peers.torch.tensor(places)
        peers.assert_same(
            "calculus.take",
            lambda x: x.index_select(axis, of_torch),
            x,
            constants=(places,),
            rng=rng,
            axis=axis,
        )
        updates, u = rng.normal(size=np.take(x, places, axis).shape), rng.normal(size=x.shape)
        value, grads = peers.value_and_vjp(
            lambda x, w: x.index_add(axis, of_torch, w), x, updates, dout=u
        )
        assert_close(calculus.scatter_add_vjp(u, x, places, updates, axis=axis), grads)
        assert_close(calculus.scatter_add(x, places, updates, axis=axis), value)

    def test_gather_and_scatter_are_transposed(self, rng):
        x, places = rng.normal(size=(5, 3)), rng.integers(-5, 5, size=(4, 6))
        u = rng.normal(size=(4, 6, 3))
        moved = calculus.take_jvp((x, places), (x, None))
        np.testing.assert_array_equal(moved, x[places])
        pulled = calculus.take_vjp(u, x, places)
        np.testing.assert_array_equal(pulled, calculus.scatter_add(np.zeros((5, 3)), places, u))
        np.testing.assert_allclose(np.vdot(u, moved), np.vdot(pulled, x), rtol=1e-13)

    def test_many_updates_of_one_place_are_added_in_float64(self):
        updates = np.full(2**20, np.float32(0.1))
        got = calculus.scatter_add(np.zeros(1, np.float32), np.zeros(2**20, int), updates)
        assert got == np.float32(2**20 * np.float64(np.float32(0.1)))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("axis", [0, 1])
    def test_large(self, axis, dtype, rng, peers, set_num_threads):
        """With several threads, the sums of PyTorch in float64, and the bits of one thread."""
        x = rng.normal(size=(1000, 900)).astype(dtype)
        places = rng.integers(0, x.shape[axis] // 2, 2000)
        updates = np.take(rng.normal(size=x.shape), places, axis).astype(dtype)
        given = [peers.torch.tensor(array) for array in (x, places, updates)]
        want = given[0].double().index_add(axis, given[1], given[2].double()).numpy()
        results = []
        for number in (1, 2, 7):
            set_num_threads(number)
            results.append(calculus.scatter_add(x, places, updates, axis=axis))
        assert results[0].dtype == dtype
        np.testing.assert_allclose(results[0], want, rtol=2 * np.finfo(dtype).eps, atol=1e-14)
        np.testing.assert_array_equal(results[1], results[0])
        np.testing.assert_array_equal(results[2], results[0])

    @pytest.mark.parametrize("count", [10, 2000])
    @pytest.mark.parametrize("shape", [(500,), (40, 3), (6, 50), (5, 40, 2)])
    def test_short_rows(self, shape, count, rng, peers):
        """Numbers and pairs along each axis, few or many of them."""
        x = rng.normal(size=shape).astype(np.float32)
        for axis, length in enumerate(shape):
            places = rng.integers(0, length, count)
            updates = np.take(rng.normal(size=shape), places, axis).astype(np.float32)
            given = [peers.torch.tensor(array) for array in (x, places, updates)]
            want = given[0].double().index_add(axis, given[1], given[2].double()).numpy()
            got = calculus.scatter_add(x, places, updates, axis=axis)
            np.testing.assert_array_equal(got, want.astype(np.float32))

    @pytest.mark.parametrize("shape", [(5, 12), (4, 2, 9), (300,)])
    def test_long_rows_and_few_updates(self, shape, rng):
        """Rows without an update, with one and with several."""
        x, places = rng.normal(size=shape).astype(np.float32), np.array([3, 1, 3, 3])
        updates = rng.normal(size=(4, *shape[1:])).astype(np.float32)
        want = x.astype(float)
        np.add.at(want, places, updates.astype(float))
        got = calculus.scatter_add(x, places, updates)
        np.testing.assert_array_equal(got, want.astype(np.float32))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_nothing_is_added(self, dtype):
        """An empty sum is 0, and -0 plus 0 is 0."""
        got = calculus.scatter_add(np.array([1, -0.0], dtype), np.zeros(0, int), np.zeros(0, dtype))
        np.testing.assert_array_equal(got, np.array([1, 0], dtype))
        assert not np.signbit(got).any()

    def test_negative_indices_count_from_the_end(self):
        np.testing.assert_array_equal(calculus.take_vjp([1, 10], [0, 0, 0], [-1, -3]), [10, 0, 1])

    def test_a_nan_stays_in_its_place(self):
        got = calculus.scatter_add([0, 0, 0], [1, 1], [NAN, 1])
        np.testing.assert_array_equal(got, [0, NAN, 0])

    @pytest.mark.parametrize(
        ("places", "error", "words"),
        [
            ([3], ValueError, "must hold integers from -3 to 2, not 3"),
            ([-4], ValueError, "must hold integers from -3 to 2, not -4"),
            ([0.0], TypeError, "must be integer, not float64"),
        ],
    )
    def test_indices_that_are_refused(self, places, error, words):
        x = np.ones(3)
        for name, call in (
            ("indices", lambda: calculus.scatter_add(x, places, [1.0])),
            ("indices", lambda: calculus.scatter_add_vjp(x, x, places, [1.0])),
            ("primals[1]", lambda: calculus.scatter_add_jvp((x, places, [1.0]), 3 * (None,))),
            ("indices", lambda: calculus.take_vjp([1.0], x, places)),
            ("primals[1]", lambda: calculus.take_jvp((x, places), (x, None))),
        ):
            with pytest.raises(error) as found:
                call()
            assert str(found.value) == f"Argument {name!r} {words}."

    def test_shapes_that_are_refused(self):
        with pytest.raises(ValueError, match=r"^Argument 'updates' must have shape \(2, 4\), not"):
            calculus.scatter_add(np.ones((3, 4)), [0, 1], np.ones((2, 3)))
        with pytest.raises(ValueError, match=r"^Argument 'axis' must hold distinct axes of an"):
            calculus.take_vjp([1.0], [1.0, 2.0], [0], axis=1)
        with pytest.raises(ValueError, match=r"^Argument 'x' must have at least 1 axis"):
            calculus.take_vjp(1.0, 1.0, 0)
        with pytest.raises(ValueError, match=r"^Argument 'tangents\[1\]' must be None"):
            calculus.take_jvp(([1.0], [0]), ([1.0], [0.0]))


class TestWhere:
    def test_pytorch(self, rng, peers, assert_close):
        condition = rng.random((4, 1, 3)) < 0.5
        w, x, dout = rng.normal(size=(5, 1)), rng.normal(size=3), rng.normal(size=(4, 5, 3))
        chosen = peers.torch.tensor(condition)
        f = lambda w, x: peers.torch.where(chosen, w, x)  # noqa: E731
        _, want = peers.value_and_vjp(f, w, x, dout=dout)
        assert_close(calculus.where_vjp(dout, condition, w, x), want, scale=20.0)

    def test_the_other_operand_does_not_matter(self):
        dw, dx = calculus.where_vjp([1, INF], [True, False], [0, NAN], [NAN, 0])
        np.testing.assert_array_equal(dw, [1, 0])
        np.testing.assert_array_equal(dx, [0, INF])

    def test_the_root_has_to_be_protected_as_well(self, peers):
        """As the docstring says, in PyTorch, too."""
        x = np.array([0.0, 4.0])
        of_root = calculus.where_vjp([1, 1], x > 0, np.sqrt(x), 0.0)[0]
        assert np.isnan(calculus.sqrt_vjp(of_root, x)[0])
        where, sqrt = peers.torch.where, peers.torch.sqrt
        _, [theirs] = peers.value_and_vjp(lambda x: where(x > 0, sqrt(x), 0 * x), x)
        assert np.isnan(theirs[0])
        safe = np.where(x > 0, x, 1)
        of_safe = calculus.sqrt_vjp(calculus.where_vjp([1, 1], x > 0, np.sqrt(safe), 0.0)[0], safe)
        np.testing.assert_array_equal(calculus.where_vjp(of_safe, x > 0, x, 1.0)[0], [0, 0.25])

    @pytest.mark.parametrize(
        ("condition", "error", "words"),
        [
            (
                [1, 0],
                TypeError,
                r"'condition' must be boolean \(True = the first operand\), not int",
            ),
            (
                [True] * 3,
                ValueError,
                r"'condition' must have batch axes that broadcast with \(2,\)",
            ),
        ],
    )
    def test_conditions_that_are_refused(self, condition, error, words):
        with pytest.raises(error, match=f"^Argument {words}"):
            calculus.where_vjp([1.0, 1.0], condition, [1.0, 2.0], 0.0)


class TestConcatenate:
    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_pytorch(self, axis, rng, peers):
        shape = np.array([3, 2, 4])
        shape[axis] = 1
        arrays = [np.repeat(rng.normal(size=shape), n, axis) for n in (2, 0, 3)]
        f = lambda *parts: peers.torch.cat(parts, axis)  # noqa: E731
        peers.assert_same("calculus.concatenate", f, *arrays, rng=rng, axis=axis)

    def test_tangents_may_be_missing(self):
        got = calculus.concatenate_jvp(([1.0], [2.0, 3.0]), (None, [5, 6]))
        np.testing.assert_array_equal(got, [0, 5, 6])

    @pytest.mark.parametrize(
        ("arrays", "options", "words"),
        [
            ([[1.0]], {}, "'arrays' must be two or more arrays, not 1"),
            ([], {}, "'arrays' must be two or more arrays, not 0"),
            ([[1.0], [[1.0]]], {}, r"'arrays\[1\]' must have shape \(1,\), not \(1, 1\)"),
            ([np.ones((2, 3)), np.ones((2, 2))], {},
             r"'arrays\[1\]' must have shape \(2, 3\), not \(2, 2\)"),
            ([[1.0], [1.0]], {"axis": 1}, "'axis' must hold distinct axes of an array of 1 axes"),
            ([1.0, 2.0], {}, r"'arrays\[0\]' must have at least 1 axis"),
        ],
    )  # fmt: skip
    def test_refused(self, arrays, options, words):
        with pytest.raises(ValueError, match=f"^Argument {words}"):
            calculus.concatenate_vjp(np.ones(2), *arrays, **options)


MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "wrap": "circular"}


class TestPad:
    @pytest.mark.parametrize("mode", MODES)
    def test_pytorch(self, mode, rng, peers):
        pad = peers.torch.nn.functional.pad
        f = lambda x: pad(x, (2, 1, 1, 2), mode=MODES[mode])  # noqa: E731
        options = {"pad_width": ((0, 0), (0, 0), (1, 2), (2, 1)), "mode": mode}
        peers.assert_same("calculus.pad", f, rng.normal(size=(2, 3, 4, 5)), rng=rng, **options)

    @pytest.mark.parametrize("mode", [*MODES, "symmetric"])
    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    def test_the_matrix_of_numpy(self, mode, n):
        """Each unit vector, padded by NumPy, is a column of the Jacobian; copies occur often."""
        columns = [np.pad(unit, (7, 4), mode=mode) for unit in np.eye(n)]
        u = np.arange(n + 11.0)
        got = calculus.pad_vjp(u, np.zeros(n), pad_width=(7, 4), mode=mode)
        np.testing.assert_array_equal(got, np.array(columns) @ u)
        for unit, column in zip(np.eye(n), columns, strict=True):
            moved = calculus.pad_jvp(np.ones(n), unit, pad_width=(7, 4), mode=mode)
            np.testing.assert_array_equal(moved, column)

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"pad_width": -1}, ValueError, "'pad_width' must not be negative, not -1"),
            ({"pad_width": 1.5}, TypeError, "'pad_width' must be integer, not float64"),
            ({"pad_width": [1, 2, 3]}, ValueError,
             r"'pad_width' must be an integer, a pair \(before, after\), or a pair for each of 2"),
            ({"pad_width": 2**40}, ValueError, r"'pad_width' must make fewer than 2\*\*48 numbers"),
            ({"pad_width": 1, "mode": "circular"}, ValueError, "'mode' must be 'constant', 'edge'"),
        ],
    )  # fmt: skip
    def test_refused(self, options, error, words):
        x = np.ones((2, 2))
        for call in (
            lambda: calculus.pad_vjp(x, x, **options),
            lambda: calculus.pad_jvp(x, x, **options),
        ):
            with pytest.raises(error, match=f"^Argument {words}"):
                call()

    def test_images(self, rng, peers, assert_close):
        pad, x = peers.torch.nn.functional.pad, rng.normal(size=(2, 3, 40, 50))
        dout = rng.normal(size=(2, 3, 47, 68))
        _, [want] = peers.value_and_vjp(
            lambda x: pad(x, (9, 9, 3, 4), mode="reflect"), x, dout=dout
        )
        options = {"pad_width": ((0, 0), (0, 0), (3, 4), (9, 9)), "mode": "reflect"}
        assert_close(calculus.pad_vjp(dout, x, **options), want)

    def test_a_scalar_has_no_border(self):
        got = calculus.pad_vjp(np.float32(3), np.float32(0), pad_width=1, mode="edge")
        assert got == 3
        assert got.dtype == np.float32

    def test_nothing_cannot_be_repeated(self):
        assert calculus.pad_vjp([1.0], np.ones(0), pad_width=(0, 1)).shape == (0,)
        with pytest.raises(ValueError, match=r"^Argument 'x' must not be empty along an axis"):
            calculus.pad_vjp([1.0], np.ones(0), pad_width=(0, 1), mode="edge")


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iii->i", (3, 3, 3)),
    ("iij->j", (3, 3, 2)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,kl->jk", (2, 3), (4, 2)),
    ("ii,ij->j", (3, 3), (3, 2)),
    ("bhtd,bhsd->bhts", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
    ("...i,...i->...", (4, 1, 3), (2, 3)),
    ("i...->...", (3, 2, 4)),
    (" i , j -> j i ", (2,), (3,)),
    ("aB,Bc->ca", (2, 3), (3, 4)),
]


class TestEinsum:
    @pytest.mark.parametrize("case", EINSUMS, ids=lambda case: case[0])
    def test_pytorch(self, case, rng, peers):
        subscripts, *shapes = case
        operands = [rng.normal(size=shape) for shape in shapes]
        f = lambda *operands: peers.torch.einsum(subscripts, *operands)  # noqa: E731
        peers.assert_same("calculus.einsum", f, *operands, rng=rng, subscripts=subscripts)

    def test_special_cases_have_functions_of_their_own(self, rng):
        A, B, w, x = (rng.normal(size=shape) for shape in [(4, 4), (4, 3), (4,), (4,)])
        U = rng.normal(size=(4, 3))
        for got, want in (
            (calculus.einsum_vjp(U, A, B, subscripts="ij,jk->ik"), calculus.matmul_vjp(U, A, B)),
            (calculus.einsum_vjp(2.0, A, subscripts="ii"), calculus.trace_vjp(2.0, A)),
            (calculus.einsum_vjp(2.0, w, x, subscripts="i,i"), calculus.dot_vjp(2.0, w, x)),
            (calculus.einsum_vjp(x, A, subscripts="ij->i"), calculus.sum_vjp(x, A, axis=1)),
        ):
            pairs = (got, want) if isinstance(want, tuple) else ((got,), (want,))
            for one, other in zip(*pairs, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-13)

    @pytest.mark.parametrize("subscripts", ["ij->ij", "ij->ji", "ij->i", "ii->i"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_the_gradient_is_an_array_of_its_own(self, subscripts, dtype):
        A = np.zeros((3, 3), dtype)
        u = np.ones_like(np.einsum(subscripts, A))
        dA = calculus.einsum_vjp(u, A, subscripts=subscripts)
        dA[0, 0] = 5.0
        assert np.count_nonzero(dA == 5) == 1
        np.testing.assert_array_equal(u, 1)

    def test_a_nan_in_one_row_stays_there(self):
        A = np.ones((2, 3))
        A[0, 0] = NAN
        dA, dx = calculus.einsum_vjp([1, 1], A, np.ones(3), subscripts="ij,j->i")
        assert np.isfinite(dA).all()
        np.testing.assert_array_equal(dx, [NAN, 2, 2])

    @pytest.mark.parametrize(
        ("subscripts", "error", "words"),
        [
            (3, TypeError, "must be a string such as 'ij,jk->ik', not 3"),
            ("ij->i", ValueError, "must have 2 terms, one for each operand, not 1: 'ij->i'"),
            ("i1,jk->ik", ValueError, "must be made of letters, commas, '...' and one '->', not"),
            ("ij,j->k->i", ValueError, "must be made of letters, commas, '...' and one '->', not"),
            ("....ij,jk", ValueError, "must be made of letters, commas, '...' and one '->', not"),
            ("ijk,jk->i", ValueError, "must name the 2 axes of 'operands[0]', whose shape is"),
            ("ij,ik->jk", ValueError,
             "must give one letter to axes of one length, not 'i' to 2 and 3"),
            ("ij,jk->iz", ValueError, "must have an output of distinct letters of the operands"),
            ("ij,jk->ii", ValueError, "must have an output of distinct letters of the operands"),
        ],
    )  # fmt: skip
    def test_refused(self, subscripts, error, words):
        with pytest.raises(error) as found:
            calculus.einsum_vjp(
                np.ones((2, 4)), np.ones((2, 3)), np.ones((3, 4)), subscripts=subscripts
            )
        assert str(found.value).startswith(f"Argument 'subscripts' {words}")

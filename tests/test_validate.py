"""Tests of dlref._validate: dtypes, shapes and the wording of errors."""

import ml_dtypes
import numpy as np
import pytest

from dlref import _validate as v


class TestDtypes:
    @pytest.mark.parametrize(
        ("arguments", "dtype"),
        [
            ([np.float32([1])], "float32"),
            ([np.float32([1]), np.float64([1])], "float64"),
            ([np.float16([1]), np.float32([1])], "float32"),
            ([np.int8([1]), np.float32([1])], "float64"),  # integers count as float64
            ([np.array([True])], "float64"),
            ([np.float32([1]), 2], "float32"),  # Python scalars follow the arrays
            ([np.float32([1]), 2.5, True], "float32"),
            ([1, 2.0], "float64"),
            ([np.float16([1]), 3.0], "float16"),
            ([np.array([1], ml_dtypes.bfloat16), 3.0], "bfloat16"),
            ([np.array([1], ml_dtypes.bfloat16), np.float32([1])], "float32"),
            ([np.array([1], ">f4")], "float32"),
            ([[1, 2], [3.0]], "float64"),
        ],
    )
    def test_promote_as_in_numpy(self, arguments, dtype):
        named = {f"a{i}": a for i, a in enumerate(arguments)}
        common, arrays = v.as_floats(named)
        assert common == np.dtype(dtype)
        assert common.isnative
        assert all(array.dtype == np.float64 for array in arrays)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
    def test_narrow_ones_are_computed_in_float32_where_that_is_enough(self, dtype):
        common, (array,) = v.as_floats({"x": np.array([1, 2], dtype)}, work=np.float32)
        assert common == np.dtype(dtype)
        assert array.dtype == np.float32

    def test_the_two_halves_do_not_promote(self):
        pair = {"x": np.float16([1]), "y": np.array([1], ml_dtypes.bfloat16)}
        with pytest.raises(TypeError, match=r"^Arguments 'x' or 'y' must have dtypes that promote"):
            v.as_floats(pair)

    def test_result_rounds_once_and_does_not_warn(self):
        out = v.result(np.array([1e300, 1 + 2**-24 + 2**-50]), np.dtype(np.float32))
        assert out.tolist() == [np.inf, 1 + 2**-23]

    def test_result_without_axes_is_a_numpy_scalar(self):
        assert type(v.result(np.array(2.0), np.dtype(np.float32))) is np.float32


class TestAxes:
    @pytest.mark.parametrize(
        ("axis", "axes"), [(None, (0, 1, 2)), (-1, (2,)), ((2, 0), (0, 2)), ((), ())]
    )
    def test_are_sorted(self, axis, axes):
        assert v.reduced_axes(axis, 3) == axes

    @pytest.mark.parametrize("axis", [3, -4, (0, 0), (0, -3)])
    def test_out_of_range_or_repeated(self, axis):
        with pytest.raises(ValueError, match=r"^Argument 'axis' must .*, not \S"):
            v.reduced_axes(axis, 3)

    @pytest.mark.parametrize("axis", [1.0, "0", (0, 1.5), [[0]]])
    def test_of_another_type(self, axis):
        with pytest.raises(TypeError, match=r"^Argument 'axis' must .*, not \S"):
            v.reduced_axes(axis, 3)


class TestWording:
    def test_shape(self):
        with pytest.raises(
            ValueError, match=r"^Argument 'w' must have shape \(3,\), not \(2,\)\.$"
        ):
            v.check_shape("w", np.ones(2), (3,))

    @pytest.mark.parametrize(("ndim", "axes"), [(1, "1 axis"), (2, "2 axes")])
    def test_ndim(self, ndim, axes):
        with pytest.raises(ValueError, match=rf"'w' must have at least {axes}, not shape \(\)\.$"):
            v.check_ndim("w", np.ones(()), ndim)

    @pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
    def test_matrix(self, shape):
        with pytest.raises(ValueError, match=r"'a' must have shape \(\.\.\., n, n\), not \("):
            v.check_matrix("a", np.ones(shape))

    def test_choice(self):
        with pytest.raises(ValueError, match=r"'mode' must be 'a', 'b' or 'c', not 'd'\.$"):
            v.choice("mode", "d", ("a", "b", "c"))

    def test_single_choice(self):
        with pytest.raises(ValueError, match=r"'mode' must be 'a', not 'd'\.$"):
            v.choice("mode", "d", ("a",))


class TestNumbers:
    @pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0)])
    def test_are_floats(self, value):
        number = v.as_number("n", value, least=0, most=3)
        assert type(number) is float
        assert number == 2

    @pytest.mark.parametrize("value", ["2", None, True, [2.0], np.ones(1), 2j])
    def test_of_another_type(self, value):
        with pytest.raises(TypeError, match=r"^Argument 'n' must be a number, not "):
            v.as_number("n", value)

    @pytest.mark.parametrize(
        ("value", "limits", "words"),
        [
            (-1, {"least": 0}, "at least 0, not -1"),
            (2, {"least": 0, "most": 1}, "from 0 to 1, not 2"),
            (0, {"above": 0}, "greater than 0, not 0"),
            (np.nan, {"least": 0}, "at least 0, not nan"),
        ],
    )
    def test_out_of_range(self, value, limits, words):
        with pytest.raises(ValueError, match=rf"^Argument 'n' must be {words}\.$"):
            v.as_number("n", value, **limits)

    def test_without_limits_anything_goes(self):
        assert np.isnan(v.as_number("n", np.nan))

"""Tests of dlref._core.arguments: dtypes, shapes and the wording of errors."""

import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from dlref._core import arguments as v


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


class TestArrays:
    def test_of_too_many_axes(self):
        for check in (lambda x: v.as_array("x", x), lambda x: v.as_floats({"x": x})):
            check(np.ones((1,) * 32))
            with pytest.raises(
                ValueError, match=r"^Argument 'x' must have at most 32 axes, not 33"
            ):
                check(np.ones((1,) * 33))

    @pytest.mark.parametrize("dtype", [np.dtypes.StringDType(), "U1", "S1", "M8[s]", "V3", object])
    def test_of_no_numbers(self, dtype):
        array = np.zeros(2, dtype)
        with pytest.raises(TypeError, match=r"^Argument 'x' must be integer, float16, .*, not "):
            v.as_floats({"x": array})
        with pytest.raises(TypeError, match=r"^Argument 'x' must be integer, not "):
            v.as_integers("x", array)

    def test_of_numbers_too_large_for_float64(self):
        # NumPy refuses such a list or makes an array of objects of it, by its version
        kinds = "an array, not list: |integer, .* not object"
        with pytest.raises(TypeError, match=rf"^Argument 'x' must be ({kinds})"):
            v.as_floats({"x": [10**400, 1.0]})

    def test_that_cannot_be_had(self):
        class Elsewhere:
            def __array__(self, *args, **options):
                msg = "on another device"
                raise RuntimeError(msg)

        with pytest.raises(TypeError, match=r"'x' must be an array, not Elsewhere: on another dev"):
            v.as_array("x", Elsewhere())

    def test_integers_too_large_for_int64(self):
        assert v.as_integers("n", np.array([2**63 - 1], np.uint64)).dtype == np.int64
        with pytest.raises(ValueError, match=rf"at most {2**63 - 1}, not {2**63}\.$"):
            v.as_integers("n", [2**63])
        with pytest.raises(TypeError, match=r"^Argument 'n' must be integer, not object\.$"):
            v.as_integers("n", [2**64])

    @pytest.mark.parametrize(
        ("dtype", "words"),
        [
            (-(10**5000), "a number of 16610 bits"),
            ({"a": 1}, "{'a': 1}"),
            ("x y z", "'x y z'"),
            (3j, "3j"),
            (object, "object"),
            (np.complex64, "complex64"),
        ],
        ids=["integer", "dictionary", "text", "complex", "object", "complex64"],
    )
    def test_no_dtypes(self, dtype, words):
        words = f"bfloat16, float32 or float64, not {words}."
        with pytest.raises(TypeError, match=f"{re.escape(words)}$"):
            v.float_dtype("dtype", dtype)

    def test_dtypes_of_8_bits_are_pointed_to_where_they_are(self):
        words = r"not 'float8'\. In 8 bits numbers are stored only: see dlref\.quantization\."
        with pytest.raises(TypeError, match=words):
            v.float_dtype("dtype", "float8")
        with pytest.raises(TypeError, match=r"'x' must be .* not float8_e5m2\. In 8 bits"):
            v.as_floats({"x": np.zeros(2, ml_dtypes.float8_e5m2)})

    def test_the_name_of_a_dtype_of_pytorch(self):
        words = r"not 'torch.bfloat16'\. NumPy has bfloat16 if the package ml_dtypes"
        with pytest.raises(TypeError, match=words):
            v.float_dtype("dtype", "torch.bfloat16")

    def test_bfloat16_is_a_dtype_where_its_package_is_installed(self):
        code = (
            "import sys; sys.modules['ml_dtypes'] = None\n"
            "from dlref._core.arguments import float_dtype\n"
            "try: float_dtype('dtype', 'bfloat16')\n"
            "except TypeError as error: print(error)\n"
            "del sys.modules['ml_dtypes']; print(float_dtype('dtype', 'bfloat16'))"
        )
        command = [sys.executable, "-c", code]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        missing, found = lines.splitlines()
        assert missing.endswith(
            "not 'bfloat16'. NumPy has bfloat16 if the package ml_dtypes is installed."
        )
        assert found == "bfloat16"

    def test_no_memory_is_large_enough(self):
        v.check_size(a=2**24, b=2**23)
        with pytest.raises(ValueError, match=r"^Argument 'a' must make fewer than 2\*\*48 numbers"):
            v.check_size(a=2**48)


class TestAxes:
    @pytest.mark.parametrize(
        ("axis", "axes"), [(None, (0, 1, 2)), (-1, (2,)), ((2, 0), (0, 2)), ((), ())]
    )
    def test_are_sorted(self, axis, axes):
        assert v.reduced_axes(axis, 3) == axes

    @pytest.mark.parametrize("axis", [3, -4, (0, 0), (0, -3), 2**63, (0, 2**64)])
    def test_out_of_range_or_repeated(self, axis):
        with pytest.raises(ValueError, match=r"^Argument 'axis' must .*, not \S"):
            v.reduced_axes(axis, 3)

    @pytest.mark.parametrize("axis", [1.0, "0", (0, 1.5), [[0]], np.ones((2, 2))])
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

    @pytest.mark.parametrize("value", [["a"], {}, np.ones(2), np.array(["a", "b"]), None])
    def test_choice_of_things_that_do_not_compare(self, value):
        with pytest.raises(ValueError, match=r"'mode' must be 'a' or 'b', not [^\n]*\.$"):
            v.choice("mode", value, ("a", "b"))

    def test_flags(self):
        v.check_flags(x=True, y=np.False_)
        with pytest.raises(TypeError, match=r"^Argument 'y' must be True or False, not 'no'\.$"):
            v.check_flags(x=True, y="no")
        with pytest.raises(TypeError, match=r"^Argument 'x' must be True or False, not 1\.$"):
            v.check_flags(x=1)

    def test_functions(self):
        v.check_callable("f", abs)
        with pytest.raises(TypeError, match=r"^Argument 'f' must be a function, not 3\.$"):
            v.check_callable("f", 3)

    def test_values_are_shown_in_one_short_line(self):
        class Broken:
            def __repr__(self):
                raise RuntimeError

        assert v.shown(10**5000) == "a number of 16610 bits"
        assert v.shown([10**5000]) == "this list"
        assert v.shown(Broken()) == "this Broken"
        assert v.shown(np.ones((2, 2))) == "array([[1., 1.], [1., 1.]])"
        assert len(v.shown("a" * 1000)) == 100

    def test_single_choice(self):
        with pytest.raises(ValueError, match=r"'mode' must be 'a', not 'd'\.$"):
            v.choice("mode", "d", ("a",))


class TestNumbers:
    @pytest.mark.parametrize("number", [2**63, 2**64, 10**400, 10**5000], ids=int.bit_length)
    def test_integers_of_64_bits_and_more(self, number):
        with pytest.raises(ValueError, match=rf"^Argument 'n' must be at most {2**63 - 1}, not "):
            v.as_integer("n", number, least=0)
        with pytest.raises(ValueError, match=r"^Argument 'n' must be at least 0, not "):
            v.as_integer("n", -number, least=0)

    @pytest.mark.parametrize("number", [10**400, -(10**5000)], ids=int.bit_length)
    def test_integers_too_large_for_a_float(self, number):
        with pytest.raises(ValueError, match=r"^Argument 'n' must be a float64 number, not "):
            v.as_number("n", number)

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
            (np.inf, {"above": 0, "most": 3}, "at most 3, not inf"),
        ],
    )
    def test_out_of_range(self, value, limits, words):
        with pytest.raises(ValueError, match=rf"^Argument 'n' must be {words}\.$"):
            v.as_number("n", value, **limits)

    def test_without_limits_anything_goes(self):
        assert np.isnan(v.as_number("n", np.nan))

r"""Errors in units in the last place, and a summary of them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import FloatArray, as_array, as_floats, check_shape, result

#: Digits of each dtype, and the exponent of its smallest number.
FORMATS = {
    "float16": (11, -24),
    "bfloat16": (8, -133),
    "float32": (24, -149),
    "float64": (53, -1074),
}


class ErrorReport(NamedTuple):
    """
    Summary of the errors of a result; it prints itself as a sentence.

    Parameters
    ----------
    largest : float
        Largest error in units in the last place (ULP); inf if a value is wrongly finite or not.
    mean : float
        Mean of the finite errors.
    at : tuple of int
        Index of the largest error.
    actual : float
        The result there.
    exact : float
        The exact value there, rounded to float64.
    baseline : float or None
        Largest error of the baseline, if there was one.

    See Also
    --------
    error_report : Makes it.

    Notes
    -----
    A single number hides where a kernel is wrong; the index of the worst value
    helps to find out why.

    Examples
    --------
    >>> from dlref.check import ErrorReport
    >>> print(ErrorReport(2.5, 0.25, (3,), 1.0, 1.125, None))
    largest error 2.5 ULP at (3,): 1.0 instead of 1.125; mean 0.25 ULP
    """

    largest: float
    mean: float
    at: tuple[int, ...]
    actual: float
    exact: float
    baseline: float | None

    def __repr__(self) -> str:
        """Return the report as a sentence."""
        message = (
            f"largest error {self.largest:.3g} ULP at {self.at}: {self.actual!r} instead of "
            f"{self.exact!r}; mean {self.mean:.3g} ULP"
        )
        other = "" if self.baseline is None else f"; baseline: largest {self.baseline:.3g} ULP"
        return message + other


def _in_units(actual: float, exact: Any, unit: float) -> float:
    """Return how many units two numbers are apart, in the arithmetic of the exact one."""
    kind = Fraction if isinstance(exact, Rational) else type(exact)
    return abs(float((exact - kind(actual)) / kind(unit)))


def _near(exact: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Round to float64, numbers that are too large to infinity."""
    if exact.dtype != object:
        with np.errstate(all="ignore"):
            return exact.astype(np.float64)
    wide = np.empty(exact.shape)
    for i, number in enumerate(exact.ravel()):
        try:
            wide.flat[i] = float(number)
        except OverflowError:
            wide.flat[i] = np.inf if number > 0 else -np.inf
    return wide


def _units(exact: FloatArray, name: str) -> FloatArray:
    digits, smallest = FORMATS[name]
    with np.errstate(invalid="ignore"):  # some processors raise it for a signaling NaN
        exponent = np.frexp(exact)[1] - digits
    exponent = np.where(exact == 0, smallest, np.maximum(exponent, smallest))
    return np.asarray(np.ldexp(1.0, exponent))


def ulp_error(actual: npt.ArrayLike, exact: npt.ArrayLike) -> FloatArray:
    r"""
    Error of each value, in units in the last place of the exact one.

    Parameters
    ----------
    actual : array_like
        Results, float16, bfloat16, float32 or float64: the dtype says what a unit is.
    exact : array_like, shape of `actual`
        Exact values with more digits: float64 for narrower results; for float64, long doubles or
        objects (``Fraction``, ``Decimal``, numbers of mpmath).

    Returns
    -------
    ndarray of float64, shape of `actual`
        :math:`\abs{a - e} / \operatorname{ulp}(e)`. It is 0 where both are the same infinity or
        both NaN, and inf where only one of them is finite.

    Raises
    ------
    TypeError
        If `actual` is not real, or `exact` does not consist of numbers.
    ValueError
        If the shapes differ.

    See Also
    --------
    error_report : The largest of them, and where.

    Notes
    -----
    With p binary digits, the error of a result a is

    .. math::

        \frac{\abs{a - e}}{\operatorname{ulp}(e)}, \qquad
        \operatorname{ulp}(e) = 2^{k - p + 1} \quad \text{for} \quad 2^k \le \abs e < 2^{k+1},

    where the unit is the distance between neighboring floating-point numbers, and never less than
    the smallest subnormal number. A correctly rounded result has an error of at most 1/2; 0 in
    place of a normal number has an error of :math:`2^{p-1}` to :math:`2^p`, in float64 4.5e15 to
    9e15. A result beyond the largest number counts as right if the exact value would be rounded to
    infinity.

    The difference is taken in the arithmetic of `exact`, so that nothing is lost before the
    division by a power of two. If both are float64, `exact` counts as the exact value.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from dlref.check import ulp_error
    >>> ulp_error(np.float32([1.0, 1.0]), [1.0, 1 + 2**-24])
    array([0. , 0.5])

    0 in place of the smallest and of the largest number that has this unit:

    >>> [f"{float(error):.2g}" for error in ulp_error([0.0, 0.0], [1.0, np.nextafter(2.0, 0.0)])]
    ['4.5e+15', '9e+15']

    1/3 in float64 is not one third, but the number nearest to it:

    >>> ulp_error([1 / 3], [Fraction(1, 3)])
    array([0.33333333])
    """
    dtype, (a,) = as_floats({"actual": actual}, work=np.float32)
    e = as_array("exact", exact)
    check_shape("exact", e, a.shape)
    real = all(isinstance(y, Real | Decimal) for y in e.ravel()) if e.dtype == object else True
    if not real or e.dtype.kind not in "biufO":
        msg = f"Argument 'exact' must hold numbers, not {e.dtype}."
        raise TypeError(msg)
    near = _near(e)
    units = _units(near, dtype.name)
    with np.errstate(all="ignore"):
        is_object = e.dtype == object
        wide = np.asarray(a, np.float64 if is_object else np.promote_types(e.dtype, np.float64))
        finite = np.isfinite(wide) & np.isfinite(near)
        if is_object:
            some = zip(*(part[finite].tolist() for part in (wide, e, units)), strict=True)
            errors = np.zeros(a.shape)
            errors[finite] = [_in_units(*numbers) for numbers in some]
        else:
            errors = np.asarray(abs(wide - e) / units, np.float64)
        rounded = near.astype(dtype).astype(np.float64)
        same = (rounded == a) | (np.isnan(near) & np.isnan(a))
    return result(np.where(finite, errors, np.where(same, 0.0, np.inf)), np.dtype(np.float64))


def error_report(
    actual: npt.ArrayLike, exact: npt.ArrayLike, baseline: npt.ArrayLike | None = None
) -> ErrorReport:
    r"""
    Largest and mean error of a result, the place of the largest, and a baseline.

    Parameters
    ----------
    actual : array_like
        Results; their dtype says what a unit is.
    exact : array_like, shape of `actual`
        Exact values, as `ulp_error` takes them.
    baseline : array_like or None, shape of `actual`
        Another result, of another kernel, to compare with.

    Returns
    -------
    ErrorReport
        The summary; print it to read it.

    Raises
    ------
    TypeError
        If an array holds no real numbers.
    ValueError
        If the shapes differ, or there are no values.

    See Also
    --------
    ulp_error : The error of each value.
    check_forward : A verdict instead of a report.

    Notes
    -----
    The mean leaves out infinite errors; these are in the largest.

    Examples
    --------
    The textbook derivative of a sigmoid, s (1 - s), and dlref's, in the left tail and the right:

    >>> import numpy as np
    >>> from dlref.activations import sigmoid, sigmoid_deriv
    >>> from dlref.check import error_report
    >>> x = np.float32([-20.0, 20.0])
    >>> exact = sigmoid_deriv(x.astype(np.float64))
    >>> s = sigmoid(x)
    >>> report = error_report(sigmoid_deriv(x), exact, baseline=s * (1 - s))
    >>> report.largest <= 0.501, f"{report.baseline:.0e}"
    (True, '9e+06')
    """
    errors = np.asarray(ulp_error(actual, exact))
    if not errors.size:
        msg = "Argument 'actual' must hold at least one value."
        raise ValueError(msg)
    worst = errors.argmax()
    finite = errors[np.isfinite(errors)]
    other = None if baseline is None else float(np.max(ulp_error(baseline, exact)))
    return ErrorReport(
        float(errors.flat[worst]),
        float(finite.mean()) if finite.size else float("inf"),
        tuple(int(i) for i in np.unravel_index(worst, errors.shape)),
        float(np.asarray(actual).flat[worst]),
        float(_near(np.asarray(exact)).flat[worst]),
        other,
    )

"""Arrays whose operations are rounded at random: the errors that a formula may have."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Distance of 1 from the next number of a format.
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
#: Functions without a rounding error.
EXACT = {
    *(np.negative, np.positive, np.absolute, np.sign, np.copysign, np.maximum, np.minimum),
    *(np.floor, np.ceil, np.rint, np.trunc),
}


class Inherited(np.ndarray[Any, Any]):
    """An array whose kind the results of all functions have, also of those that return others."""

    def __array_function__(self, f: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Return arrays of this kind from `numpy.where`, for example, which loses it."""
        out = super().__array_function__(f, types, args, kwargs)
        if type(out) is not np.ndarray or out.dtype.kind != "f":
            return out
        out = out.view(type(self))
        out.__array_finalize__(self)
        return out


def as_narrow_as(result: Any, inputs: Any, kind: type[Inherited], options: dict[str, Any]) -> Any:
    """
    Return a result in the widest dtype of the inputs of a kind.

    A scalar of float64 would widen it, as would the count that `numpy.mean` divides by: without
    its `out`, all that follows would be computed in float64.
    """
    own = [a.dtype for a in inputs if isinstance(a, kind) and a.dtype.kind == "f"]
    if not own or options.get("dtype") is not None or getattr(result, "dtype", None) != np.float64:
        return result
    return result.astype(max(own, key=lambda d: d.itemsize), copy=False)


class StochasticallyRounded(Inherited):
    """
    An array whose operations return the rounded result or one of its neighbors, at random.

    The rounding error of 1 + x is the same wherever a tiny x moves by a part of itself, and may be
    nearly 0 by accident. Here each evaluation has another one.
    """

    rng: np.random.Generator

    def __array_finalize__(self, other: Any) -> None:
        """Share the generator of the array that this one is made from."""
        self.rng = getattr(other, "rng", None) or np.random.default_rng(0)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with plain arrays, and move each element up, down, or not at all."""
        plain = [a.view(np.ndarray) if isinstance(a, StochasticallyRounded) else a for a in inputs]
        options.pop("out", None)  # callers use the returned array instead
        out = getattr(ufunc, method)(*plain, **options)
        out = as_narrow_as(out, inputs, StochasticallyRounded, options)
        if out is None or out.dtype.name not in EPS:  # None: written in place
            return out
        if ufunc in EXACT:
            return stochastically_rounded(out, self.rng)
        size = out
        if method != "__call__":  # where terms cancel, the errors of their sums do not
            size = getattr(ufunc, method)(abs(plain[0]), *plain[1:], **options)
        ways = self.rng.integers(-1, 2, out.shape, np.int8).astype(out.dtype)
        if ufunc is np.matmul and out.dtype.name in ("float32", "float64"):
            size = _size_of_sums(plain[0], plain[1], out)
        half = out.dtype.type(EPS[out.dtype.name] / 2)
        return stochastically_rounded(out + ways * (half * size), self.rng)


def _size_of_sums(a: Any, b: Any, out: Any) -> Any:
    """
    Return the size of the numbers whose roundings are the error of a product of matrices.

    If n terms are added one after the other, each of n sums is rounded. By the order of the library
    that multiplies here, the errors would depend on the processor.
    """
    squares = np.asarray(np.square(a, dtype=np.float64) @ np.square(b, dtype=np.float64))
    squares += np.square(out, dtype=np.float64)
    squares *= a.shape[-1]  # in place: gradients of a vocabulary's weights fill the memory
    return np.sqrt(squares, out=squares).astype(out.dtype)


def stochastically_rounded(array: Any, rng: np.random.Generator) -> Any:
    """Return an array of floats as one whose operations are rounded at random."""
    out = np.asarray(array).view(StochasticallyRounded)
    out.rng = rng
    return out

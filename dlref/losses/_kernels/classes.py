r"""Cross-entropy of logits, fused with its gradient; the negative log-likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core.arguments import (
    FloatArray,
    FloatDType,
    as_floats,
    as_integer,
    as_integers,
    check_constant,
    check_ndim,
    check_range,
    check_shape,
    entries,
)

IntArray = npt.NDArray[np.int64]


def check_scores(name: str, scores: FloatArray) -> None:
    """Raise ValueError unless there is at least one class."""
    check_ndim(name, scores, 1)
    if scores.shape[-1] == 0:
        msg = f"Argument {name!r} must have a non-empty last axis, not shape {scores.shape}."
        raise ValueError(msg)


def as_classes(
    name: str, target: npt.ArrayLike, scores: FloatArray, ignore_index: int
) -> tuple[IntArray, npt.NDArray[np.bool_] | None]:
    """Return the class of each row of scores, and which of them count; None is all."""
    y = as_integers(name, target)
    check_shape(name, y, scores.shape[:-1])
    ignore = as_integer("ignore_index", ignore_index, least=-(2**63))
    outside = y.view(np.uint64) >= scores.shape[-1]  # a negative class is a large number
    all_inside = np.count_nonzero(outside) == 0
    if all_inside and not 0 <= ignore < scores.shape[-1]:  # most calls, and quick
        return y.reshape(-1), None
    valid = y != ignore
    wrong = valid & outside
    if wrong.any():
        first = tuple(int(i) for i in np.unravel_index(np.argmax(wrong), y.shape))
        msg = (
            f"Argument {name!r} must hold classes from 0 to {scores.shape[-1] - 1} or "
            f"ignore_index, not {y[first]} at index {first}."
        )
        raise ValueError(msg)
    return y.reshape(-1), valid.reshape(-1)


def class_of_each_row(
    names: tuple[str, str], scores: FloatArray, target: npt.ArrayLike
) -> IntArray:
    """Return the class of each row of scores, where none is ignored."""
    check_scores(names[0], scores)
    y = as_integers(names[1], target)
    check_shape(names[1], y, scores.shape[:-1])
    check_range(names[1], y, scores.shape[-1])
    return y


def moving_scores(
    primals: Any, tangents: Any
) -> tuple[FloatDType, FloatArray, Any, FloatArray | None]:
    """Return the dtype, the scores, the classes and the scores' tangent; classes have none."""
    points, directions = entries("primals", primals, 2), entries("tangents", tangents, 2)
    target = points.pop("primals[1]")
    check_constant("tangents[1]", directions.pop("tangents[1]"))
    moving = {name: tangent for name, tangent in directions.items() if tangent is not None}
    dtype, (scores, *rest) = as_floats({**points, **moving})
    return dtype, scores, target, rest[0] if rest else None


def class_weights(weight: npt.ArrayLike | None, classes: int) -> FloatArray:
    """Return the weight of each class, 1 if none are given."""
    if weight is None:
        return np.ones(classes)
    _, (w,) = as_floats({"weight": weight})
    check_shape("weight", w, (classes,))
    return np.ascontiguousarray(w)

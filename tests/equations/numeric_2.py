"""Derivatives of transcribed formulas, by the complex step."""

import numpy as np

STEP = 1e-30


def rate(function, primals, tangents):
    """Return the derivative of a function of several arrays in a direction."""
    moved = [p + 1j * STEP * t for p, t in zip(primals, tangents, strict=True)]
    return np.imag(function(*moved)) / STEP


def gradients(loss, *primals):
    """Return the gradients of a scalar function of several arrays, element by element."""
    result = []
    for number, primal in enumerate(primals):
        gradient = np.empty(np.shape(primal))
        for place in np.ndindex(gradient.shape):
            moved = [np.array(p, complex) for p in primals]
            moved[number][place] += 1j * STEP
            gradient[place] = np.imag(loss(*moved)) / STEP
        result.append(gradient)
    return result


def jacobian(function, primal):
    """Return the derivatives of each element of a value with respect to each of an array."""
    columns = np.eye(primal.size).reshape(primal.size, *primal.shape)
    parts = [rate(function, [primal], [column]) for column in columns]
    return np.stack(parts, axis=-1).reshape(*np.shape(parts[0]), *primal.shape)

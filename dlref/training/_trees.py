r"""Parameters in nested tuples, array by array or as one vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_floats,
    check_callable,
    check_shape,
    float_dtype,
    result,
)
from .._core.pytree import check_tree, named_leaves, rebuilt, tree_unflatten


def tree_map(f: Callable[..., Any], tree: Any, *others: Any) -> Any:
    r"""
    Apply a function to every array of nested tuples.

    Parameters
    ----------
    f : callable
        Called as ``f(array, *arrays)`` with the arrays at the same place of `tree` and of each of
        `others`.
    tree : array_like, or tuple
        Parameters: an array, or tuples and named tuples of arrays, nested. None, where there
        is not a parameter, stays None.
    *others : array_like, or tuple
        More trees of the same structure and shapes.

    Returns
    -------
    array, or tuple
        The results of `f`, in the structure of `tree`. Arrays are copied, so that they share no
        memory with `tree`, nor with each other.

    Raises
    ------
    TypeError
        If `f` cannot be called, or an array is not real.
    ValueError
        If a tree has another structure, or arrays of other shapes.

    See Also
    --------
    tree_ravel : All arrays as one vector.

    Notes
    -----
    The parameters of a network are a tree: a tuple of layers, each a named tuple of arrays. An
    optimizer treats them array by array. Gradient descent, for example, is
    ``tree_map(lambda p, g: p - 0.1 * g, params, grads)``. It is ``jax.tree.map`` for tuples.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> from dlref.training import tree_map
    >>> params = LinearParams(np.array([[1.0, 2.0]]), np.array([3.0]))
    >>> tree_map(np.shape, params)
    LinearParams(weight=(1, 2), bias=(1,))
    >>> grads = LinearParams(np.array([[10.0, 0.0]]), np.array([-10.0]))
    >>> tree_map(lambda p, g: p - 0.1 * g, params, grads)
    LinearParams(weight=array([[0., 2.]]), bias=array([4.]))
    """
    check_callable("f", f)
    columns = [_arrays(dict(named_leaves("tree", tree)))]
    for i, other in enumerate(others):
        check_tree(f"others[{i}]", other, tree)
        named = dict(named_leaves(f"others[{i}]", other))
        for path, _ in named_leaves(f"others[{i}]", tree):
            if path not in named:
                msg = f"Argument {path!r} must be an array, as in 'tree', not None."
                raise ValueError(msg)
        columns.append(_arrays(named))
    return tree_unflatten(
        tree, iter([_copied(f(*entries)) for entries in zip(*columns, strict=True)])
    )


def tree_ravel(tree: Any) -> FloatArray:
    r"""
    Write all arrays of nested tuples into one vector.

    Parameters
    ----------
    tree : array_like, or tuple
        As in :func:`tree_map`, of real numbers.

    Returns
    -------
    ndarray, shape (n,)
        All numbers in order, row by row, in the dtype that the arrays promote to; a copy.

    Raises
    ------
    TypeError
        If an array is not real.

    See Also
    --------
    tree_unravel : The inverse.

    Notes
    -----
    Many tools work on vectors only: the optimizers of SciPy, a Hessian, a norm, a check against
    finite differences. The order follows the fields, and within an array it is row by row.
    :func:`tree_unravel` reads the vector in the same order, so that
    ``tree_unravel(tree_ravel(tree), tree)`` is a copy of the tree.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> from dlref.training import tree_ravel
    >>> tree_ravel(LinearParams(np.array([[1.0, 2.0]]), np.array([3.0])))
    array([1., 2., 3.])

    A whole network, fitted by L-BFGS. The loss and its gradient are functions of the vector:

    >>> from scipy.optimize import minimize
    >>> from dlref.training import mlp_loss_value_and_grad, tree_unravel
    >>> rng = np.random.default_rng(0)
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> xor = np.array([0, 1, 1, 0])
    >>> start = (
    ...     LinearParams(rng.normal(size=(8, 2)), np.zeros(8)),
    ...     LinearParams(rng.normal(size=(2, 8)), np.zeros(2)),
    ... )
    >>> def f(vector):
    ...     params = tree_unravel(vector, start)
    ...     loss, grads = mlp_loss_value_and_grad(x, xor, params, loss="cross_entropy")
    ...     return loss, tree_ravel(grads)
    >>> found = minimize(f, tree_ravel(start), jac=True, method="L-BFGS-B")
    >>> bool(found.fun < 1e-3)
    True
    """
    named = dict(named_leaves("tree", tree))
    if not named:
        return np.zeros(0)
    dtype, arrays = as_floats(named)
    return result(np.concatenate([np.ravel(array) for array in arrays]), dtype)


def tree_unravel(vector: npt.ArrayLike, like: Any) -> Any:
    r"""
    Split a vector into the arrays of nested tuples.

    Parameters
    ----------
    vector : array_like, shape (n,)
        Result of :func:`tree_ravel`, or numbers in that order.
    like : array_like, or tuple
        Tree with the structure, shapes and dtypes; its values do not matter.

    Returns
    -------
    array, or tuple
        Tree with the numbers of `vector`; copies.

    Raises
    ------
    TypeError
        If an array is not real.
    ValueError
        If the vector has another length than `like` has numbers.

    See Also
    --------
    tree_ravel : The inverse.

    Notes
    -----
    Both maps only rearrange numbers, so a gradient with respect to the vector is the vector of the
    gradients: :func:`tree_unravel` is the vjp of :func:`tree_ravel`, and the other way round.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> from dlref.training import tree_unravel
    >>> like = LinearParams(np.zeros((1, 2)), np.zeros(1))
    >>> tree_unravel([1.0, 2.0, 3.0], like)
    LinearParams(weight=array([[1., 2.]]), bias=array([3.]))
    """
    numbers = as_floats({"vector": vector})[1][0]
    leaves = [(name, as_array(name, a)) for name, a in named_leaves("like", like)]
    arrays = [(as_floats({name: a})[0], a.shape) for name, a in leaves]
    sizes = [math.prod(shape) for _, shape in arrays]
    check_shape("vector", numbers, (sum(sizes),))
    parts = np.split(numbers, np.cumsum(sizes)[:-1]) if sizes else []
    cut = zip(parts, arrays, strict=True)
    return tree_unflatten(
        like, iter([result(a.reshape(shape).copy(), dtype) for a, (dtype, shape) in cut])
    )


def _copied(value: Any) -> Any:
    """Return a value whose arrays are its own."""
    if isinstance(value, tuple):
        return rebuilt(value, [_copied(entry) for entry in value])
    return value.copy() if isinstance(value, np.ndarray) else value


def _arrays(named: dict[str, Any]) -> list[Any]:
    arrays = {name: as_array(name, entry) for name, entry in named.items()}
    for name, array in arrays.items():
        float_dtype(name, array.dtype)  # raises unless it is real
    return list(arrays.values())

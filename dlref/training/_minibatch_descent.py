r"""Training on minibatches: shuffled batches, epochs, a validation set and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_generator,
    as_integer,
    check_callable,
    check_shape,
)
from .._core.pytree import displayed, tree_map


@displayed
class MinibatchResult(NamedTuple):
    r"""
    Result of :func:`minibatch_descent`.

    Parameters
    ----------
    params : tuple
        Parameters after the best epoch, or after the last without validation.
    loss : ndarray, shape (epochs run,)
        Mean loss of each epoch's batches, each before its step; 0 without examples.
    validation : ndarray, shape (epochs run,)
        Validation loss after each epoch; NaN without validation.
    best_epoch : int
        Number of the epoch that ``params`` belong to, from 1; 0 is the start.

    See Also
    --------
    minibatch_descent : Returns it.

    Notes
    -----
    The loss of an epoch is a mean over parameters that change meanwhile. While it falls, it is
    usually larger than the loss at the end of the epoch.

    Examples
    --------
    >>> from dlref.training import MinibatchResult
    >>> MinibatchResult._fields
    ('params', 'loss', 'validation', 'best_epoch')
    """

    params: Any
    loss: FloatArray
    validation: FloatArray
    best_epoch: int


def minibatches(
    rng: np.random.Generator, *arrays: npt.ArrayLike, batch_size: int
) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    r"""
    Shuffle examples and split them into batches: one epoch.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the order.
    *arrays : array_like, shape (N, ...)
        Inputs, targets and the like; row n of each belongs to example n.
    batch_size : int
        Number of examples of a batch; the last batch may have fewer.

    Returns
    -------
    iterator of tuple of ndarray
        The same rows of each array, every example once.

    Raises
    ------
    TypeError
        If `rng` is not a generator, or `batch_size` is not an integer.
    ValueError
        If there is no array, their lengths differ, or `batch_size` is less than 1.

    See Also
    --------
    minibatch_descent : Trains on them.

    Notes
    -----
    A batch :math:`B` of m of the N examples, drawn uniformly at random, has the gradient

    .. math:: \vec g_B = \frac1m \sum_{n \in B} \nabla \ell_n , \qquad
        \E \vec g_B = \frac1N \sum_{n=1}^{N} \nabla \ell_n ,

    so a step on a batch is a step against the full gradient in expectation. Drawn without
    replacement, with the variance :math:`S^2 = \frac{1}{N-1} \sum_n (g_n - \bar g)^2` of one entry
    over the examples,

    .. math:: \operatorname{Var} g_B = \frac{S^2}{m} \Bigl( 1 - \frac mN \Bigr) .

    As long as a batch is small compared with N, four times the batch halves the noise at four times
    the cost; a whole epoch in one batch has no noise.

    Examples
    --------
    >>> import numpy as np
    >>> from dlref.training import minibatches
    >>> rng = np.random.default_rng(0)
    >>> for x, y in minibatches(rng, [0, 1, 2, 3, 4], [0, 10, 20, 30, 40], batch_size=2):
    ...     print(x, y)
    [2 4] [20 40]
    [3 0] [30 0]
    [1] [10]
    """
    as_generator("rng", rng)
    size = as_integer("batch_size", batch_size, least=1)
    checked = [as_array(f"arrays[{i}]", a) for i, a in enumerate(arrays)]
    if not checked or not all(a.ndim for a in checked):
        msg = "Argument 'arrays' must be at least one array with a row for each example."
        raise ValueError(msg)
    for i, a in enumerate(checked):
        check_shape(f"arrays[{i}]", a, (len(checked[0]), *a.shape[1:]))

    def batches() -> Iterator[tuple[npt.NDArray[Any], ...]]:
        order = rng.permutation(len(checked[0]))
        for start in range(0, len(order), size):
            yield tuple(a[order[start : start + size]] for a in checked)

    return batches()


def minibatch_descent(
    value_and_grad: Callable[..., tuple[Any, Any]],
    params: Any,
    *arrays: npt.ArrayLike,
    step: Callable[[Any, Any, Any], tuple[Any, Any]],
    epochs: int,
    batch_size: int,
    rng: np.random.Generator,
    validation: Callable[[Any], Any] | None = None,
    patience: int | None = None,
    progress: Callable[[Iterable[int]], Iterable[int]] | None = None,
) -> MinibatchResult:
    r"""
    Train on shuffled minibatches, epoch by epoch, and keep the best parameters.

    Parameters
    ----------
    value_and_grad : callable
        ``value_and_grad(params, *batch)`` returns the loss of a batch and its gradient, in the
        structure of `params`.
    params : array_like, or tuple
        Starting point, in any nesting of tuples. The arrays are not modified.
    *arrays : array_like, shape (N, ...)
        The examples, as for :func:`minibatches`.
    step : callable
        ``step(params, grads, state)`` returns new parameters and a new state, which is None at
        first: an optimizer of this chapter with its options filled in by ``functools.partial``.
    epochs : int
        Number of passes over the examples, at least 0.
    batch_size : int
        Number of examples of a batch.
    rng : numpy.random.Generator
        Source of the order of the examples.
    validation : callable or None
        ``validation(params)`` returns the loss on examples that are not trained on. With it, the
        parameters after the epoch where it was least are returned.
    patience : int or None
        Stop when the validation loss has had no new minimum for this many epochs; None never stops.
    progress : callable or None
        Wraps the iterable of epochs, as ``tqdm.tqdm`` does to show a progress bar.

    Returns
    -------
    MinibatchResult
        Parameters, losses and the best epoch.

    Raises
    ------
    TypeError
        If an argument has the wrong type, or `patience` is given without `validation`.
    ValueError
        If a number is out of range, or the lengths of the arrays differ.

    See Also
    --------
    gradient_descent : All examples in every step.
    mlp_loss_value_and_grad : A loss to train a multilayer perceptron by.
    adam_step, sgd_step : Optimizers.

    Notes
    -----
    For each batch B of examples:

    .. math::

        \theta \leftarrow \operatorname{step} \Bigl( \theta,\;
          \nabla \frac{1}{\abs{B}} \sum_{n \in B} \ell_n(\theta) \Bigr)

    The algorithm:

    1. Shuffle the examples and split them into batches B.
    2. Take the step above for each batch.
    3. Compute the validation loss. If it is the least so far, remember :math:`\theta`.
    4. Go on with the next epoch, unless it has had no new minimum for `patience` epochs.

    **Early stopping.** The training loss keeps falling while the network learns the peculiarities
    of its examples. The validation loss is an estimate for other examples; once it starts to rise,
    further training no longer helps with those.

    References
    ----------
    - :cite:t:`Prechelt1998` on early stopping

    Examples
    --------
    A line through noisy points, by Adam on batches of 8:

    >>> from functools import partial
    >>> import numpy as np
    >>> from dlref.neurons import LinearParams
    >>> from dlref.training import adam_step, minibatch_descent, mlp_loss_value_and_grad
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, (64, 1))
    >>> y = 3 * x + 1 + 0.01 * rng.normal(size=x.shape)
    >>> def value_and_grad(params, x, y):
    ...     return mlp_loss_value_and_grad(x, y, params, loss="squared_error")
    >>> start = (LinearParams(np.zeros((1, 1)), np.zeros(1)),)
    >>> fit = minibatch_descent(
    ...     value_and_grad,
    ...     start,
    ...     x,
    ...     y,
    ...     rng=rng,
    ...     step=partial(adam_step, learning_rate=0.05),
    ...     epochs=40,
    ...     batch_size=8,
    ... )
    >>> [layer] = fit.params
    >>> layer.weight.round(1), layer.bias.round(1)
    (array([[3.]]), array([1.]))
    """
    epochs = as_integer("epochs", epochs, least=0)
    check_callable("value_and_grad", value_and_grad)
    check_callable("step", step)
    minibatches(rng, *arrays, batch_size=batch_size)  # raises before the first epoch
    if patience is not None:
        patience = as_integer("patience", patience, least=1)
    for name, function in (("validation", validation), ("progress", progress)):
        if function is not None or (name == "validation" and patience is not None):
            check_callable(name, function)
    params = tree_map("params", np.copy, params)
    best, best_epoch, least, state = params, 0, np.inf, None
    losses, checks = [], []
    for epoch in range(1, epochs + 1) if progress is None else progress(range(1, epochs + 1)):
        total, count = 0.0, 0
        for batch in minibatches(rng, *arrays, batch_size=batch_size):
            value, grads = value_and_grad(params, *batch)
            params, state = step(params, grads, state)
            total, count = total + float(value) * len(batch[0]), count + len(batch[0])
        losses.append(total / count if count else 0.0)
        checks.append(np.nan if validation is None else float(validation(params)))
        if validation is None or checks[-1] < least:
            best, best_epoch, least = params, epoch, checks[-1]
        elif patience is not None and epoch - best_epoch >= patience:
            break
    return MinibatchResult(best, np.array(losses), np.array(checks), best_epoch)

r"""Networks of recurrent cells: both directions, and their outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.arguments import (
    FloatArray,
    as_array,
    as_integer,
    check_ndim,
    check_shape,
    check_symbols,
    choice,
    entries,
    wrong_shape,
)
from ..neurons import linear, linear_jvp, linear_vjp
from ._gru import gru, gru_jvp, gru_vjp
from ._lstm import lstm, lstm_jvp, lstm_vjp
from ._rnn import rnn, rnn_jvp, rnn_vjp

#: Values of f: its name, its vjp, its jvp, and the number of its states.
CELLS: dict[str, tuple[Any, Any, Any, int]] = {
    "rnn": (rnn, rnn_vjp, rnn_jvp, 1),
    "lstm": (lstm, lstm_vjp, lstm_jvp, 2),
    "gru": (gru, gru_vjp, gru_jvp, 1),
}
Sequence = Callable[..., Any]


class _Cell:
    """A sequence function and its derivatives, with outputs that are always a tuple."""

    def __init__(self, f: Sequence, options: Any, *, moves: bool = False) -> None:
        """Check f and its options, with the tangents of these if something `moves`."""
        name: Any = getattr(f, "__name__", f)
        choice("f", name, CELLS)
        self.f, self.f_vjp, self.f_jvp, self.states = CELLS[name]
        known = (self.f_jvp if moves else self.f).__kwdefaults__
        for key in options:
            if key not in known:
                msg = f"{name}() got an unexpected keyword argument {key!r}"
                raise TypeError(msg)

    def run(self, x: Any, arguments: Any, options: Any) -> tuple[FloatArray, ...]:
        own = {key: value for key, value in options.items() if not key.endswith("_tangent")}
        out = self.f(x, *arguments, **own)
        return out if self.states > 1 else (out,)

    def vjp(self, dout: Any, x: Any, arguments: Any, options: Any) -> tuple[FloatArray, ...]:
        """Return (dx, gradients of the arguments); `dout` has a cotangent, or None, per state."""
        u = (*dout, *(None for _ in range(self.states - len(dout))))
        grads = self.f_vjp(u if self.states > 1 else u[0], x, *arguments, **options)
        return tuple(grads)

    def jvp(self, primals: Any, tangents: Any, options: Any) -> tuple[FloatArray, ...]:
        """Return the tangents of the outputs; biases that were left out are None."""
        rest = (None,) * (5 + self.states - len(primals))
        out = self.f_jvp((*primals, *rest), (*tangents, *rest), **options)
        return out if self.states > 1 else (out,)

    def final(self, x: Any, arguments: Any, outs: Any, options: Any) -> list[FloatArray]:
        """Return the last state, or states, of each entry; the initial one where no step was."""
        states = []
        for state, out in zip(arguments[: self.states], outs, strict=True):
            first = np.zeros_like(out, shape=(*out.shape[:-2], 1, out.shape[-1]))
            if state is not None:
                first[..., 0, :] = state
            every = np.concatenate([first, out], axis=-2)
            states.append(np.take_along_axis(every, _last(x, options), axis=-2)[..., 0, :])
        return states

    def final_vjp(
        self, finals: Any, x: Any, arguments: Any, options: Any
    ) -> tuple[FloatArray, ...]:
        """Return the same as `vjp`, for cotangents of the last states."""
        after, before = [], []
        for u in finals:
            shape = (*u.shape[:-1], as_array("x", x).shape[-2] + 1, u.shape[-1])
            every = np.zeros(shape, u.dtype)
            np.put_along_axis(every, _last(x, options), u[..., None, :], axis=-2)
            before.append(every[..., 0, :])
            after.append(every[..., 1:, :])
        dx, *grads = self.vjp(after, x, arguments, options)
        given = [k for k in range(self.states) if arguments[k] is not None]
        for place, k in enumerate(given):
            if k < len(before):
                grads[place] = grads[place] + before[k]
        return dx, *grads


def _last(x: Any, options: Any) -> npt.NDArray[np.int64]:
    """Return where the last state of each entry stands, if the initial one is at 0."""
    *batch, count, _ = as_array("x", x).shape
    lengths = options.get("lengths")
    ends = np.full(batch, count) if lengths is None else np.asarray(lengths)
    return (np.minimum(ends, 1) if options.get("reverse") else ends)[..., None, None]


def _masked(y: FloatArray, x: Any, options: Any) -> FloatArray:
    """Set the steps beyond the end of an entry to 0."""
    if options.get("lengths") is None:
        return y
    inside = np.arange(as_array("x", x).shape[-2]) < np.asarray(options["lengths"])[..., None]
    return np.where(inside[..., None], y, np.zeros((), y.dtype))


def _arguments(name: str, value: Any, least: int) -> tuple[Any, ...]:
    """Check a tuple of arguments; the last two, biases, may be left out."""
    most = least + 2
    if not isinstance(value, tuple | list) or not least <= len(value) <= most:
        entries(name, value, most)
    return tuple(value)


def _tangents(name: str, value: Any, like: tuple[Any, ...]) -> tuple[Any, ...]:
    """Check a tuple of tangents, None for zeros."""
    if value is None:
        return (None,) * len(like)
    return tuple(entries(name, value, len(like)).values())


def _output_layer(h: FloatArray, w_out: Any, b_out: Any) -> FloatArray:
    """Apply the output layer, if there is one."""
    if w_out is None:
        return h
    w = as_array("w_out", w_out)
    if w.ndim != 2 or w.shape[1] != h.shape[-1]:
        wrong_shape("w_out", w, f"(K, H) with H = {h.shape[-1]}")
    if b_out is not None:
        check_symbols("b_out", as_array("b_out", b_out), "(K,)", w.shape[:1])
    return linear(h, w_out, b_out)


def _cotangent(dout: Any, out: FloatArray, symbols: str) -> FloatArray:
    u = as_array("dout", dout)
    check_symbols("dout", u, symbols, out.shape)
    return u


def _read_vjp(
    u: FloatArray, h: FloatArray, w_out: Any, b_out: Any
) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Return the cotangent of h, and the gradients of the output layer."""
    if w_out is None:
        return u, ()
    du, *rest = linear_vjp(u, h, w_out, b_out)
    return du, tuple(rest)


def _read_jvp(h: FloatArray, v: FloatArray, primals: Any, tangents: Any) -> FloatArray:
    if primals[0] is None:
        return v
    return linear_jvp((h, *primals), (v, *tangents))


def _repeated_input(x: FloatArray, steps: int, feed: str) -> FloatArray:
    """Make a sequence of one input."""
    wide = np.repeat(x[..., None, :], steps, axis=-2)
    if feed == "first":
        wide[..., 1:, :] = 0
    return wide


def _check_vector(x: npt.ArrayLike, steps: int, feed: str) -> FloatArray:
    choice("feed", feed, ("repeat", "first"))
    as_integer("steps", steps, least=1)
    vector = as_array("x", x)
    if vector.ndim < 1:
        wrong_shape("x", vector, "(..., D)")
    return vector


def _check_encoder_decoder(
    cell: _Cell, encoder: Any, decoder: Any, first: str, second: str, x: Any, y: Any
) -> tuple[Any, ...]:
    """Check the arguments of an encoder and a decoder; return the encoder's."""
    arguments = _arguments(first, encoder, cell.states + 2)
    _arguments(second, decoder, 2)
    batch = as_array("x", x).shape[:-2]
    after = as_array("y", y)
    if after.ndim < 2 or after.shape[:-2] != batch:
        wrong_shape("y", after, f"(..., U, D) with batch axes {batch}")
    return arguments


def _check_directions(options: dict[str, Any]) -> None:
    """Refuse the direction where both are run."""
    if "reverse" in options:
        msg = "Argument 'reverse' must be left out: there is a network for each direction."
        raise TypeError(msg)


#: Options of an encoder alone, whose sequence is not the decoder's.
OF_ENCODER = {"lengths", "reverse", "segment_ids"}


def _of_decoder(options: dict[str, Any]) -> dict[str, Any]:
    return {name: v for name, v in options.items() if name not in OF_ENCODER}


def bidirectional(
    f: Sequence,
    x: npt.ArrayLike,
    forward: tuple[Any, ...],
    backward: tuple[Any, ...],
    **options: Any,
) -> Any:
    r"""
    Run two networks over a sequence, one in each direction of time, side by side.

    Parameters
    ----------
    f : function
        :func:`rnn`, :func:`lstm` or :func:`gru`.
    x : array_like, shape (..., T, D)
        Inputs.
    forward, backward : tuple
        Arguments of `f` after x, for each direction: the initial state or states (any may be None),
        w_ih, w_hh and, if there are any, b_ih and b_hh.
    **options
        Keyword arguments of `f` for both: activation, reset_after, lengths, segment_ids, w_p.

    Returns
    -------
    ndarray, shape (..., T, 2 H), or tuple of two
        At each time the state of the forward and of the backward network; for :func:`lstm` h and c.

    Raises
    ------
    TypeError
        If an array is not real, the arguments of a network are not a tuple, `f` does not take an
        option, or ``reverse`` is given.
    ValueError
        If `f` is none of the three, or a shape does not fit; messages use the argument names of
        `f`.

    See Also
    --------
    rnn, lstm, gru : One direction, also the other one, with ``reverse=True``.
    bidirectional_vjp : Its gradients.

    Notes
    -----
    With one step f of the forward network and g of the backward one,

    .. math::

        \vec h^\to_t = f(\vec x_t, \vec h^\to_{t-1}), \qquad
        \vec h^\gets_t = g(\vec x_t, \vec h^\gets_{t+1}), \qquad
        \vec y_t = \begin{pmatrix} \vec h^\to_t \\ \vec h^\gets_t \end{pmatrix},

    for t from 1 to T and from T to 1. At time t the forward network has read
    :math:`\vec x_1 \dots \vec x_t`, the backward one :math:`\vec x_T \dots \vec x_t`; together they
    have read the whole sequence, and the nearest inputs last. The output at t depends on later
    inputs: this is for tagging and encoding, not for prediction.

    With `lengths`, the backward network begins at the last step of each entry.

    References
    ----------
    - :cite:t:`Schuster1997`

    Examples
    --------
    Sums from both ends:

    >>> from dlref.recurrent import bidirectional, rnn
    >>> x, one = [[1.0], [2.0], [3.0]], (None, [[1]], [[1]])
    >>> bidirectional(rnn, x, one, one, activation="identity").T
    array([[1., 3., 6.],
           [6., 5., 3.]])
    """
    cell = _Cell(f, options)
    _check_directions(options)
    outs = [
        cell.run(x, _arguments(name, arguments, cell.states + 2), {**options, "reverse": reverse})
        for name, arguments, reverse in (("forward", forward, False), ("backward", backward, True))
    ]
    joint = tuple(np.concatenate(pair, axis=-1) for pair in zip(*outs, strict=True))
    return joint if cell.states > 1 else joint[0]


@np.errstate(all="ignore")
def bidirectional_vjp(
    dout: Any,
    f: Sequence,
    x: npt.ArrayLike,
    forward: tuple[Any, ...],
    backward: tuple[Any, ...],
    **options: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of two networks in both directions.

    Parameters
    ----------
    dout : array_like, shape (..., T, 2 H), or tuple of two
        Cotangent of the output; for :func:`lstm` a tuple for h and c, where None is zero.
    f, x, forward, backward, **options : as in `bidirectional`
        Raises the same errors.

    Returns
    -------
    tuple
        (dx, dforward, dbackward): the last two are tuples of gradients, without the arguments that
        are None. The gradient of ``w_p`` is the sum of the last ones of both.

    See Also
    --------
    rnn_vjp, lstm_vjp, gru_vjp : One direction.

    Notes
    -----
    The cotangent is split in two. Each half is propagated through its own network, from the last
    step to the first and, for the backward network, from the first to the last; the gradients of x
    add up:

    .. math::

        \pdv{L}{\vec x_t} = \sum_{s \ge t} \Bigl( \pdv{\vec h^\to_s}{\vec x_t} \Bigr)^\top
            \vec u^\to_s + \sum_{s \le t} \Bigl( \pdv{\vec h^\gets_s}{\vec x_t} \Bigr)^\top
            \vec u^\gets_s, \qquad
        \vec u_s = \begin{pmatrix} \vec u^\to_s \\ \vec u^\gets_s \end{pmatrix} .

    Examples
    --------
    Each input enters the sum of all outputs once per step from it on, in both directions: 4 times.

    >>> import numpy as np
    >>> from dlref.recurrent import bidirectional_vjp, rnn
    >>> x, one = [[1.0], [2.0], [3.0]], (None, [[1]], [[1]])
    >>> u = np.ones((3, 2))
    >>> dx, forward, backward = bidirectional_vjp(u, rnn, x, one, one, activation="identity")
    >>> dx.T
    array([[4., 4., 4.]])
    """
    cell = _Cell(f, options)
    _check_directions(options)
    at, sizes = cell.states + 1, []
    for name, arguments in (("forward", forward), ("backward", backward)):
        weight = as_array(f"{name}[{at}]", _arguments(name, arguments, at + 1)[at])
        check_ndim(f"{name}[{at}]", weight, 2)
        sizes.append(weight.shape[-1])
    shape = as_array("x", x).shape[:-1]
    parts = entries("dout", dout, cell.states)
    halves: list[list[Any]] = [[], []]
    for name, part in parts.items():
        if part is None and cell.states > 1:
            cut: list[Any] = [None, None]
        else:
            u = as_array(name, part)
            check_symbols(name, u, "(..., T, 2 H)", (*shape, sum(sizes)))
            cut = [u[..., : sizes[0]], u[..., sizes[0] :]]
        for half, piece in zip(halves, cut, strict=True):
            half.append(piece)
    dx, *first = cell.vjp(halves[0], x, forward, options)
    other, *second = cell.vjp(halves[1], x, backward, {**options, "reverse": True})
    return dx + other, tuple(first), tuple(second)


def bidirectional_jvp(
    f: Sequence,
    primals: Any,
    tangents: Any,
    **options: Any,
) -> Any:
    r"""
    Jacobian-vector product (forward mode) of two networks in both directions.

    Parameters
    ----------
    f : as in `bidirectional`
        The same.
    primals : tuple (x, forward, backward)
        The arguments of :func:`bidirectional`.
    tangents : tuple
        Their directions, in the same structure; None is zero.
    **options : as in `bidirectional`
        And ``w_p_tangent``, the direction of ``w_p``. Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, 2 H), or tuple of two
        Tangent of the output.

    See Also
    --------
    rnn_jvp, lstm_jvp, gru_jvp : One direction.

    Notes
    -----
    The tangents of the two networks side by side, both for the same tangent of x:

    .. math::

        \dot{\vec y}_t = \begin{pmatrix} \dot{\vec h}^\to_t \\ \dot{\vec h}^\gets_t \end{pmatrix},
        \qquad \dot{\vec h}^\to_t = \pdv{f}{\vec x} \dot{\vec x}_t
            + \pdv{f}{\vec h} \dot{\vec h}^\to_{t-1} + \pdv{f}{\theta} \dot\theta ,

    where :math:`\theta` are the weights and biases; likewise :math:`\dot{\vec h}^\gets_t` from
    :math:`\dot{\vec h}^\gets_{t+1}`.

    Examples
    --------
    >>> from dlref.recurrent import bidirectional_jvp, rnn
    >>> x, one = [[1.0], [2.0], [3.0]], (None, [[1]], [[1]])
    >>> moved = bidirectional_jvp(
    ...     rnn, (x, one, one), ([[1], [0], [0]], None, None), activation="identity"
    ... )

    The first input counts in all sums of the forward network, and in the last one of the other:

    >>> moved.T
    array([[1., 1., 1.],
           [1., 0., 0.]])
    """
    cell = _Cell(f, options, moves=True)
    _check_directions(options)
    x, *point = entries("primals", primals, 3).values()
    dx, *direction = entries("tangents", tangents, 3).values()
    outs = []
    for k, (weights, moved) in enumerate(zip(point, direction, strict=True)):
        of = _arguments(f"primals[{k + 1}]", weights, cell.states + 2)
        along = _tangents(f"tangents[{k + 1}]", moved, of)
        outs.append(cell.jvp((x, *of), (dx, *along), {**options, "reverse": k == 1}))
    joint = tuple(np.concatenate(pair, axis=-1) for pair in zip(*outs, strict=True))
    return joint if cell.states > 1 else joint[0]


def sequence_to_sequence(
    f: Sequence,
    x: npt.ArrayLike,
    arguments: tuple[Any, ...],
    w_out: npt.ArrayLike | None = None,
    b_out: npt.ArrayLike | None = None,
    **options: Any,
) -> FloatArray:
    r"""
    Read an output from the state at every step.

    Parameters
    ----------
    f : function
        :func:`rnn`, :func:`lstm` or :func:`gru`.
    x : array_like, shape (..., T, D)
        Inputs.
    arguments : tuple
        Arguments of `f` after x: the initial state or states (any may be None), w_ih, w_hh and, if
        there are any, b_ih and b_hh.
    w_out : array_like or None, shape (K, H)
        Weights of an output layer; None reads the state itself.
    b_out : array_like or None, shape (K,)
        Its bias; None is zero.
    **options
        Keyword arguments of `f`: activation, reset_after, lengths, reverse, segment_ids, w_p.

    Returns
    -------
    ndarray, shape (..., T, K)
        Output at each step, 0 beyond the end of an entry.

    Raises
    ------
    TypeError
        If an array is not real, the arguments of a network are not a tuple, or `f` does not take
        an option.
    ValueError
        If `f` is none of the three, or a shape does not fit; messages use the argument names of
        `f`.

    See Also
    --------
    sequence_to_vector : From the last state alone.
    sequence_to_sequence_vjp : Its gradients.

    Notes
    -----
    .. math:: \vec y_t = \mat W_{out}\, \vec h_t + \vec b_{out} .

    There are as many outputs as inputs: labels of words, the next value of a series.

    Examples
    --------
    Running means of -1 and 1 from a running sum:

    >>> from dlref.recurrent import rnn, sequence_to_sequence
    >>> x, adder = [[1.0], [-1.0], [1.0], [1.0]], (None, [[1]], [[1]])
    >>> sequence_to_sequence(rnn, x, adder, [[0.5]], activation="identity").T
    array([[0.5, 0. , 0.5, 1. ]])
    """
    cell = _Cell(f, options)
    h = cell.run(x, _arguments("arguments", arguments, cell.states + 2), options)[0]
    return _masked(_output_layer(h, w_out, b_out), x, options)


def sequence_to_sequence_vjp(
    dout: npt.ArrayLike,
    f: Sequence,
    x: npt.ArrayLike,
    arguments: tuple[Any, ...],
    w_out: npt.ArrayLike | None = None,
    b_out: npt.ArrayLike | None = None,
    **options: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of :func:`sequence_to_sequence`.

    Parameters
    ----------
    dout : array_like, shape (..., T, K)
        Cotangent of the output.
    f, x, arguments, w_out, b_out, **options : as in `sequence_to_sequence`
        Raises the same errors.

    Returns
    -------
    tuple
        (dx, darguments, dw_out, db_out), the second a tuple, without the arguments that are None.
        The gradient of ``w_p`` is the last one of darguments.

    Notes
    -----
    The output layer turns the cotangent of :math:`\vec y_t` into one of :math:`\vec h_t`:

    .. math::

        \pdv{L}{\vec h_t} = \mat W_{out}^\top \vec u_t, \qquad
        \pdv{L}{\mat W_{out}} = \sum_t \vec u_t\, \vec h_t^\top, \qquad
        \pdv{L}{\vec b_{out}} = \sum_t \vec u_t .

    The rest is backpropagation through time with a cotangent at every step.

    Examples
    --------
    >>> from dlref.recurrent import rnn, sequence_to_sequence_vjp
    >>> x, adder, u = [[1.0], [2.0]], (None, [[1.0]], [[1.0]]), [[1.0], [1.0]]
    >>> dx, grads, dw_out = sequence_to_sequence_vjp(
    ...     u, rnn, x, adder, [[2.0]], activation="identity"
    ... )

    The sums 1 and 3 are multiplied by the output weight; the first input is in both.

    >>> dw_out, dx.T
    (array([[4.]]), array([[4., 2.]]))
    """
    cell = _Cell(f, options)
    given = _arguments("arguments", arguments, cell.states + 2)
    h = cell.run(x, given, options)[0]
    u = _cotangent(dout, _output_layer(h, w_out, b_out), "(..., T, K)")
    u, read = _read_vjp(_masked(u, x, options), h, w_out, b_out)
    dx, *grads = cell.vjp((u,), x, given, options)
    return dx, tuple(grads), *read


def sequence_to_sequence_jvp(
    f: Sequence,
    primals: Any,
    tangents: Any,
    **options: Any,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of :func:`sequence_to_sequence`.

    Parameters
    ----------
    f : as in `sequence_to_sequence`
        The same.
    primals : tuple (x, arguments, w_out, b_out)
        The arguments of :func:`sequence_to_sequence`, the last two perhaps None.
    tangents : tuple
        Their directions, in the same structure; None is zero.
    **options : as in `sequence_to_sequence`
        And ``w_p_tangent``, the direction of ``w_p``. Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, K)
        Tangent of the output at each step.

    See Also
    --------
    rnn_jvp, lstm_jvp, gru_jvp : The states.

    Notes
    -----
    With the tangents of the states,

    .. math::

        \dot{\vec y}_t = \mat W_{out}\, \dot{\vec h}_t + \dot{\mat W}_{out}\, \vec h_t
            + \dot{\vec b}_{out} .

    Examples
    --------
    >>> from dlref.recurrent import rnn, sequence_to_sequence_jvp
    >>> primals = [[1.0], [2.0]], (None, [[1.0]], [[1.0]]), [[2.0]], None
    >>> direction = [[1.0], [0.0]], None, None, None
    >>> sequence_to_sequence_jvp(rnn, primals, direction, activation="identity").T
    array([[2., 2.]])
    """
    cell = _Cell(f, options, moves=True)
    x, weights, *layer = entries("primals", primals, 4).values()
    dx, moved, *along = entries("tangents", tangents, 4).values()
    given = _arguments("primals[1]", weights, cell.states + 2)
    h = cell.run(x, given, options)[0]
    v = cell.jvp((x, *given), (dx, *_tangents("tangents[1]", moved, given)), options)[0]
    return _masked(_read_jvp(h, v, layer, along), x, options)


def sequence_to_vector(
    f: Sequence,
    x: npt.ArrayLike,
    arguments: tuple[Any, ...],
    w_out: npt.ArrayLike | None = None,
    b_out: npt.ArrayLike | None = None,
    **options: Any,
) -> FloatArray:
    r"""
    Read an output from the state after the last step.

    Parameters
    ----------
    f : function
        :func:`rnn`, :func:`lstm` or :func:`gru`.
    x : array_like, shape (..., T, D)
        Inputs.
    arguments : tuple
        Arguments of `f` after x: the initial state or states (any may be None), w_ih, w_hh and, if
        there are any, b_ih and b_hh.
    w_out : array_like or None, shape (K, H)
        Weights of an output layer; None reads the state itself.
    b_out : array_like or None, shape (K,)
        Its bias; None is zero.
    **options
        Keyword arguments of `f`: activation, reset_after, lengths, reverse, segment_ids, w_p.

    Returns
    -------
    ndarray, shape (..., K)
        Output of each entry.

    Raises
    ------
    TypeError
        If an array is not real, the arguments of a network are not a tuple, or `f` does not take
        an option.
    ValueError
        If `f` is none of the three, or a shape does not fit; messages use the argument names of
        `f`.

    See Also
    --------
    sequence_to_sequence : From every state.
    sequence_to_vector_vjp : Its gradients.

    Notes
    -----
    .. math:: \vec y = \mat W_{out}\, \vec h_T + \vec b_{out} .

    A classifier of sequences. The last state of an entry is the state after its last step, which is
    at its length minus one in time, or at time 0 if reversed; an entry of length 0 has the initial
    state. In a plain network, all information about the first input has passed through T - 1
    products with the recurrent weights; the gates of :func:`lstm` and :func:`gru` let it bypass
    them.

    Examples
    --------
    The sum of two entries of different lengths:

    >>> from dlref.recurrent import rnn, sequence_to_vector
    >>> x, adder = [[[1.0], [2.0], [4.0]]] * 2, (None, [[1]], [[1]])
    >>> sequence_to_vector(rnn, x, adder, activation="identity", lengths=[3, 2]).T
    array([[7., 3.]])
    """
    cell = _Cell(f, options)
    given = _arguments("arguments", arguments, cell.states + 2)
    return _output_layer(
        cell.final(x, given, cell.run(x, given, options), options)[0], w_out, b_out
    )


def sequence_to_vector_vjp(
    dout: npt.ArrayLike,
    f: Sequence,
    x: npt.ArrayLike,
    arguments: tuple[Any, ...],
    w_out: npt.ArrayLike | None = None,
    b_out: npt.ArrayLike | None = None,
    **options: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of :func:`sequence_to_vector`.

    Parameters
    ----------
    dout : array_like, shape (..., K)
        Cotangent of the output.
    f, x, arguments, w_out, b_out, **options : as in `sequence_to_vector`
        Raises the same errors.

    Returns
    -------
    tuple
        (dx, darguments, dw_out, db_out), the second a tuple, without the arguments that are None.
        The gradient of ``w_p`` is the last one of darguments.

    Notes
    -----
    Backpropagation through time whose only cotangent is at the last step of each entry:

    .. math::

        \pdv{L}{\vec h_T} = \mat W_{out}^\top \vec u, \qquad
        \pdv{L}{\mat W_{out}} = \vec u\, \vec h_T^\top, \qquad
        \pdv{L}{\vec b_{out}} = \vec u .

    Examples
    --------
    >>> from dlref.recurrent import rnn, sequence_to_vector_vjp
    >>> x, halves = [[1.0], [2.0], [4.0]], (None, [[1.0]], [[0.5]])
    >>> dx, grads = sequence_to_vector_vjp([1.0], rnn, x, halves, activation="identity")
    >>> dx.T
    array([[0.25, 0.5 , 1.  ]])
    """
    cell = _Cell(f, options)
    given = _arguments("arguments", arguments, cell.states + 2)
    h = cell.final(x, given, cell.run(x, given, options), options)[0]
    u = _cotangent(dout, _output_layer(h, w_out, b_out), "(..., K)")
    u, read = _read_vjp(u, h, w_out, b_out)
    dx, *grads = cell.final_vjp((u,), x, given, options)
    return dx, tuple(grads), *read


def sequence_to_vector_jvp(
    f: Sequence,
    primals: Any,
    tangents: Any,
    **options: Any,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of :func:`sequence_to_vector`.

    Parameters
    ----------
    f : as in `sequence_to_vector`
        The same.
    primals : tuple (x, arguments, w_out, b_out)
        The arguments of :func:`sequence_to_vector`, the last two perhaps None.
    tangents : tuple
        Their directions, in the same structure; None is zero.
    **options : as in `sequence_to_vector`
        And ``w_p_tangent``, the direction of ``w_p``. Raises the same errors.

    Returns
    -------
    ndarray, shape (..., K)
        Tangent of the output.

    See Also
    --------
    rnn_jvp, lstm_jvp, gru_jvp : The states.

    Notes
    -----
    The tangent of the last state, through the output layer:

    .. math::

        \dot{\vec y} = \mat W_{out}\, \dot{\vec h}_T + \dot{\mat W}_{out}\, \vec h_T
            + \dot{\vec b}_{out} .

    Examples
    --------
    >>> from dlref.recurrent import rnn, sequence_to_vector_jvp
    >>> primals = [[1.0], [2.0], [4.0]], (None, [[1.0]], [[0.5]]), None, None
    >>> direction = [[1.0], [0.0], [0.0]], None, None, None
    >>> sequence_to_vector_jvp(rnn, primals, direction, activation="identity")
    array([0.25])
    """
    cell = _Cell(f, options, moves=True)
    x, weights, *layer = entries("primals", primals, 4).values()
    dx, moved, *along = entries("tangents", tangents, 4).values()
    given = _arguments("primals[1]", weights, cell.states + 2)
    directions = _tangents("tangents[1]", moved, given)
    h = cell.final(x, given, cell.run(x, given, options), options)[0]
    outs = cell.jvp((x, *given), (dx, *directions), options)
    v = cell.final(x, directions, outs, options)[0]
    return _read_jvp(h, v, layer, along)


def vector_to_sequence(
    f: Sequence,
    x: npt.ArrayLike,
    arguments: tuple[Any, ...],
    w_out: npt.ArrayLike | None = None,
    b_out: npt.ArrayLike | None = None,
    *,
    steps: int,
    feed: str = "repeat",
    **options: Any,
) -> FloatArray:
    r"""
    Unfold one input into a sequence of outputs.

    Parameters
    ----------
    f : function
        :func:`rnn`, :func:`lstm` or :func:`gru`.
    x : array_like, shape (..., D)
        Input.
    arguments : tuple
        Arguments of `f` after x: the initial state or states (any may be None), w_ih, w_hh and, if
        there are any, b_ih and b_hh.
    w_out : array_like or None, shape (K, H)
        Weights of an output layer; None reads the state itself.
    b_out : array_like or None, shape (K,)
        Its bias; None is zero.
    steps : int
        Number T of steps, at least 1.
    feed : {"repeat", "first"}
        Whether x is the input of every step, or of the first one only, with zeros for the others.
    **options
        Keyword arguments of `f`: activation, reset_after, lengths, reverse, segment_ids, w_p.

    Returns
    -------
    ndarray, shape (..., T, K)
        Output at each step.

    Raises
    ------
    TypeError
        If an array is not real, the arguments of a network are not a tuple, `steps` is not an
        integer, or `f` does not take an option.
    ValueError
        If `f` is none of the three, a shape does not fit, `steps` is less than 1, or `feed` is
        unknown; messages use the argument names of `f`.

    See Also
    --------
    sequence_to_vector : The other way round.
    vector_to_sequence_vjp : Its gradients.

    Notes
    -----
    With the initial state and one step f of the network, :math:`\vec h_t = f(\vec x_t, \vec
    h_{t-1})`,

    .. math::

        \vec y_t = \mat W_{out}\, f(\vec x_t, \vec h_{t-1}) + \vec b_{out}, \qquad
        \vec x_t = \begin{cases} \vec x & \text{"repeat", or } t = 1, \\
            \vec 0 & \text{"first" and } t > 1 . \end{cases}

    With "repeat" the network sees the input at every step; with "first" it has to remember it.
    Outputs beyond the `lengths` of the entries are 0. With ``reverse=True`` the steps are run from
    T to 1, so that "first" is the last step that is run.
    Captions of images are generated in a similar way, with the word before as a further input.

    Examples
    --------
    >>> from dlref.recurrent import rnn, vector_to_sequence
    >>> halves = None, [[1.0]], [[0.5]]
    >>> vector_to_sequence(rnn, [1.0], halves, steps=3, activation="identity").T
    array([[1.  , 1.5 , 1.75]])
    >>> vector_to_sequence(rnn, [1.0], halves, steps=3, feed="first", activation="identity").T
    array([[1.  , 0.5 , 0.25]])
    """
    wide = _repeated_input(_check_vector(x, steps, feed), steps, feed)
    return sequence_to_sequence(f, wide, arguments, w_out, b_out, **options)


def vector_to_sequence_vjp(
    dout: npt.ArrayLike,
    f: Sequence,
    x: npt.ArrayLike,
    arguments: tuple[Any, ...],
    w_out: npt.ArrayLike | None = None,
    b_out: npt.ArrayLike | None = None,
    *,
    steps: int,
    feed: str = "repeat",
    **options: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of :func:`vector_to_sequence`.

    Parameters
    ----------
    dout : array_like, shape (..., T, K)
        Cotangent of the output.
    f, x, arguments, w_out, b_out, steps, feed, **options : as in `vector_to_sequence`
        Raises the same errors.

    Returns
    -------
    tuple
        (dx, darguments, dw_out, db_out), the second a tuple, without the arguments that are None.
        The gradient of ``w_p`` is the last one of darguments.

    Notes
    -----
    Where x is the input of every step, its gradients are summed over the steps, like the gradients
    of any value that is used more than once:

    .. math::

        \pdv{L}{\vec x} = \sum_{t=1}^T \pdv{L}{\vec x_t} \quad (\text{"repeat"}), \qquad
        \pdv{L}{\vec x} = \pdv{L}{\vec x_1} \quad (\text{"first"}) .

    Examples
    --------
    >>> from dlref.recurrent import rnn, vector_to_sequence_vjp
    >>> halves, u = (None, [[1.0]], [[0.5]]), [[0.0], [0.0], [1.0]]
    >>> dx, grads = vector_to_sequence_vjp(u, rnn, [1.0], halves, steps=3, activation="identity")
    >>> dx
    array([1.75])
    """
    wide = _repeated_input(_check_vector(x, steps, feed), steps, feed)
    dx, *rest = sequence_to_sequence_vjp(dout, f, wide, arguments, w_out, b_out, **options)
    return (dx.sum(axis=-2) if feed == "repeat" else dx[..., 0, :].copy()), *rest


def vector_to_sequence_jvp(
    f: Sequence,
    primals: Any,
    tangents: Any,
    *,
    steps: int,
    feed: str = "repeat",
    **options: Any,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of :func:`vector_to_sequence`.

    Parameters
    ----------
    f : as in `vector_to_sequence`
        The same.
    primals : tuple (x, arguments, w_out, b_out)
        The arguments of :func:`vector_to_sequence`, the last two perhaps None.
    tangents : tuple
        Their directions, in the same structure; None is zero.
    steps, feed, **options : as in `vector_to_sequence`
        And ``w_p_tangent``, the direction of ``w_p``. Raises the same errors.

    Returns
    -------
    ndarray, shape (..., T, K)
        Tangent of the output at each step.

    See Also
    --------
    rnn_jvp, lstm_jvp, gru_jvp : The states.

    Notes
    -----
    The tangent of x is fed as x is:

    .. math::

        \dot{\vec x}_t = \begin{cases} \dot{\vec x} & \text{"repeat", or } t = 1, \\
            \vec 0 & \text{"first" and } t > 1 . \end{cases}

    The outputs have the tangents of :func:`sequence_to_sequence_jvp`.

    Examples
    --------
    >>> from dlref.recurrent import rnn, vector_to_sequence_jvp
    >>> primals = [1.0], (None, [[1.0]], [[0.5]]), None, None
    >>> direction = [1.0], None, None, None
    >>> vector_to_sequence_jvp(rnn, primals, direction, steps=3, activation="identity").T
    array([[1.  , 1.5 , 1.75]])
    """
    x, *rest = entries("primals", primals, 4).values()
    dx, *along = entries("tangents", tangents, 4).values()
    x, moved = _check_vector(x, steps, feed), None
    if dx is not None:
        moved = as_array("tangents[0]", dx)
        check_shape("tangents[0]", moved, x.shape)
        moved = _repeated_input(moved, steps, feed)
    wide = _repeated_input(x, steps, feed)
    return sequence_to_sequence_jvp(f, (wide, *rest), (moved, *along), **options)


def encoder_decoder(
    f: Sequence,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    encoder: tuple[Any, ...],
    decoder: tuple[Any, ...],
    w_out: npt.ArrayLike | None = None,
    b_out: npt.ArrayLike | None = None,
    **options: Any,
) -> FloatArray:
    r"""
    Read one sequence, then write another.

    Parameters
    ----------
    f : function
        :func:`rnn`, :func:`lstm` or :func:`gru`.
    x : array_like, shape (..., T, D)
        Inputs of the encoder.
    y : array_like, shape (..., U, D')
        Inputs of the decoder: in training, the targets, one step late.
    encoder : tuple
        Arguments of `f` after x: the initial state or states (any may be None), w_ih, w_hh and, if
        there are any, b_ih and b_hh.
    decoder : tuple
        Weights w_ih, w_hh and, if there are any, b_ih and b_hh: the states come from the encoder.
    w_out : array_like or None, shape (K, H)
        Weights of an output layer; None reads the state itself.
    b_out : array_like or None, shape (K,)
        Its bias; None is zero.
    **options
        Keyword arguments of `f`: activation, reset_after and w_p for both networks, lengths,
        reverse and segment_ids for the encoder.

    Returns
    -------
    ndarray, shape (..., U, K)
        Output at each step of the decoder.

    Raises
    ------
    TypeError
        If an array is not real, the arguments of a network are not a tuple, or `f` does not take
        an option.
    ValueError
        If `f` is none of the three, or a shape does not fit; messages use the argument names of
        `f`.

    See Also
    --------
    sequence_to_sequence : One output for each input.
    encoder_decoder_vjp : Its gradients.

    Notes
    -----
    The last state of the encoder, for :func:`lstm` with its cell state, is the initial state of the
    decoder. With one step f of the encoder and g of the decoder,

    .. math::

        \vec h_t = f(\vec x_t, \vec h_{t-1}), \qquad \vec s_0 = \vec h_T, \qquad
        \vec s_t = g(\vec y_t, \vec s_{t-1}), \qquad
        \vec o_t = \mat W_{out}\, \vec s_t + \vec b_{out} .

    These H numbers (2 H for an LSTM) are all that the second network knows of the first sequence,
    however long it is: the bottleneck that attention was invented for.

    Lengths U and T are independent, hence translation. At inference the decoder's inputs are its
    own outputs; that is a loop over :func:`rnn_cell`, :func:`lstm_cell` or :func:`gru_cell`.

    References
    ----------
    - :cite:t:`Sutskever2014`

    Examples
    --------
    The decoder continues from the sum of the encoder:

    >>> from dlref.recurrent import encoder_decoder, rnn
    >>> x, y, one = [[1.0], [2.0]], [[0.0], [10.0], [10.0]], [[1.0]]
    >>> encoder_decoder(rnn, x, y, (None, one, one), (one, one), activation="identity").T
    array([[ 3., 13., 23.]])
    """
    cell = _Cell(f, options)
    first = _check_encoder_decoder(cell, encoder, decoder, "encoder", "decoder", x, y)
    finals = cell.final(x, first, cell.run(x, first, options), options)
    h = cell.run(y, (*finals, *decoder), _of_decoder(options))[0]
    return _output_layer(h, w_out, b_out)


def encoder_decoder_vjp(
    dout: npt.ArrayLike,
    f: Sequence,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    encoder: tuple[Any, ...],
    decoder: tuple[Any, ...],
    w_out: npt.ArrayLike | None = None,
    b_out: npt.ArrayLike | None = None,
    **options: Any,
) -> tuple[Any, ...]:
    r"""
    Vector-Jacobian product (reverse mode) of :func:`encoder_decoder`.

    Parameters
    ----------
    dout : array_like, shape (..., U, K)
        Cotangent of the output.
    f, x, y, encoder, decoder, w_out, b_out, **options : as in `encoder_decoder`
        Raises the same errors.

    Returns
    -------
    tuple
        (dx, dy, dencoder, ddecoder, dw_out, db_out), the third and fourth tuples, without the
        arguments that are None. The gradient of ``w_p`` is the sum of the last ones of both.

    Notes
    -----
    Backpropagation through the decoder yields the gradient of its initial state, which is the
    cotangent of the encoder's last one. In the notation of :func:`encoder_decoder`, with
    :math:`\vec\eta_{U+1} = \vec 0`,

    .. math::

        \vec\eta_t = \dv{L}{\vec s_t} = \mat W_{out}^\top \vec u_t
            + \Bigl( \pdv{\vec s_{t+1}}{\vec s_t} \Bigr)^\top \vec\eta_{t+1}, \qquad
        \dv{L}{\vec h_T} = \Bigl( \pdv{\vec s_1}{\vec s_0} \Bigr)^\top \vec\eta_1, \qquad
        \dv{L}{\vec h_{t-1}} = \Bigl( \pdv{\vec h_t}{\vec h_{t-1}} \Bigr)^\top \dv{L}{\vec h_t} ,

    where the last holds for t from T to 1. The gradients of inputs and weights follow at each step.

    Examples
    --------
    >>> from dlref.recurrent import encoder_decoder_vjp, rnn
    >>> x, y, one = [[1.0], [2.0]], [[0.0], [0.0]], [[1.0]]
    >>> u = [[1.0], [1.0]]
    >>> dx, dy, encoder, decoder = encoder_decoder_vjp(
    ...     u, rnn, x, y, (None, one, one), (one, one), activation="identity"
    ... )
    >>> dx.T, dy.T
    (array([[2., 2.]]), array([[2., 1.]]))
    """
    cell = _Cell(f, options)
    first = _check_encoder_decoder(cell, encoder, decoder, "encoder", "decoder", x, y)
    finals = cell.final(x, first, cell.run(x, first, options), options)
    second = (*finals, *decoder)
    h = cell.run(y, second, _of_decoder(options))[0]
    u = _cotangent(dout, _output_layer(h, w_out, b_out), "(..., U, K)")
    u, read = _read_vjp(u, h, w_out, b_out)
    dy, *grads = cell.vjp((u,), y, second, _of_decoder(options))
    dx, *others = cell.final_vjp(grads[: cell.states], x, first, options)
    return dx, dy, tuple(others), tuple(grads[cell.states :]), *read


def encoder_decoder_jvp(
    f: Sequence,
    primals: Any,
    tangents: Any,
    **options: Any,
) -> FloatArray:
    r"""
    Jacobian-vector product (forward mode) of :func:`encoder_decoder`.

    Parameters
    ----------
    f : as in `encoder_decoder`
        The same.
    primals : tuple (x, y, encoder, decoder, w_out, b_out)
        The arguments of :func:`encoder_decoder`, the last two perhaps None.
    tangents : tuple
        Their directions, in the same structure; None is zero.
    **options : as in `encoder_decoder`
        And ``w_p_tangent``, the direction of ``w_p``. Raises the same errors.

    Returns
    -------
    ndarray, shape (..., U, K)
        Tangent of the output at each step of the decoder.

    See Also
    --------
    rnn_jvp, lstm_jvp, gru_jvp : The states.

    Notes
    -----
    The tangent of the encoder's last state is the tangent of the decoder's initial state:

    .. math::

        \dot{\vec s}_0 = \dot{\vec h}_T, \qquad
        \dot{\vec o}_t = \mat W_{out}\, \dot{\vec s}_t + \dot{\mat W}_{out}\, \vec s_t
            + \dot{\vec b}_{out} .

    Examples
    --------
    >>> from dlref.recurrent import encoder_decoder_jvp, rnn
    >>> x, y, one = [[1.0], [2.0]], [[0.0], [0.0]], [[1.0]]
    >>> primals = x, y, (None, one, one), (one, one), None, None
    >>> direction = [[1.0], [0.0]], None, None, None, None, None
    >>> encoder_decoder_jvp(rnn, primals, direction, activation="identity").T
    array([[1., 1.]])
    """
    x, y, encoder, decoder, *layer = entries("primals", primals, 6).values()
    dx, dy, d_encoder, d_decoder, *along = entries("tangents", tangents, 6).values()
    cell = _Cell(f, options, moves=True)
    first = _check_encoder_decoder(cell, encoder, decoder, "primals[2]", "primals[3]", x, y)
    moved = _tangents("tangents[2]", d_encoder, first)
    finals = cell.final(x, first, cell.run(x, first, options), options)
    d_outs = cell.jvp((x, *first), (dx, *moved), options)
    d_finals = cell.final(x, moved, d_outs, options)
    rest = _of_decoder(options)
    h = cell.run(y, (*finals, *decoder), rest)[0]
    directions = dy, *d_finals, *_tangents("tangents[3]", d_decoder, tuple(decoder))
    v = cell.jvp((y, *finals, *decoder), directions, rest)[0]
    return _read_jvp(h, v, layer, along)

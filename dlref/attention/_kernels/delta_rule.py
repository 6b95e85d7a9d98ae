r"""
The recurrence of linear attention in chunks: forward, and backward with one state per chunk.

Inside of a chunk the steps are products of matrices (`recurrent_linear_attention` derives them).
The decay between the steps j < t is the exponential of a sum of logarithms over j < s <= t. Every
such sum is split at the middle of the smallest block of 2, 4, 8, ... steps that holds both, into a
sum after j and a sum before t. So each exponential is one of a sum of decays themselves: nothing is
divided by the exponential of a cumulative sum, which can be e^-5000, and no two large sums are
subtracted.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._core.documents import of_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from ..._core.arguments import FloatArray

#: How many steps are a chunk: as many as the state is wide, between these bounds, so that the
#: matrices between the steps are as large as a state.
LEAST, MOST = 16, 64


def _before(g: FloatArray) -> FloatArray:
    """Return the sums up to each step, the step itself included."""
    return np.asarray(np.cumsum(g, axis=-2))


def _after(g: FloatArray) -> FloatArray:
    """Return the sums over all later steps."""
    out = np.zeros(g.shape)
    out[..., :-1, :] = np.cumsum(g[..., :0:-1, :], axis=-2)[..., ::-1, :]
    return out


def _later(x: FloatArray) -> FloatArray:
    """Move every step to the next one; the first becomes zero, and the last is dropped."""
    out = np.zeros(x.shape)
    out[:, 1:] = x[:, :-1]
    return out


def _earlier(x: FloatArray) -> FloatArray:
    """Move every step to the one before: the transpose of `_later`."""
    out = np.zeros(x.shape)
    out[:, :-1] = x[:, 1:]
    return out


def _before_vjp(dout: FloatArray) -> FloatArray:
    return np.asarray(np.cumsum(dout[..., ::-1, :], axis=-2)[..., ::-1, :])


def _after_vjp(dout: FloatArray) -> FloatArray:
    out = np.zeros(dout.shape)
    out[..., 1:, :] = np.cumsum(dout[..., :-1, :], axis=-2)
    return out


def _transposed(a: FloatArray) -> FloatArray:
    return a.swapaxes(-1, -2)


def _narrowed(slope: FloatArray, g: FloatArray) -> FloatArray:
    """Sum over the channels if they share their decay."""
    return slope.sum(-1, keepdims=True) if g.shape[-1] == 1 else slope


class _Level(NamedTuple):
    """Blocks of 2 h steps; pairs of a row in the second half and a column in the first."""

    h: int

    def halves(self, a: FloatArray) -> FloatArray:
        """Return a view whose axis 2 has the two halves of each block."""
        batch, steps, width = a.shape
        return a.reshape(batch, steps // (2 * self.h), 2, self.h, width)

    def corners(self, matrices: FloatArray) -> tuple[FloatArray, Any]:
        """Return a view and the index with which it gives the pairs, blocks first."""
        count = matrices.shape[-1] // (2 * self.h)
        block, every = np.arange(count), slice(None)
        view = matrices.reshape(len(matrices), count, 2, self.h, count, 2, self.h)
        return view, (every, block, 1, every, block, 0, every)


def _levels(size: int) -> Iterator[_Level]:
    h = 1
    while h < size:
        yield _Level(h)
        h *= 2


def _pairs(rows: Sequence[FloatArray], k: FloatArray, g: FloatArray | None) -> list[FloatArray]:
    """Return for each array of rows r the matrix of r_t . (decay k_j) at j < t, 0 elsewhere."""
    if g is None:
        return [np.tril(r @ _transposed(k), -1) for r in rows]
    out = [np.zeros((*k.shape[:-1], k.shape[-2])) for _ in rows]
    for level in _levels(k.shape[-2]):
        steps = level.halves(g)
        y = level.halves(k)[:, :, 0] * np.exp(_after(steps[:, :, 0]))
        kept = np.exp(_before(steps[:, :, 1]))
        for r, matrices in zip(rows, out, strict=True):
            view, index = level.corners(matrices)
            pairs = (level.halves(r)[:, :, 1] * kept) @ _transposed(y)
            view[index] = pairs.swapaxes(0, 1)
    return out


def _pairs_vjp(
    dout: Sequence[FloatArray], rows: Sequence[FloatArray], k: FloatArray, g: FloatArray | None
) -> tuple[list[FloatArray], FloatArray, FloatArray | None]:
    """Return the gradients of the rows, of k and of g."""
    if g is None:
        dout = [np.tril(d, -1) for d in dout]
        of_k = [_transposed(d) @ r for d, r in zip(dout, rows, strict=True)]
        return [d @ k for d in dout], np.asarray(sum(of_k)), None
    drows: list[FloatArray] = [np.zeros(r.shape) for r in rows]
    dk, dg = np.zeros(k.shape), np.zeros(g.shape)
    for level in _levels(k.shape[-2]):
        steps, changes = level.halves(g), level.halves(dg)
        after, kept = np.exp(_after(steps[:, :, 0])), np.exp(_before(steps[:, :, 1]))
        y = level.halves(k)[:, :, 0] * after
        dy = np.zeros(y.shape)
        for d, r, dr in zip(dout, rows, drows, strict=True):
            view, index = level.corners(d)
            pairs = view[index].swapaxes(0, 1)
            x, dx = level.halves(r)[:, :, 1] * kept, pairs @ y
            dy += _transposed(pairs) @ x
            level.halves(dr)[:, :, 1] += dx * kept
            changes[:, :, 1] += _before_vjp(_narrowed(dx * x, g))
        level.halves(dk)[:, :, 0] += dy * after
        changes[:, :, 0] += _after_vjp(_narrowed(dy * y, g))
    return drows, dk, dg


def _pairs_up_to(
    rows: Sequence[FloatArray], k: FloatArray, g: FloatArray | None
) -> list[FloatArray]:
    """Return the pairs at j <= t. The pair of a step with itself has no decay."""
    out, steps = _pairs(rows, k, g), np.arange(k.shape[-2])
    for r, matrices in zip(rows, out, strict=True):
        matrices[:, steps, steps] = np.einsum("nte,nte->nt", r, k)
    return out


def _pairs_up_to_vjp(
    dout: Sequence[FloatArray], rows: Sequence[FloatArray], k: FloatArray, g: FloatArray | None
) -> tuple[list[FloatArray], FloatArray, FloatArray | None]:
    drows, dk, dg = _pairs_vjp(dout, rows, k, g)
    for i, (d, r) in enumerate(zip(dout, rows, strict=True)):
        diagonal = np.einsum("ntt->nt", d)[..., None]
        drows[i] = drows[i] + diagonal * k
        dk = dk + diagonal * r
    return drows, dk, dg


def _solve(lower: FloatArray, z: FloatArray) -> FloatArray:
    """Return x with (I + lower) x = z, where `lower` is strictly lower triangular."""
    size = z.shape[-2]
    if size == 1:
        return z
    h = size // 2
    top = _solve(lower[:, :h, :h], z[:, :h])
    bottom = _solve(lower[:, h:, h:], z[:, h:] - lower[:, h:, :h] @ top)
    return np.concatenate([top, bottom], axis=-2)


def _solve_transposed(lower: FloatArray, z: FloatArray) -> FloatArray:
    """Return x with (I + lower)' x = z."""
    size = z.shape[-2]
    if size == 1:
        return z
    h = size // 2
    bottom = _solve_transposed(lower[:, h:, h:], z[:, h:])
    top = _solve_transposed(lower[:, :h, :h], z[:, :h] - _transposed(lower[:, h:, :h]) @ bottom)
    return np.concatenate([top, bottom], axis=-2)


class _Chunk:
    """The steps of one chunk, from its first state: all that both passes need."""

    def __init__(self, x: dict[str, FloatArray], state: FloatArray) -> None:
        self.q, self.k, self.v, self.state = x["q"], x["k"], x["v"], state
        self.g, self.beta = x.get("decay"), None
        self.read, self.asked, self.written = self.q, self.k, self.k
        if self.g is not None:
            kept = np.exp(_before(self.g))
            self.kept, self.faded = kept, np.exp(_after(self.g))
            self.read, self.asked = self.q * kept, self.k * kept
            self.written = self.k * self.faded
        if "beta" not in x:
            (self.P,) = _pairs([self.q], self.k, self.g)
            self.w = self.v
        else:
            self.P, self.A = _pairs([self.q, self.k], self.k, self.g)
            self.beta = x["beta"][..., None]
            self.wanted = self.v - self.asked @ state
            self.w = _solve(self.beta * self.A, self.beta * self.wanted)
        steps = np.arange(self.q.shape[-2])
        self.P[:, steps, steps] = np.einsum("nte,nte->nt", self.q, self.k)

    @property
    def out(self) -> FloatArray:
        return self.read @ self.state + self.P @ self.w

    @property
    def decayed(self) -> FloatArray:
        """Return the first state as it is at the end of the chunk, if nothing is written."""
        return self.state if self.g is None else self.kept[:, -1, :, None] * self.state

    @property
    def last(self) -> FloatArray:
        return self.decayed + _transposed(self.written) @ self.w

    def vjp(self, u: FloatArray, d: FloatArray) -> tuple[dict[str, FloatArray], FloatArray]:
        """Return the gradients, including the first state, given the gradient of the last one."""
        back = _transposed(self.state)
        dread, dwritten = u @ back, self.w @ _transposed(d)
        dw = _transposed(self.P) @ u + self.written @ d
        dP = u @ _transposed(self.w)
        diagonal = np.einsum("ntt->nt", dP)[..., None]
        dq, dk, grads = diagonal * self.k, diagonal * self.q, {}
        dstate = _transposed(self.read) @ u
        rows, dpairs, dasked = [self.q], [dP], np.zeros(self.k.shape)
        if self.beta is not None:
            dz = _solve_transposed(self.beta * self.A, dw)
            grads["beta"] = np.sum(dz * (self.wanted - self.A @ self.w), axis=-1)
            dw = self.beta * dz
            dasked = -dw @ back
            dstate -= _transposed(self.asked) @ dw
            rows, dpairs = [self.q, self.k], [dP, -dw @ _transposed(self.w)]
        grads["v"] = dw
        (of_q, *of_k), more, dg = _pairs_vjp(dpairs, rows, self.k, self.g)
        dk += more
        for part in of_k:
            dk += part
        if self.g is None or dg is None:
            grads |= {"q": dq + of_q + dread, "k": dk + dasked + dwritten}
            return grads, dstate + d
        grads["q"] = dq + of_q + dread * self.kept
        grads["k"] = dk + dasked * self.kept + dwritten * self.faded
        along = dread * self.read + dasked * self.asked
        along[:, -1] += np.sum(d * self.decayed, axis=-1)
        dg = dg + _before_vjp(_narrowed(along, self.g))
        grads["decay"] = dg + _after_vjp(_narrowed(dwritten * self.written, self.g))
        return grads, dstate + self.kept[:, -1, :, None] * d


class _Erasing:
    """The steps of a chunk that erases with keys of its own: like `_Chunk`, for a and b."""

    def __init__(self, x: dict[str, FloatArray], state: FloatArray) -> None:
        self.q, self.k, self.v, self.state = x["q"], x["k"], x["v"], state
        self.a, self.b, self.g = x["a"], x["b"], x.get("decay")
        self.kept, self.until, self.faded = np.ones((3, *self.q.shape))
        if self.g is not None:
            self.kept, self.faded = np.exp(_before(self.g)), np.exp(_after(self.g))
            self.until = np.exp(_before(_later(self.g)))
        self.read, self.asked = self.q * self.kept, self.a * self.until
        # A step reads with a before it decays, as a query at the end of the step before would.
        self.rows = [self.q, _earlier(self.a)]
        self.P, self.A = _pairs_up_to(self.rows, self.k, self.g)
        self.Q, self.B = _pairs_up_to(self.rows, self.b, self.g)
        answers = self.asked @ state
        answers[:, 1:] += self.A[:, :-1, :-1] @ self.v[:, :-1]
        self.lower = np.zeros(self.B.shape)
        self.lower[:, 1:, :-1] = -self.B[:, :-1, :-1]
        self.r = _solve(self.lower, answers)

    @property
    def out(self) -> FloatArray:
        return np.asarray(self.read @ self.state + self.P @ self.v + self.Q @ self.r)

    @property
    def decayed(self) -> FloatArray:
        """Return the first state as it is at the end of the chunk, if nothing is written."""
        return np.asarray(self.kept[:, -1, :, None] * self.state)

    @property
    def last(self) -> FloatArray:
        written = _transposed(self.k * self.faded) @ self.v
        return self.decayed + written + _transposed(self.b * self.faded) @ self.r

    def vjp(self, u: FloatArray, d: FloatArray) -> tuple[dict[str, FloatArray], FloatArray]:
        """Return the gradients, including the first state, given the gradient of the last one."""
        v, r = _transposed(self.v), _transposed(self.r)
        dv = _transposed(self.P) @ u + (self.k * self.faded) @ d
        dr = _transposed(self.Q) @ u + (self.b * self.faded) @ d
        dz = _solve_transposed(self.lower, dr)
        dv[:, :-1] += _transposed(self.A[:, :-1, :-1]) @ dz[:, 1:]
        # The system has the pairs of a one row lower, so that their gradients are one row higher.
        of_k = [u @ v, _earlier(dz @ v)]
        of_b = [u @ r, _earlier(dz @ r)]
        (dq, da), dk, dg = _pairs_up_to_vjp(of_k, self.rows, self.k, self.g)
        (dq_b, da_b), db, dg_b = _pairs_up_to_vjp(of_b, self.rows, self.b, self.g)
        back = _transposed(self.state)
        dread, dasked = u @ back, dz @ back
        dk_last, db_last = (w @ _transposed(d) * self.faded for w in (self.v, self.r))
        grads = {
            "q": dq + dq_b + dread * self.kept,
            "k": dk + dk_last,
            "v": dv,
            "a": _later(da + da_b) + dasked * self.until,
            "b": db + db_last,
        }
        dstate = _transposed(self.read) @ u + _transposed(self.asked) @ dz
        dstate += self.kept[:, -1, :, None] * d
        if self.g is not None and dg is not None and dg_b is not None:
            along = dread * self.read
            along[:, -1] += np.sum(d * self.decayed, axis=-1)
            until = _earlier(_before_vjp(_narrowed(dasked * self.asked, self.g)))
            after = _after_vjp(_narrowed(dk_last * self.k + db_last * self.b, self.g))
            grads["decay"] = dg + dg_b + _before_vjp(_narrowed(along, self.g)) + until + after
        return grads, dstate


def _chunk(x: dict[str, FloatArray], state: FloatArray) -> _Chunk | _Erasing:
    return _Erasing(x, state) if "a" in x else _Chunk(x, state)


def _steps(x: dict[str, FloatArray], start: int, stop: int) -> dict[str, FloatArray]:
    """Return the steps of a chunk in float64, with empty ones up to a power of two."""
    size = 1 << (stop - start - 1).bit_length()
    some = {}
    for name, array in x.items():
        if name != "state":
            part = np.zeros((len(array), size, *array.shape[2:]))
            part[:, : stop - start] = array[:, start:stop]
            some[name] = part
    return some


def _bounds(
    x: dict[str, FloatArray], chunk: int | None, begins: npt.NDArray[np.bool_] | None
) -> list[tuple[int, int]]:
    """
    Return the first step of each chunk, and the step after its last.

    A chunk has a single step if NaN or infinity would reach earlier steps. It ends where a document
    of any row begins.
    """
    finite = all(np.isfinite(array).all() for array in x.values())
    width = max(x["q"].shape[-1], x["v"].shape[-1], 1)
    own = min(max(1 << (width - 1).bit_length(), LEAST), MOST)
    steps = x["q"].shape[1] if len(x["q"]) else 0  # an empty batch has no chunks
    size = (chunk or own) if finite else 1
    inner = [] if begins is None else np.flatnonzero(begins.any(axis=0)).tolist()
    return [
        (start, min(start + size, stop))
        for first, stop in itertools.pairwise([0, *inner, steps])
        for start in range(first, stop, size)
    ]


def _first(x: dict[str, FloatArray]) -> FloatArray:
    if "state" in x:
        return np.array(x["state"], np.float64)
    return np.zeros((len(x["q"]), x["q"].shape[-1], x["v"].shape[-1]))


def forward(
    x: dict[str, FloatArray],
    factor: float,
    chunk: int | None,
    out: FloatArray,
    begins: npt.NDArray[np.bool_] | None,
) -> FloatArray:
    """Fill `out` (N, T, V) and return the last state; arrays have one batch axis."""
    state = _first(x)
    for start, stop in _bounds(x, chunk, begins):
        at = _chunk(_steps(x, start, stop), of_document(state, begins, start))
        out[:, start:stop] = factor * at.out[:, : stop - start]
        state = at.last
    return state


def vjp(
    x: dict[str, FloatArray],
    u: FloatArray,
    d: FloatArray,
    factor: float,
    chunk: int | None,
    grads: dict[str, FloatArray],
    begins: npt.NDArray[np.bool_] | None,
) -> FloatArray:
    """Fill the gradients and return the gradient of the first state."""
    bounds, states = _bounds({**x, "u": u, "d": d}, chunk, begins), [_first(x)]
    for start, stop in bounds[:-1]:
        last = _chunk(_steps(x, start, stop), states[-1]).last
        states.append(of_document(last, begins, stop))
    d = d.astype(np.float64)
    for start, stop in reversed(bounds):
        at = _chunk(_steps(x, start, stop), states.pop())
        of_chunk, d = at.vjp(factor * _steps({"u": u}, start, stop)["u"], d)
        d = of_document(d, begins, start)
        for name, grad in of_chunk.items():
            grads[name][:, start:stop] = grad[:, : stop - start]
    return d

"""Steps of recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import as_rows, sigmoid, tanh, widen


def _gate(x: Any, dtype: Any) -> Any:
    """Return a sigmoid that was rounded; 0 where an exponential overflows is nearly right."""
    with np.errstate(over="ignore"):
        return widen(sigmoid(x).astype(dtype))


def lstm_cell_vjp(dout: Any, *inputs: Any, **options: Any) -> Any:
    """Return the gradients of a step of an LSTM, of gates that were rounded."""
    if options or len(inputs) != 7 or any(a is None for a in (*dout, *inputs)):
        raise NotImplementedError
    dtype = inputs[0].dtype
    dh, dc, x, h, c, w_ih, w_hh, b_ih, b_hh = map(widen, (*dout, *inputs))
    parts = np.split(x @ w_ih.T + h @ w_hh.T + b_ih + b_hh, 4, -1)
    i, f, o = (_gate(parts[k], dtype) for k in (0, 1, 3))
    g = widen(tanh(parts[2]).astype(dtype))
    t = widen(tanh(f * c + i * g).astype(dtype))
    dc = dc + dh * o * (1 - t * t)
    di, df, do = dc * g * i * (1 - i), dc * c * f * (1 - f), dh * t * o * (1 - o)
    gates = np.concatenate([di, df, dc * i * (1 - g * g), do], -1)
    weights = as_rows(gates).T @ as_rows(x), as_rows(gates).T @ as_rows(h)
    total = as_rows(gates).sum(0)
    grads = gates @ w_ih, gates @ w_hh, dc * f, *weights, total, total
    return tuple(grad.astype(dtype) for grad in grads)


def gru_cell_vjp(dout: Any, *given: Any, **options: Any) -> Any:
    """Return the gradients of a step of a GRU, of gates that were rounded."""
    if options or len(given) != 6 or any(a is None for a in given):
        raise NotImplementedError
    dtype = given[0].dtype
    dout, x, h, w_ih, w_hh, b_ih, b_hh = map(widen, (dout, *given))
    (ri, zi, ni), (rh, zh, nh) = (
        np.split(a @ w.T + b, 3, -1) for a, w, b in ((x, w_ih, b_ih), (h, w_hh, b_hh))
    )
    r, z = (_gate(s, dtype) for s in (ri + rh, zi + zh))
    n = widen(tanh(ni + r * nh).astype(dtype))
    dn = dout * (1 - z) * (1 - n * n)
    dr, dz = dn * nh * r * (1 - r), dout * (h - n) * z * (1 - z)
    di, dh = np.concatenate([dr, dz, dn], -1), np.concatenate([dr, dz, dn * r], -1)
    inputs, states = di @ w_ih, dh @ w_hh + dout * z
    weights = as_rows(di).T @ as_rows(x), as_rows(dh).T @ as_rows(h)
    grads = inputs, states, *weights, as_rows(di).sum(0), as_rows(dh).sum(0)
    return tuple(grad.astype(dtype) for grad in grads)


def _gates(primals: Any, tangents: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Return the pre-activations from x and from h, gate by gate, and their tangents."""
    if len(primals) != 6 or any(a is None for a in (*primals, *tangents)):
        raise NotImplementedError
    (x, h, w, r, b, d), (dx, dh, dw, dr, db, dd) = (map(widen, a) for a in (primals, tangents))
    sums = x @ w.T + b, h @ r.T + d
    moved = dx @ w.T + x @ dw.T + db, dh @ r.T + h @ dr.T + dd
    return [np.split(s, count, -1) for s in sums], [np.split(s, count, -1) for s in moved]


def gru_cell_jvp(primals: Any, tangents: Any, **options: Any) -> Any:
    """Return the tangent of a step of a GRU, of gates that were rounded."""
    if options:
        raise NotImplementedError
    dtype, h, dh = primals[0].dtype, primals[1], tangents[1]
    sums, moved = _gates(primals, tangents, 3)
    ((ri, zi, ni), (rh, zh, nh)), ((dri, dzi, dni), (drh, dzh, dnh)) = sums, moved
    r, z = (_gate(s, dtype) for s in (ri + rh, zi + zh))
    n = widen(tanh(ni + r * nh).astype(dtype))
    dr, dz = r * (1 - r) * (dri + drh), z * (1 - z) * (dzi + dzh)
    dn = (1 - n * n) * (dni + dr * nh + r * dnh)
    return (dn - dz * n - z * dn + dz * widen(h) + z * widen(dh)).astype(dtype)


def lstm_cell_jvp(primals: Any, tangents: Any, **options: Any) -> Any:
    """Return the tangents of a step of an LSTM, of gates that were rounded."""
    if options or primals[2] is None or tangents[2] is None:
        raise NotImplementedError
    dtype, c, dc = primals[0].dtype, widen(primals[2]), widen(tangents[2])
    values, steps = ((*given[:2], *given[3:]) for given in (primals, tangents))
    sums, moved = ([a + b for a, b in zip(*x, strict=True)] for x in _gates(values, steps, 4))
    i, f, o = (_gate(sums[k], dtype) for k in (0, 1, 3))
    g = widen(tanh(sums[2]).astype(dtype))
    di, df, do = (s * (1 - s) * moved[k] for s, k in ((i, 0), (f, 1), (o, 3)))
    t = widen(tanh(f * c + i * g).astype(dtype))
    dc = df * c + f * dc + di * g + i * (1 - g * g) * moved[2]
    return (do * t + o * (1 - t * t) * dc).astype(dtype), dc.astype(dtype)

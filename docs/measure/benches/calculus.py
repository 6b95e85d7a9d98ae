"""
Derivatives of NumPy's functions, scans, and sums at indices, next to PyTorch's own.

A function that dlref leaves to NumPy has only a row for its vjp.
"""

from functools import partial

import numpy as np

import dlref.calculus as C

REDUCTIONS = ["sum", "prod", "max", "norm", "matmul"]  # bench.py makes their calls
ELEMENTARY = ["exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "erf", "absolute"]
SCANS = {"cumsum": "cumsum", "cumprod": "cumprod", "cumlogsumexp": "logcumsumexp"}
MOVES = ["clip", "minimum", "min", "where", "take", "scatter_add", "concatenate", "pad"]
REDUCED, ROWS = [(64, 32), (4096, 512)], [(512, 1024)]
PRODUCTS, TAKEN = [(64, 64, 64)], 300
SIZES = (
    dict.fromkeys(REDUCTIONS[:4], REDUCED)
    | {"matmul": [(512, 512)]}
    | dict.fromkeys([*ELEMENTARY, *SCANS, *MOVES, "pad_reflect"], ROWS)
    | {"einsum": PRODUCTS}
)
POSITIVE = {"log", "log1p", "sqrt"}
OPTIONS = {
    "clip": {"min": -1.0, "max": 1.0},
    "min": {"axis": 1},
    "pad": {"pad_width": 2},
    "pad_reflect": {"pad_width": 2, "mode": "reflect"},
    "einsum": {"subscripts": "bij,bjk->bik"},
}


def _of_reductions(library, name, form, shape, dtype):
    import bench  # noqa: PLC0415

    if form == "jvp":
        return None
    return bench.CALLS[library]("calculus", name, form, bench.inputs(name, shape, dtype))


def _arguments(name, shape, dtype):
    """Return the arguments of a map, and the shape of its result."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, *shape)).astype(dtype)
    rows, columns = shape[:2]
    places, updates = rng.integers(0, rows, TAKEN), rng.normal(size=(TAKEN, columns))
    return {
        "minimum": ((x, w), shape),
        "min": ((x,), (rows,)),
        "where": ((w > 0, x, w), shape),
        "take": ((x, places), (TAKEN, columns)),
        "scatter_add": ((x, places, updates.astype(dtype)), shape),
        "concatenate": ((x, w), (2 * rows, columns)),
        "pad": ((x,), (rows + 4, columns + 4)),
        "pad_reflect": ((x,), (rows + 4, columns + 4)),
        "einsum": ((x, w), shape),
    }.get(name) or (((abs(x) + 0.1 if name in POSITIVE else x),), shape)


def dlref_call(name, form, shape, dtype):
    if name in REDUCTIONS:
        return _of_reductions("dlref", name, form, shape, dtype)
    arguments, out = _arguments(name, shape, dtype)
    f = getattr(C, name if form == "map" else f"{name.removesuffix('_reflect')}_{form}", None)
    if f is None or form == "jvp":
        return None
    dout = () if form == "map" else (np.ones(out, dtype),)
    return lambda: f(*dout, *arguments, **OPTIONS.get(name, {}))


def numpy_call(name, form, shape, dtype):
    return _of_reductions("NumPy", name, form, shape, dtype) if name in REDUCTIONS else None


def jax_call(name, form, shape, dtype):
    return _of_reductions("JAX", name, form, shape, dtype) if name in REDUCTIONS else None


def _functions(torch):
    pad = torch.nn.functional.pad
    along = {name: getattr(torch, peer) for name, peer in SCANS.items()}
    return {name: partial(scan, dim=-1) for name, scan in along.items()} | {
        "clip": lambda x: x.clamp(-1.0, 1.0),
        "min": lambda x: x.amin(1),
        "take": lambda x, places: x.index_select(0, places),
        "scatter_add": lambda x, places, updates: x.index_add(0, places, updates),
        "concatenate": lambda x, w: torch.cat([x, w]),
        "pad": lambda x: pad(x, (2, 2, 2, 2)),
        "pad_reflect": lambda x: pad(x[None], (2, 2, 2, 2), mode="reflect")[0],
        "einsum": lambda x, w: torch.einsum(OPTIONS["einsum"]["subscripts"], x, w),
    }


def torch_call(name, form, shape, dtype):
    import torch  # noqa: PLC0415

    if name in REDUCTIONS:
        return _of_reductions("PyTorch", name, form, shape, dtype)
    if form == "jvp":
        return None
    torch.set_num_threads(2)
    f = _functions(torch).get(name) or getattr(torch, name)
    arguments, out = _arguments(name, shape, dtype)
    tensors = [torch.tensor(a) for a in arguments]
    if form == "map":
        return lambda: f(*tensors)
    moving = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    dout = torch.ones(out, dtype=moving[0].dtype)
    return lambda: torch.autograd.grad(f(*tensors), moving, dout)

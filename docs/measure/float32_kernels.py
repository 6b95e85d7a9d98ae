"""
Measure the errors of float32 kernels of PyTorch and JAX beside dlref's.

``tox run -e measure -- float32_kernels`` (two minutes).  The exact results are those of
dlref.formulas in float64 on the same float32 inputs, whose own error is a billionth of float32's.
The errors are normwise: max|y - exact| / max|exact|, and the same with root mean squares, in units
of the machine epsilon, 2^-23.  Each figure is the largest of the seeds, and of the operands for a
gradient.  JAX has no norms and no cross-entropy; they are composed as Flax and Optax do it, and
compiled.  Writes docs/results/float32_kernels.csv.
"""

import argparse
import csv
import importlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dlref.formulas import activations, attention, losses, normalization

RESULTS = Path(__file__).parents[1] / "results" / "float32_kernels.csv"
SEEDS = (0, 1, 2)
LIBRARIES = ("dlref", "PyTorch", "JAX")
HEADER = ["map", "of", "shape", "inputs", *(f"{a} {b}" for a in LIBRARIES for b in ("max", "RMS"))]
EPS = {"layer_norm": 1e-5, "rms_norm": 1e-6}


class Case(NamedTuple):
    """A map, the shape of its input, the spread and the mean of its numbers."""

    name: str
    shape: tuple[int, ...]
    spread: float = 1.0
    mean: float = 0.0

    def cells(self):
        words = f"spread {self.spread:g}" + (f", mean {self.mean:g}" if self.mean else "")
        whose = "queries of " if self.name == "scaled_dot_product_attention" else ""
        return [" x ".join(map(str, self.shape)), whose + words]


CASES = [
    *(Case("layer_norm", (64, n), mean=m) for m in (0.0, 100.0) for n in (128, 1024, 8192)),
    *(Case("rms_norm", (64, n)) for n in (128, 1024, 8192)),
    *(Case(name, (64, n), s) for name in ("softmax", "log_softmax")
      for n, s in ((128, 1.0), (32000, 1.0), (128, 10.0), (32000, 10.0))),
    *(Case("scaled_dot_product_attention", (2, n, 64), s)
      for n, s in ((128, 1.0), (2048, 1.0), (128, 3.0), (2048, 3.0))),
    *(Case("cross_entropy", (64, n), s)
      for n, s in ((1000, 1.0), (128256, 1.0), (1000, 10.0), (128256, 10.0))),
    *(Case(name, (64, 4096), s) for name in ("gelu", "gelu_tanh") for s in (1.0, 4.0)),
]  # fmt: skip


def drawn(case, seed):
    """Return the inputs with a gradient, the integers, and the upstream gradient."""
    rng = np.random.default_rng([seed, *case.shape])

    def normal(shape, spread=1.0, mean=0.0):
        return (mean + spread * rng.normal(size=shape)).astype(np.float32)

    x = normal(case.shape, case.spread, case.mean)
    rows, width = case.shape[0], case.shape[-1]
    if case.name == "cross_entropy":
        return (x,), (rng.integers(width, size=rows),), normal(rows)
    inputs = {
        "layer_norm": lambda: (x, normal(width, 0.2, 1.0), normal(width)),
        "rms_norm": lambda: (x, normal(width, 0.2, 1.0)),
        "scaled_dot_product_attention": lambda: (x, normal(case.shape), normal(case.shape)),
    }
    return inputs.get(case.name, lambda: (x,))(), (), normal(case.shape)


def options_of(name, norms):
    if name == "cross_entropy":
        return {"reduction": "none"}
    if name == "gelu_tanh":
        return {"approximate": "tanh"}
    return {"eps": EPS[name]} if norms and name in EPS else {}


def tuple_of(found):
    return found if isinstance(found, tuple) else (found,)


def by_module(modules, name, inputs, integers, dout):
    """Return value and gradients of the first module that has the map, dlref or its formulas."""
    stem = name.removesuffix("_tanh")
    module = next(each for each in modules if hasattr(each, stem))
    options = options_of(name, norms=True)
    value = getattr(module, stem)(*inputs, *integers, **options)
    grads = tuple_of(getattr(module, f"{stem}_vjp")(dout, *inputs, *integers, **options))
    return value, *grads[: len(inputs)]


def exact(name, inputs, integers, dout):
    wide = [x.astype(np.float64) for x in inputs]
    modules = (normalization, activations, attention, losses)
    return by_module(modules, name, wide, integers, dout.astype(np.float64))


def dlref(name, inputs, integers, dout):
    chapters = ("normalization", "activations", "attention", "losses")
    modules = [importlib.import_module(f"dlref.{chapter}") for chapter in chapters]
    return by_module(modules, name, inputs, integers, dout)


def of_torch(name, inputs, integers, dout):
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)  # the order of the sums does not depend on the machine's cores
    F = torch.nn.functional
    maps = {
        "layer_norm": lambda x, *rest: F.layer_norm(x, x.shape[-1:], *rest, eps=EPS[name]),
        "rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w, eps=EPS[name]),
        "softmax": lambda x: F.softmax(x, -1),
        "log_softmax": lambda x: F.log_softmax(x, -1),
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "cross_entropy": lambda x, target: F.cross_entropy(x, target, reduction="none"),
        # four axes, as models call it: the fused kernel takes no others
        "scaled_dot_product_attention": lambda *qkv: F.scaled_dot_product_attention(
            *(x[None] for x in qkv)
        )[0],
    }
    inputs = [torch.from_numpy(x).requires_grad_() for x in inputs]
    value = maps[name](*inputs, *map(torch.from_numpy, integers))
    grads = torch.autograd.grad(value, inputs, torch.from_numpy(dout))
    return [each.detach().numpy() for each in (value, *grads)]


def of_jax(name, inputs, integers, dout):
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415

    def layer_norm(x, w, b):
        return jax.nn.standardize(x, epsilon=EPS[name]) * w + b

    def rms_norm(x, w):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS[name]) * w

    def cross_entropy(x, target):
        return -jnp.take_along_axis(jax.nn.log_softmax(x), target[:, None], 1)[:, 0]

    def heads_last(x):
        return x.swapaxes(0, 1)[None]

    def attend(*qkv):
        return jax.nn.dot_product_attention(*map(heads_last, qkv))[0].swapaxes(0, 1)

    maps = {
        "layer_norm": layer_norm,
        "rms_norm": rms_norm,
        "softmax": jax.nn.softmax,
        "log_softmax": jax.nn.log_softmax,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu_tanh": jax.nn.gelu,
        "cross_entropy": cross_entropy,
        "scaled_dot_product_attention": attend,
    }

    @jax.jit
    def both(inputs, dout):
        value, back = jax.vjp(lambda *x: maps[name](*x, *integers), *inputs)
        return value, *back(dout)

    return [np.asarray(each) for each in both(inputs, dout)]


RUN = dict(zip(LIBRARIES, (dlref, of_torch, of_jax), strict=True))


def error(got, want):
    """Return the largest and the root mean square error, in units of float32's epsilon."""
    away = np.asarray(got, np.float64) - want
    worst = abs(away).max() / abs(want).max()
    mean = np.linalg.norm(away.ravel()) / np.linalg.norm(want.ravel())
    return np.array([worst, mean]) / np.finfo(np.float32).eps


def measured(case, libraries=LIBRARIES, seeds=SEEDS):
    """Return {library: errors}, with a row for the value and one for the worst gradient."""
    found = {library: np.zeros((2, 2)) for library in libraries}
    for seed in seeds:
        call = (case.name, *drawn(case, seed))
        want = exact(*call)
        for library in libraries:
            each = [error(*pair) for pair in zip(RUN[library](*call), want, strict=True)]
            one = [each[0], np.max(each[1:], axis=0)]
            found[library] = np.maximum(found[library], one)
    return found


def rows_of(case, libraries=LIBRARIES, seeds=SEEDS):
    """Return the two rows of a case: forward and gradient."""
    found = measured(case, libraries, seeds)
    return [
        [case.name, of, *case.cells(), *(f"{v:.2g}" for k in libraries for v in found[k][part])]
        for part, of in enumerate(("forward", "gradient"))
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    output = parser.parse_args().output
    with output.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        for case in CASES:
            for row in rows_of(case):
                writer.writerow(row)
                print(*row, flush=True)


if __name__ == "__main__":
    main()

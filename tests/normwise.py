"""
Measure errors of maps of many numbers, dlref's and PyTorch's: ``tox run -e accuracy``.

The error of a result is the largest of its elements' over the largest element, in units of the
machine epsilon, 2^-52 or 2^-23.  The exact result is that of the displayed formula
(naive.py) in numbers of 64 binary digits, and its gradient a complex step in the same.
Writes docs/results/normwise.csv.
"""

import argparse
import csv
import importlib
from pathlib import Path
from typing import Any, NamedTuple

import naive
import numpy as np

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "normwise.csv"
STEP = np.longdouble(10) ** -2000


class Map(NamedTuple):
    """A map: shapes of its operands, an offset of the first, what follows them, and its peer."""

    shapes: tuple
    torch: Any
    offset: float = 0.0
    fixed: tuple = ()
    options: dict = {}  # noqa: RUF012  # never changed


def functional(name):
    """Return a function of torch.nn.functional by its name; PyTorch is loaded when it is called."""

    def f(*operands, **options):
        import torch  # noqa: PLC0415

        return getattr(torch.nn.functional, name)(*operands, **options)

    return f


def tensor(array):
    import torch  # noqa: PLC0415

    return torch.tensor(array)


def recurrent(kind):
    """Return a layer of torch.nn as a function of its input and its weights."""

    def f(x, *operands):
        import torch  # noqa: PLC0415

        *states, w_ih, w_hh = operands
        layer = getattr(torch.nn, kind)(
            x.shape[2], w_hh.shape[1], batch_first=True, bias=False, dtype=x.dtype
        )
        weights = {"weight_ih_l0": w_ih, "weight_hh_l0": w_hh}
        states = [s[None] for s in states]
        h = tuple(states) if kind == "LSTM" else states[0]
        return torch.func.functional_call(layer, weights, (x, h))[0]

    return f


def attention(**options):
    def f(q, k, v):
        return functional("scaled_dot_product_attention")(q, k, v, **options)

    return f


def over_channels(name, *arguments):
    """Return a normalization of PyTorch, which has the channels second, for channels last."""

    def f(x, w, b):
        y = functional(name)(x.movedim(-1, 1).contiguous(), *arguments, w, b)
        return y.movedim(1, -1)

    return f


RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 40, 24)
SHARES = RNG.dirichlet(np.ones(40), 24)
HITS = (RNG.random((24, 40)) < 0.5) * 1.0
HEADS = ((2, 32, 16),) * 3
CELLS = ((2, 10, 4), (2, 5))


def layers(offset):
    """Return the normalizations of an input of that mean."""
    row = (24, 48), (48,), (48,)
    image = (3, 20, 12), (12,), (12,)
    return {
        "normalization.layer_norm": Map(
            row, lambda x, w, b: functional("layer_norm")(x, (48,), w, b), offset
        ),
        "normalization.rms_norm": Map(
            row[:2], lambda x, w: functional("rms_norm")(x, (48,), w, 1e-6), offset
        ),
        "normalization.batch_norm": Map(
            row,
            lambda x, w, b: functional("batch_norm")(x, None, None, w, b, training=True),
            offset,
        ),
        "normalization.instance_norm": Map(
            image, over_channels("instance_norm", None, None), offset
        ),
    }


MAPS = {  # by the name of the case, and where the map is
    ("", name): made
    for name, made in {
        "neurons.linear": Map(((12, 48), (10, 48), (10,)), functional("linear")),
        "losses.cross_entropy": Map(
            ((24, 40),),
            lambda z: functional("cross_entropy")(z, tensor(CLASSES)),
            fixed=(CLASSES,),
        ),
        "losses.binary_cross_entropy": Map(
            ((24, 40),),
            lambda z: functional("binary_cross_entropy_with_logits")(z, tensor(HITS).to(z.dtype)),
            fixed=(HITS,),
        ),
        "losses.kl_divergence": Map(
            ((24, 40),),
            lambda z: functional("kl_div")(z, tensor(SHARES).to(z.dtype), reduction="batchmean"),
            fixed=(SHARES,),
        ),
        "losses.squared_error": Map(((24, 40), (24, 40)), functional("mse_loss")),
        **layers(0.0),
        "recurrent.rnn": Map((*CELLS, (5, 4), (5, 5)), recurrent("RNN")),
        "recurrent.gru": Map((*CELLS, (15, 4), (15, 5)), recurrent("GRU")),
        "recurrent.lstm": Map((*CELLS, (2, 5), (20, 4), (20, 5)), recurrent("LSTM")),
        "attention.scaled_dot_product_attention": Map(HEADS, attention()),
    }.items()
}
MAPS |= {("mean 1e4", name): made for name, made in layers(1e4).items()}
MAPS["causal", "attention.scaled_dot_product_attention"] = Map(
    HEADS, attention(is_causal=True), options={"is_causal": True}
)


def first(value):
    """Return what PyTorch's layer returns: the states h, of (h, c)."""
    return value[0] if isinstance(value, tuple) else value


def exact(name, made, operands, dout):
    """Return the value and the gradients, in long doubles."""
    f = getattr(naive, name)
    wide = [a.astype(np.longdouble) for a in operands]

    def value(*arrays):
        return first(f(*arrays, *made.fixed, **made.options))

    def slope(k, index):
        moved = [a.astype(np.clongdouble) for a in wide]
        moved[k][index] += 1j * STEP
        return np.sum(dout * (np.imag(value(*moved)) / STEP))

    grads = [
        np.array([slope(k, index) for index in np.ndindex(a.shape)]).reshape(a.shape)
        for k, a in enumerate(wide)
    ]
    return [value(*wide), *grads]


def of_dlref(path, made, operands, dout):
    chapter, name = path.split(".")
    module = importlib.import_module(f"dlref.{chapter}")
    arguments = (*operands, *made.fixed)
    cotangent = (dout, None) if name == "lstm" else dout
    grads = getattr(module, f"{name}_vjp")(cotangent, *arguments, **made.options)
    grads = grads if isinstance(grads, tuple) else (grads,)
    value = first(getattr(module, name)(*arguments, **made.options))
    return [value, *grads[: len(operands)]]


def of_torch(_path, made, operands, dout):
    import torch  # noqa: PLC0415

    tensors = [torch.tensor(a, requires_grad=True) for a in operands]
    out = made.torch(*tensors)
    grads = torch.autograd.grad(out, tensors, torch.tensor(dout))
    return [out.detach().numpy(), *(g.numpy() for g in grads)]


def error(got, want, dtype):
    """Return the largest error over the largest element, in machine epsilons."""
    wide = np.asarray(got).astype(np.longdouble) - want
    return float(np.max(abs(wide)) / np.max(abs(want)) / np.finfo(dtype).eps)


def errors(case, path, dtype, *libraries):
    """Return the errors of the value and of the worst gradient, for each library."""
    made, name, rng = MAPS[case, path], path.split(".")[1], np.random.default_rng(1)
    operands = [rng.normal(size=shape) for shape in made.shapes]
    operands[0] += made.offset
    operands = [a.astype(dtype) for a in operands]
    fixed = tuple(a.astype(dtype) if a.dtype.kind == "f" else a for a in made.fixed)
    made = made._replace(fixed=fixed)
    value = first(getattr(naive, name)(*operands, *fixed, **made.options))
    dout = np.asarray(rng.normal(size=np.shape(value))).astype(dtype)
    want = exact(name, made, operands, dout)
    found = []
    for library in libraries:
        got = library(path, made, operands, dout)
        sizes = [error(*pair, dtype) for pair in zip(got, want, strict=True)]
        found += [sizes[0], max(sizes[1:])]
    return found


def rows():
    """Yield the cells of the table."""
    from tqdm import tqdm  # noqa: PLC0415  # the sample in the tests does without

    for case, path in tqdm(MAPS, unit="map"):
        name = path.split(".")[1]
        for dtype in (np.float32, np.float64):
            cells = [f"{e:.2g}" for e in errors(case, path, dtype, of_dlref, of_torch)]
            yield [f"{name} ({case})" if case else name, np.dtype(dtype).name, *cells]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=Path, default=RESULTS)
    output = parser.parse_args().output
    header = ["function", "dtype", "dlref", "dlref vjp", "PyTorch", "PyTorch vjp"]
    table = list(rows())
    with output.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *sorted(table)])
    print(f"wrote {output}")


if __name__ == "__main__":
    main()

"""
PyTorch as an oracle: values and gradients by its automatic differentiation, in float64.

A test that uses it is skipped where PyTorch is not installed.
"""

import sys
from operator import attrgetter

import numpy as np
import pytest

import dlref


def __getattr__(name):
    if name == "torch":
        fresh = "torch" not in sys.modules
        torch = pytest.importorskip("torch", reason="see the dependency group 'peers'")
        if fresh:  # the fixture that seeds it has run already
            torch.manual_seed(0)
        return torch
    raise AttributeError(name)


def _tensor(array, **options):
    torch = __getattr__("torch")
    return torch.tensor(np.asarray(array, np.float64), **options)


def _each(value):
    """Return the outputs of a function, one or several, as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def value_and_vjp(f, *inputs, dout=None):
    """Return f(*inputs) and the gradient with respect to each input, as NumPy arrays."""
    tensors = [_tensor(x, requires_grad=True) for x in inputs]
    torch = __getattr__("torch")
    out = f(*tensors)
    seeds = map(torch.ones_like, _each(out)) if dout is None else map(_tensor, _each(dout))
    grads = torch.autograd.grad(_each(out), tensors, [*seeds], allow_unused=True)
    zeros = (torch.zeros_like(t) if g is None else g for g, t in zip(grads, tensors, strict=True))
    values = tuple(value.detach().numpy() for value in _each(out))
    return values if isinstance(out, tuple) else values[0], tuple(g.numpy() for g in zeros)


def jvp(f, primals, tangents):
    """Return the directional derivative of f, as NumPy arrays."""
    primals, tangents = (tuple(map(_tensor, arrays)) for arrays in (primals, tangents))
    pushed = __getattr__("torch").func.jvp(f, primals, tangents)[1]
    arrays = tuple(tangent.numpy() for tangent in _each(pushed))
    return arrays if isinstance(pushed, tuple) else arrays[0]


def jacobians(f, *inputs):
    """Return the dense Jacobian of f with respect to each input, as NumPy arrays."""
    jacobian = __getattr__("torch").autograd.functional.jacobian
    return tuple(j.numpy() for j in jacobian(f, tuple(map(_tensor, inputs))))


def assert_same(name, f, *inputs, rng, tolerance=4e-15, constants=(), **options):
    """
    Compare a map of dlref, its vjp and its jvp with a function of PyTorch.

    The map is given as chapter.name, and takes the constants after the inputs. Errors are relative
    to the largest number of an array.
    """
    pull, push = (attrgetter(name + form)(dlref) for form in ("_vjp", "_jvp"))
    primals = *inputs, *constants
    value, _ = value_and_vjp(f, *inputs)
    dout = tuple(rng.normal(size=part.shape) for part in _each(value))
    dout = dout if isinstance(value, tuple) else dout[0]
    moves = [rng.normal(size=np.shape(a)) for a in inputs]
    tangents = *moves, *(None for _ in constants)
    along = (primals, tangents) if len(primals) > 1 else (*primals, *tangents)
    got = [*_each(pull(dout, *primals, **options)), *_each(push(*along, **options))]
    want = [*value_and_vjp(f, *inputs, dout=dout)[1], *_each(jvp(f, inputs, moves))]
    chapter, _, own = name.partition(".")
    if own in getattr(dlref, chapter).__all__:  # not where NumPy has the map
        got = [*_each(attrgetter(name)(dlref)(*primals, **options)), *got]
        want = [*_each(value), *want]
    for ours, theirs in zip(got, want, strict=True):
        assert np.shape(ours) == theirs.shape
        size = np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * size)

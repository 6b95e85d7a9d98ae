"""
The same functions in other libraries, under dlref's names: for accuracy.py and bench.py.

Each library is imported only in the process that measures it.
"""

import functools
import importlib

import numpy as np

DERIVATIVE = "_deriv"


class Library:
    """A library's functions on NumPy arrays, and its derivatives by its own means."""

    functions: dict

    def has(self, name):
        return name.removesuffix(DERIVATIVE) in self.functions

    def evaluate(self, name, x):
        """Return f(x), or f'(x) for a name that ends in _deriv, as a NumPy array."""
        f = self.functions[name.removesuffix(DERIVATIVE)]
        return self.derivative(f, x) if name.endswith(DERIVATIVE) else self.value(f, x)


class Dlref(Library):
    name = "dlref"

    def has(self, _name):
        return True

    def evaluate(self, name, x):
        chapter = importlib.import_module("dlref.activations")
        stem, tanh, deriv = name.partition("_tanh") if name.startswith("gelu") else (name, "", "")
        return getattr(chapter, stem + deriv)(x, **({"approximate": "tanh"} if tanh else {}))


class Torch(Library):
    name = "PyTorch"

    def __init__(self):
        import torch  # noqa: PLC0415

        self.torch = torch
        F = torch.nn.functional
        self.functions = {
            "sigmoid": torch.sigmoid,
            "log_sigmoid": F.logsigmoid,
            "softplus": F.softplus,
            "tanh": torch.tanh,
            "tanhshrink": F.tanhshrink,
            "softsign": F.softsign,
            "elu": F.elu,
            "selu": F.selu,
            "celu": F.celu,
            "silu": F.silu,
            "mish": F.mish,
            "gelu": F.gelu,
            "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
            "relu": torch.relu,
            "leaky_relu": F.leaky_relu,
            "hard_sigmoid": F.hardsigmoid,
            "hard_swish": F.hardswish,
            "softmax": functools.partial(torch.softmax, dim=-1),
            "log_softmax": functools.partial(torch.log_softmax, dim=-1),
            "logsumexp": functools.partial(torch.logsumexp, dim=-1),
        }

    def value(self, f, x):
        return f(self.torch.tensor(x)).numpy()

    def derivative(self, f, x):
        t = self.torch.tensor(x, requires_grad=True)
        return self.torch.autograd.grad(f(t).sum(), t)[0].numpy()


class Jax(Library):
    name = "JAX"

    def __init__(self):
        import jax  # noqa: PLC0415

        jax.config.update("jax_enable_x64", val=True)
        self.jax = jax
        nn = jax.nn
        self.functions = {
            "sigmoid": nn.sigmoid,
            "log_sigmoid": nn.log_sigmoid,
            "softplus": nn.softplus,
            "tanh": jax.numpy.tanh,
            "softsign": nn.soft_sign,
            "elu": nn.elu,
            "selu": nn.selu,
            "celu": nn.celu,
            "silu": nn.silu,
            "mish": nn.mish,
            "gelu": functools.partial(nn.gelu, approximate=False),
            "gelu_tanh": functools.partial(nn.gelu, approximate=True),
            "relu": nn.relu,
            "leaky_relu": nn.leaky_relu,
            "hard_sigmoid": nn.hard_sigmoid,
            "hard_swish": nn.hard_swish,
            "softmax": nn.softmax,
            "log_softmax": nn.log_softmax,
            "logsumexp": functools.partial(nn.logsumexp, axis=-1),
        }

    def value(self, f, x):
        return np.asarray(self.jax.jit(f)(x))

    def derivative(self, f, x):
        return np.asarray(self.jax.jit(self.jax.vmap(self.jax.grad(f)))(x))


class Scipy(Library):
    name = "SciPy"

    def __init__(self):
        import scipy.special  # noqa: PLC0415

        self.functions = {
            "sigmoid": scipy.special.expit,
            "log_sigmoid": scipy.special.log_expit,
            "tanh": np.tanh,
            "softmax": functools.partial(scipy.special.softmax, axis=-1),
            "log_softmax": functools.partial(scipy.special.log_softmax, axis=-1),
            "logsumexp": functools.partial(scipy.special.logsumexp, axis=-1),
        }

    def has(self, name):
        return name in self.functions

    def value(self, f, x):
        return f(x)


LIBRARIES = (Dlref, Torch, Jax, Scipy)

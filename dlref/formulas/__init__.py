"""
Every formula of the reference, in NumPy, as a person would write it.

One module a chapter. A formula has the name, the signature and all options of the public function
that it defines: ``dlref.formulas.activations.softmax`` is the definition,
``dlref.activations.softmax`` the compiled function. Backward passes end in ``_vjp``.

>>> import numpy as np
>>> from dlref.formulas.activations import softmax, softmax_vjp
>>> x = np.log([1.0, 1.0, 2.0])
>>> softmax(x)
array([0.25, 0.25, 0.5 ])
>>> softmax_vjp(np.array([1.0, 0.0, 0.0]), x)
array([ 0.1875, -0.0625, -0.125 ])

The formulas check no arguments, and compute in the dtype of their inputs. Functions of real numbers
accept complex ones, so that a complex step differentiates them to the last digit. Nothing here
imports the rest of dlref: whatever is compared with a formula is compared with something else.
"""

__all__ = [
    "activations",
    "attention",
    "calculus",
    "convolution",
    "losses",
    "neurons",
    "normalization",
    "positions",
    "propagation",
    "quantization",
    "recurrent",
    "training",
    "transformer",
]


def __getattr__(name: str) -> object:
    """Import a chapter when it is first used."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    import importlib  # noqa: PLC0415

    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    """List the chapters."""
    return __all__

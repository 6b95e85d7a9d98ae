"""Inline relations that state results and need vectors, derivatives or a context: each is checked.

A check names the file where its relations stand, and yields each text with the values of its sides.
The checks of a chapter stand in the module of its name.
"""

import importlib
import pkgutil

import numpy as np
from equations import ledger
from equations.numeric import complex_step

STATED = {}


class Near(float):
    """How far values may be from each other: rounded numbers, quadratures, differences."""


#: Marks a function as the check of inline relations of a file.
stated = ledger.kept_in(STATED)


def draw(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def slope(f, x):
    return complex_step(f, x)


def inner(jvp, vjp, primals, seed=50, **options):
    """Return both sides of the change of a loss: with the tangent, and with the gradients."""
    single = not isinstance(primals, tuple)
    points = (primals,) if single else primals
    rng = np.random.default_rng(seed)
    tangents = [rng.normal(size=np.shape(p)) for p in points]
    dy = (
        jvp(points[0], tangents[0], **options)
        if single
        else jvp(points, tuple(tangents), **options)
    )
    u = rng.normal(size=np.shape(dy))
    grads = vjp(u, *points, **options)
    grads = (grads,) if single else grads
    return np.vdot(u, dy), sum(np.vdot(g, v) for g, v in zip(grads, tangents, strict=True))


for _, _chapter, _ in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_chapter}")

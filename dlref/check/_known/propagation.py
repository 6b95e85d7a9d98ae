"""Gradients through depth, and initializations."""

from __future__ import annotations

from ... import propagation as p
from .._oracle.causes import initializations as mistakes
from ._record import NOT_ARRAYS, RANDOM, Known, call, record, without

RECORDS = [
    record(
        p.gradient_magnitude,
        call((5,), 3), call((), 1), call((2, 3), 2, activation_slope=-0.5), call((0, 3), 2),
        constant=(1,), batched=False,
    ),
    *(
        Known(f=f, why_not=RANDOM, mistakes=(mistakes.variances,))
        for f in (p.glorot_normal, p.he_normal, p.lecun_normal)
    ),
    *(
        Known(f=f, why_not=RANDOM, mistakes=(mistakes.variances, mistakes.bounds))
        for f in (p.glorot_uniform, p.he_uniform)
    ),
    Known(f=p.orthogonal, why_not=RANDOM, mistakes=(mistakes.signs_of_columns,)),
    *without(RANDOM, p.signal_propagation),
    *without(NOT_ARRAYS, p.critical_gain),
]  # fmt: skip

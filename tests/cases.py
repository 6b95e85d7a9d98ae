"""
Sample inputs of every public function: what tests/test_contract.py walks through.

How a map is called stands in its record, dlref/_records/<chapter>.py, and serves all its forms
(map, map_vjp, ...). Here is what only tests need: drawn shapes, sharper tolerances. The formula of
the same name in dlref.formulas says what must come out.
"""

import contextlib
import importlib
import inspect
import warnings
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np
from chapters import CHAPTERS
from complex_step import complex_step
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from selection import is_selected

import dlref
from dlref._records import records
from dlref._records._spec import Sample
from dlref._records.recurrent import scan
from dlref._records.recurrent import shapes as recurrent_shapes

FORMULAS = Path(dlref.__file__).parent / "formulas"
SUFFIXES = ("jacobian", "hessian", "grad", "deriv2", "deriv", "vjp", "jvp")


def shapes(*args, **kwargs):
    """Strategy: calls with these shapes and no options."""
    return st.tuples(*args, **kwargs).map(Sample)


SIDES = {"min_side": 0, "max_side": 4}
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, **SIDES)
BATCHES = hnp.array_shapes(min_dims=0, max_dims=2, **SIDES)
SOME = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
DOCUMENTS = st.none() | st.lists(st.integers(0, 1), min_size=7, max_size=7)
PAIRS = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, **SIDES).map(
    lambda drawn: Sample(drawn.input_shapes)
)
REDUCTIONS = st.sampled_from(["mean", "sum", "none"])


def batch_of(*cores):
    """Strategy: inputs with common batch axes before their own, named, axes."""
    names = sorted({name for core in cores for name in core})

    @st.composite
    def draw(pick):
        batch = pick(BATCHES)
        side = {name: pick(st.integers(1, 4)) for name in names}
        return Sample(tuple(batch + tuple(side[name] for name in core) for core in cores))

    return draw()


@st.composite
def scans(draw):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, **SIDES))
    options = {"axis": draw(st.integers(-len(shape), len(shape) - 1))}
    options |= {name: draw(st.booleans()) for name in ("reverse", "exclusive")}
    return Sample((shape,), options)


@st.composite
def taken(draw, updates=False):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
    axis = draw(st.integers(0, len(shape) - 1))
    square = (
        *shape[:axis],
        shape[0],
        *shape[axis + 1 :],
    )  # places are drawn below the first length
    indices = draw(SHAPES)
    added = (*square[:axis], *indices, *square[axis + 1 :])
    return Sample((square, indices, *([added] if updates else [])), {"axis": axis})


@st.composite
def concatenated(draw):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, **SIDES))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    lengths = draw(st.lists(st.integers(0, 4), min_size=2, max_size=4))
    place = axis % len(shape)
    return Sample(tuple((*shape[:place], n, *shape[place + 1 :]) for n in lengths), {"axis": axis})


@st.composite
def padded(draw):
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4))
    width = st.tuples(st.integers(0, 5), st.integers(0, 5))
    modes = ["constant", "edge", "reflect", "symmetric", "wrap"]
    options = {"pad_width": tuple(draw(width) for _ in shape) or 0}
    return Sample((shape,), options | {"mode": draw(st.sampled_from(modes))})


@st.composite
def sums_of_products(draw):
    length = {letter: draw(st.integers(0, 3)) for letter in "ijk"}
    terms = draw(st.lists(st.text("ijk", max_size=3), min_size=1, max_size=3))
    known = sorted({*"".join(terms)})
    out = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
    arrow = draw(st.sampled_from(["", "->" + "".join(out)]))
    shapes = (tuple(length[letter] for letter in term) for term in terms)
    return Sample(tuple(shapes), {"subscripts": ",".join(terms) + arrow})


@st.composite
def reductions(draw, min_side=0):
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=min_side, max_side=4))
    axes = hnp.valid_tuple_axes(len(shape)) | st.none()
    if shape:
        axes |= st.integers(-len(shape), len(shape) - 1)
    return Sample((shape,), {"axis": draw(axes), "keepdims": draw(st.booleans())})


def of_two(shape_strategy):
    return st.builds(
        lambda shape, reduction: Sample((shape, shape), {"reduction": reduction}),
        shape_strategy,
        REDUCTIONS,
    )


@st.composite
def scored_rows(draw, probabilities=True, **options):
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=4))
    of_classes = not probabilities or draw(st.booleans())
    count = draw(st.integers(3, 11))
    target = batch if of_classes else (*batch, count)
    drawn = {name: draw(values) for name, values in options.items()}
    return Sample(((*batch, count), target), drawn)


@st.composite
def tokens_of_a_policy(draw):
    G, T = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    options = {
        "kind": draw(st.sampled_from(["ppo", "grpo", "dr_grpo", "gspo", "cispo"])),
        "clip": draw(st.sampled_from([0.1, 0.2])),
        "clip_high": draw(st.sampled_from([None, 0.3])),
    }
    if draw(st.booleans()):
        options["mask"] = np.arange(T) <= np.arange(G)[:, None]
    return Sample(((G, T), (G, T), (G, draw(st.sampled_from([1, T])))), options)


def packed(numbers, batch, T):
    """Return segment ids that differ from row to row, or no option if there are no numbers."""
    return {} if numbers is None else {"segment_ids": np.resize(numbers, (*batch, T))}


@st.composite
def unaligned_texts(draw):
    batch = draw(st.sampled_from([(), (1,), (2,), (2, 1)]))
    S, C = draw(st.integers(0, 2)), draw(st.integers(2, 3))
    T = draw(st.integers(max(1, 2 * S), 4))
    options = {"reduction": draw(REDUCTIONS)}
    if draw(st.booleans()):
        options["lengths"] = np.full(batch, max(1, T - 1 if S < 2 else T))
    if draw(st.booleans()):
        options["target_lengths"] = np.full(batch, max(0, S - 1))
    return Sample(((*batch, T, C), (*batch, S)), options)


@st.composite
def rounded_arrays(draw):
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    ones = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    scale = tuple(1 if one else n for one, n in zip(ones, shape, strict=True))
    scale = scale[draw(st.sampled_from([0, *[k for k in (1, 2) if k <= len(shape)]])) :]
    bits = draw(st.sampled_from([2, 3, 8]))
    return Sample((shape, scale, draw(st.sampled_from([0, 1, -2]))), {"bits": bits})


@st.composite
def layers(draw):
    batch = draw(BATCHES)
    n_in, n_out = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    bias = (n_out,) if draw(st.booleans()) else None
    return Sample(((*batch, n_in), (n_out, n_in), bias))


NEURON = batch_of("", "d").map(
    lambda call: Sample((call.shapes[0] + call.shapes[1][-1:], call.shapes[1][-1:], ()))
)


def optional(draw, shape):
    return shape if draw(st.booleans()) else None


@st.composite
def normalized_rows(draw, bias=True, min_dims=1):
    # at least 3 wide: of 2 numbers only the sign of their difference is left
    shape = draw(hnp.array_shapes(min_dims=min_dims, max_dims=3, min_side=3, max_side=6))
    rest = [optional(draw, shape[-1:]) for _ in range(1 + bias)]
    return Sample((shape, *rest), {"eps": draw(st.sampled_from([1e-5, 0.5]))})


@st.composite
def normalized_samples(draw, grouped=False):
    samples, positions = draw(st.integers(1, 3)), draw(st.integers(3, 5))
    groups, size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = (samples, positions, groups * size)
    rest = [optional(draw, shape[-1:]) for _ in range(2)]
    count = [groups] if grouped else []
    return Sample((shape, *count, *rest), {"eps": draw(st.sampled_from([1e-5, 0.5]))})


@st.composite
def rotated_rows(draw, **more):
    batch, rows = draw(BATCHES), draw(st.integers(0, 4))
    pairs, rest = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    options = {"interleaved": draw(st.booleans()), "rotary_dim": 2 * pairs}
    options |= draw(st.fixed_dictionaries(more))
    table = ((*batch, rows) if draw(st.booleans()) else (rows,)) + (pairs,)
    return Sample(((*batch, rows, 2 * pairs + rest), table, table), options)


def grids(*shapes_of, **options):
    """Strategy: calls for T queries and S keys, from functions of (T, S)."""
    return st.builds(
        lambda T, S, values: Sample(
            tuple(shape(T, S) for shape in shapes_of), {"T": T, "S": S, **values}
        ),
        st.integers(1, 5),
        st.integers(1, 5),
        st.fixed_dictionaries(options),
    )


@st.composite
def attentions(draw, values=True):
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=1, **SIDES))
    shared, group = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    T, S, E, V = (draw(st.integers(n, 4)) for n in (0, 1, 1, 1))
    options = {
        "is_causal": draw(st.booleans()),
        "q_offset": draw(st.integers(0, 3)),
        "window": draw(st.sampled_from([None, (2, None), (1, 1)])),
        "scale": draw(st.sampled_from([None, 0.5])),
        "softcap": draw(st.sampled_from([None, 2.0])),
        "mask": draw(st.sampled_from([None, np.ones((T, 1), bool), np.arange(S) != 1])),
    }
    shapes = [(*batch, group * shared, T, E), (*batch, shared, S, E), (*batch, shared, S, V)]
    return Sample(tuple(shapes[: 2 + values]), options)


def recurrent(gates, states, *, cell=False, least=0):
    """Strategy: calls of a cell or a sequence."""
    return st.builds(
        lambda batch, T, D, H, given, extra, ids: Sample(
            recurrent_shapes(gates, states, batch, T, D, H, given, cell),
            {**extra, **packed(ids, batch, T)},
        ),
        hnp.array_shapes(min_dims=0, max_dims=2, max_side=2, min_side=0),
        st.integers(least, 3),
        st.integers(0, 3),
        st.integers(1, 3),
        st.tuples(*3 * [st.booleans()]),
        st.fixed_dictionaries({} if cell or least else {"reverse": st.booleans()}),
        st.none() if cell or least else DOCUMENTS,
    )


@st.composite
def convolutions(draw):
    axes, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    C, O = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    one = lambda low, high: draw(st.tuples(*axes * [st.integers(low, high)]))  # noqa: E731
    K, s, p, d = one(1, 3), one(1, 3), one(0, 2), one(1, 3)
    least = [max(0, d[i] * (K[i] - 1) + 1 - 2 * p[i]) for i in range(axes)]
    space = [n + more for n, more in zip(least, one(0, 3), strict=True)]
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=1, min_side=0, max_side=2))
    space = [max(1, n) for n in space]
    mode = draw(st.sampled_from(["zeros", "circular"]))
    options = {"stride": s, "padding": p, "dilation": d, "groups": groups, "padding_mode": mode}
    bias = optional(draw, (O,))
    return Sample(((*batch, C, *space), (O, C // groups, *K), bias), options)


@st.composite
def transposed_convolutions(draw):
    axes, groups = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    C, O = groups * draw(st.integers(1, 2)), draw(st.integers(1, 2))
    one = lambda low, high: draw(st.tuples(*axes * [st.integers(low, high)]))  # noqa: E731
    K, s, d = one(1, 3), one(1, 3), one(1, 3)
    q = tuple(draw(st.integers(0, max(pair) - 1)) for pair in zip(s, d, strict=True))
    space = one(1, 3)
    whole = [(space[i] - 1) * s[i] + d[i] * (K[i] - 1) + 1 + q[i] for i in range(axes)]
    p = tuple(draw(st.integers(0, min(2, (n - 1) // 2))) for n in whole)
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=1, min_side=0, max_side=2))
    options = {"stride": s, "padding": p, "output_padding": q, "dilation": d, "groups": groups}
    bias = optional(draw, (O * groups,))
    return Sample(((*batch, C, *space), (C, O, *K), bias), options)


@st.composite
def pools(draw):
    axes = draw(st.integers(1, 3))
    one = lambda low, high: draw(st.tuples(*axes * [st.integers(low, high)]))  # noqa: E731
    size = one(1, 4)
    padding = tuple(draw(st.integers(0, n // 2)) for n in size)
    stride = draw(st.none() | st.tuples(*axes * [st.integers(1, 3)]))
    least = [max(1, n - 2 * p) for n, p in zip(size, padding, strict=True)]
    space = [n + more for n, more in zip(least, one(0, 3), strict=True)]
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=2))
    options = {"size": size, "stride": stride, "padding": padding}
    return Sample(((*batch, *space),), {**options, "ceil_mode": draw(st.booleans())})


@st.composite
def resized(draw, record):
    """Draw a call of a record with other lengths, of which those that are equal stay equal."""
    call = draw(st.sampled_from(record.full))
    options = dict(call.options)
    if "reduction" in inspect.signature(record.functions[-1]).parameters:
        options["reduction"] = draw(REDUCTIONS)
    if any(np.ndim(value) for value in options.values()):
        return Sample(call.shapes, options)  # an array has the length that it has
    given = [shape for shape in call.shapes if isinstance(shape, tuple)]
    lengths = {n: draw(st.integers(1, 5)) for n in sorted({n for s in given for n in s if n > 1})}
    batch = draw(BATCHES) if record.batched else ()
    shapes = (
        (*batch, *(lengths.get(n, n) for n in shape)) if isinstance(shape, tuple) else shape
        for shape in call.shapes
    )
    return Sample(tuple(shapes), options)


OFFSETS = st.integers(0, 30)
#: How calls are drawn: of a family of maps, or of one whose lengths depend on each other or on
#: options. The others are drawn as `resized` calls of their records.
STRATEGIES = {
    "pairs": PAIRS,
    "elements": shapes(SHAPES),
    "rows": shapes(SOME),
    "rows of several": shapes(hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=4)),
    "reductions": reductions(),
    "scans": scans(),
    "reductions of something": reductions(1),
    "losses": of_two(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)),
    "angles": shapes(SHAPES, st.tuples(st.integers(0, 4))),
    "weights": shapes(hnp.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=4)),
    "states": recurrent(1, 1, least=1),
    **{
        f"{kind} {gates} {states}": recurrent(gates, states, cell=kind == "cells")
        for kind in ("cells", "sequences")
        for gates, states in ((1, 1), (3, 1), (4, 2))
    },
    "calculus.scatter_add": taken(updates=True),
    "calculus.take": taken(),
    "calculus.where": hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, **SIDES).map(
        lambda drawn: Sample(drawn.input_shapes)
    ),
    "calculus.concatenate": concatenated(),
    "calculus.pad": padded(),
    "calculus.einsum": sums_of_products(),
    "calculus.scaled_sum": shapes(SHAPES, st.sampled_from([(), (1,), (1, 1)])),
    "calculus.matmul": hnp.mutually_broadcastable_shapes(
        signature="(n?,k),(k,p?)->(n?,p?)", max_dims=2, **SIDES
    ).map(lambda drawn: Sample(drawn.input_shapes)),
    "calculus.chain_rule": batch_of("mn", "nk", "kp"),
    "activations.prelu": batch_of("d", "d"),
    "neurons.neuron": NEURON,
    "neurons.neuron_grad": NEURON,
    "neurons.linear": layers(),
    "neurons.embedding": st.builds(
        lambda N, D, shape, padded: Sample(
            ((N, D), shape), {"scale": 1.5} | ({"padding_id": N - 1} if padded else {})
        ),
        *2 * [st.integers(1, 4)],
        SHAPES,
        st.booleans(),
    ),
    "neurons.dropout": SHAPES.map(lambda shape: Sample((shape, shape))),
    "neurons.lora_linear": st.builds(
        lambda batch, n, m, r, bias: Sample(
            ((*batch, n), (m, n), (r, n), (m, r), (m,) if bias else None), {"scale": 0.5}
        ),
        BATCHES,
        *3 * [st.integers(0, 4)],
        st.booleans(),
    ),
    "quantization.fake_quantize": rounded_arrays(),
    "losses.gaussian_kl": of_two(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)),
    "losses.distillation_loss": st.builds(
        lambda call, T, kind: Sample(call.shapes, {**call.options, "temperature": T, "kind": kind}),
        of_two(hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=4)),
        st.sampled_from([0.5, 1.0, 3.0]),
        st.sampled_from(["kl", "reverse", "jsd"]),
    ),
    "losses.info_nce": st.builds(
        lambda batch, N, reduction, both: Sample(
            ((*batch, N, N),), {"reduction": reduction, "symmetric": both}
        ),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3),
        st.integers(2, 4),
        REDUCTIONS,
        st.booleans(),
    ),
    "losses.dpo_loss": st.builds(
        lambda batch, reduction, e: Sample(
            2 * ((2, *batch),), {"reduction": reduction, "label_smoothing": e}
        ),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=4),
        REDUCTIONS,
        st.sampled_from([0.0, 0.25]),
    ),
    "losses.orpo_loss": st.builds(
        lambda batch, reduction, beta: Sample(
            ((2, *batch),), {"reduction": reduction, "beta": beta}
        ),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=4),
        REDUCTIONS,
        st.sampled_from([0.0, 0.5]),
    ),
    "losses.policy_loss": tokens_of_a_policy(),
    "losses.ctc_loss": unaligned_texts(),
    "losses.cross_entropy": scored_rows(
        reduction=REDUCTIONS,
        label_smoothing=st.sampled_from([0.0, 0.25]),
        z_loss=st.sampled_from([0.0, 0.5]),
        ignore_index=st.sampled_from([-100, 99]),
    ),
    "losses.cross_entropy_value_and_grad": scored_rows(reduction=st.sampled_from(["mean", "sum"])),
    "convolution.conv": convolutions(),
    "convolution.conv_transpose": transposed_convolutions(),
    "convolution.max_pool": pools(),
    "convolution.mean_pool": pools(),
    "convolution.interpolate": st.integers(1, 3).flatmap(
        lambda axes: st.builds(
            lambda batch, space, size, aligned: Sample(
                ((*batch, *space),), {"size": size, "align_corners": aligned}
            ),
            hnp.array_shapes(min_dims=0, max_dims=1, max_side=2),
            st.tuples(*axes * [st.integers(1, 4)]),
            st.tuples(*axes * [st.integers(1, 6)]),
            st.booleans(),
        )
    ),
    "convolution.causal_conv": st.builds(
        lambda batch, T, D, K, bias, state, ids: Sample(
            (
                (*batch, T, D),
                (D, K),
                (D,) if bias else None,
                (*batch, K - 1, D) if state else None,
            ),
            packed(ids, batch, T),
        ),
        BATCHES,
        st.integers(0, 5),
        st.integers(0, 3),
        st.integers(1, 4),
        *2 * [st.booleans()],
        DOCUMENTS,
    ),
    "losses.linear_cross_entropy": st.builds(
        lambda batch, D, C, bias, chunk, reduction, smoothing: Sample(
            ((*batch, D), (C, D), batch, (C,) if bias else None),
            {"chunk": chunk, "reduction": reduction, "label_smoothing": smoothing},
        ),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3),
        st.integers(1, 4),
        st.integers(3, 5),
        st.booleans(),
        st.sampled_from([None, 1, 2]),
        REDUCTIONS,
        st.sampled_from([0.0, 0.25]),
    ),
    "losses.kl_divergence": of_two(SOME),
    "losses.neuron_squared_error": st.builds(
        lambda n, d: Sample(((n, d), (n,), (d,), ())), st.integers(1, 5), st.integers(0, 4)
    ),
    "propagation.gradient_magnitude": SHAPES.map(lambda shape: Sample((shape, 2))),
    "normalization.layer_norm": normalized_rows(),
    "normalization.rms_norm": normalized_rows(bias=False),
    "normalization.l2_norm": normalized_rows(bias=False).map(
        lambda call: Sample(call.shapes[:1], call.options)
    ),
    "normalization.weight_norm": st.builds(
        lambda before, n, after, last: Sample(
            ((*before, n, *after, last), (n,)), {"axis": len(before)}
        ),
        hnp.array_shapes(min_dims=0, max_dims=1, max_side=3),
        st.integers(1, 4),
        hnp.array_shapes(min_dims=0, max_dims=1, max_side=3),
        st.integers(2, 4),  # a row of one number has no direction but its sign
    ),
    "normalization.batch_norm": normalized_rows(min_dims=2),
    "normalization.batch_norm_inference": normalized_rows().map(
        lambda call: Sample((call.shapes[0], *2 * [call.shapes[0][-1:]], *call.shapes[1:]))
    ),
    "normalization.batch_norm_update": SHAPES.map(
        lambda shape: Sample((shape, shape), {"momentum": 0.1})
    ),
    "normalization.group_norm": normalized_samples(grouped=True),
    "normalization.instance_norm": normalized_samples(),
    "positions.apply_rope": rotated_rows(rotary_last=st.booleans()),
    "positions.apply_xpos": rotated_rows().map(
        lambda call: Sample((*call.shapes, call.shapes[1]), {**call.options, "inverse": True})
    ),
    "positions.apply_rope_axial": st.builds(
        lambda batch, n, axes, pairs, interleaved: Sample(
            ((*batch, n, 2 * axes * pairs), *2 * [(n, axes, pairs)]), {"interleaved": interleaved}
        ),
        BATCHES,
        *3 * [st.integers(1, 3)],
        st.booleans(),
    ),
    "positions.alibi_bias": st.builds(
        lambda shape, T, S, offset, symmetric: Sample(
            (shape,), {"T": T, "S": S, "q_offset": offset, "symmetric": symmetric}
        ),
        SHAPES,
        *3 * [st.integers(0, 4)],
        st.booleans(),
    ),
    "positions.learned_positions": st.builds(
        lambda count, width, shape: Sample(((count, width), shape)),
        st.integers(3, 5),
        st.integers(0, 4),
        SHAPES,
    ),
    "positions.relative_bias": grids(lambda T, S: (2, T + S - 1)),
    "positions.t5_bias": grids(
        lambda _T, _S: (8, 2),
        bidirectional=st.booleans(),
        q_offset=OFFSETS,
        max_distance=st.sampled_from([5, 16]),
    ),
    "positions.shaw_scores": st.builds(
        lambda batch, T, E, K: Sample(((*batch, T, E), (2 * K + 1, E))),
        BATCHES,
        *3 * [st.integers(0, 4)],
    ),
    "positions.transformer_xl_scores": st.builds(
        lambda batch, T, S, E: Sample(((*batch, T, E), (*batch, S, E), (T + S - 1, E), (E,), (E,))),
        BATCHES,
        *3 * [st.integers(1, 4)],
    ),
    "positions.timestep_embedding": st.builds(
        lambda shape, pairs, first: Sample((shape,), {"dim": 2 * pairs, "cosine_first": first}),
        SHAPES,
        st.integers(1, 4),
        st.booleans(),
    ),
    "positions.fourier_features": st.builds(
        lambda batch, D, M: Sample(((*batch, D), (M, D))), BATCHES, *2 * [st.integers(1, 4)]
    ),
    "positions.xpos_scales": st.builds(
        lambda shape, pairs: Sample((shape,), {"dim": 2 * pairs}), SHAPES, st.integers(1, 4)
    ),
    "positions.kerple_bias": grids(
        *2 * [lambda _T, _S: (2,)],
        q_offset=OFFSETS,
        kind=st.sampled_from(["log", "power"]),
        symmetric=st.booleans(),
    ),
    "positions.fire_bias": grids(
        *2 * [lambda _T, _S: (3,)],
        lambda _T, _S: (2, 3),
        lambda _T, _S: (2,),
        *2 * [lambda _T, _S: ()],
        q_offset=OFFSETS,
    ),
    "positions.cope": st.builds(
        lambda batch, T, S, E, P: Sample(((*batch, T, E), (*batch, T, S), (P, E))),
        BATCHES,
        *4 * [st.integers(1, 4)],
    ),
    "positions.disentangled_scores": st.builds(
        lambda batch, H, T, S, E, half, c2p, p2c: Sample(
            ((*batch, H, T, E), (*batch, H, S, E), *2 * [(H, 2 * half, E)]),
            {"c2p": c2p, "p2c": p2c},
        ),
        BATCHES,
        *5 * [st.integers(1, 3)],
        *2 * [st.booleans()],
    ),
    "positions.relative_bias_grid": st.builds(
        lambda h, w, H: Sample((((2 * h - 1) * (2 * w - 1), H),), {"height": h, "width": w}),
        *3 * [st.integers(1, 3)],
    ),
    "positions.rope_tables_multi": st.builds(
        lambda batch, counts, T, interleaved: Sample(
            ((*batch, len(counts), T), (sum(counts),)),
            {"sections": tuple(counts), "interleaved": interleaved},
        ),
        BATCHES,
        st.lists(st.integers(0, 3), min_size=1, max_size=3),
        st.integers(0, 4),
        st.booleans(),
    ),
    "positions.rope_score": st.builds(
        lambda batch, n: Sample(((*batch, 2 * n), (2 * n,), batch, (n,))),
        BATCHES,
        st.integers(1, 4),
    ),
    "attention.attention_scores": attentions(values=False),
    "attention.attention_weights": attentions(values=False),
    "attention.scaled_dot_product_attention": attentions(),
    "attention.linear_attention": st.builds(
        lambda T, E, V, name, causal: Sample(
            ((T, E), (T, E), (T, V)), {"feature_map": name, "is_causal": causal}
        ),
        *3 * [st.integers(1, 4)],
        st.sampled_from(["elu", "exp"]),
        st.booleans(),
    ),
    "attention.recurrent_linear_attention": st.builds(
        lambda T, E, V, decay, beta, state, ids: Sample(
            (
                *2 * [(2, T, E)],
                (2, T, V),
                (2, T, E) if decay else None,
                (2, T) if beta else None,
                (2, E, V) if state else None,
            ),
            packed(ids, (2,), T),
        ),
        *3 * [st.integers(1, 4)],
        *3 * [st.booleans()],
        DOCUMENTS,
    ),
    "recurrent.selective_scan": st.builds(
        lambda T, D, N, batch, skip, state, through, ids: Sample(
            scan(T, D, N, batch=batch, skip=skip, state=state),
            {"delta_softplus": through, **packed(ids, batch, T)},
        ),
        *3 * [st.integers(1, 4)],
        BATCHES,
        *3 * [st.booleans()],
        DOCUMENTS,
    ),
    "attention.merge_attention": st.builds(
        lambda batch, P, T, V: Sample(((*batch, P, T, V), (*batch, P, T)), {"axis": len(batch)}),
        BATCHES,
        *3 * [st.integers(1, 4)],
    ),
    "attention.forgetting_bias": st.builds(
        lambda batch, first, T, after: Sample(
            ((*batch, max(first + T, 1) + after),), {"q_offset": first, "T": T}
        ),
        BATCHES,
        st.integers(-2, 4),
        st.integers(0, 4),
        st.integers(0, 1),
    ),
    "attention.differential_attention": st.builds(
        lambda H, T, S, E, V, causal: Sample(
            (*2 * [(H, T, E), (H, S, E)], (H, S, V), (H, 1, 1)), {"is_causal": causal}
        ),
        *5 * [st.integers(1, 4)],
        st.booleans(),
    ),
    "attention.repeat_kv": st.builds(
        lambda heads, n, rows: Sample(((heads, rows, 2), n)), *3 * [st.integers(1, 4)]
    ),
}
#: Tolerances sharper than, or ill-conditioned beyond, those of conftest.
OF_FEW = 1.5e-14  # of few numbers in a row, nearly all is projected out
TOLERANCES = {
    "normalization": OF_FEW,
    "normalization.batch_norm_update": None,
    "recurrent": 1.5e-14,  # the slope of a saturated unit comes from its value
    "losses.distillation_loss": 5e-14,  # probabilities that are nearly equal are subtracted
    "losses.kl_divergence": 5e-14,  # terms of both signs cancel, in the formula alone
    "attention.linear_attention": 1e-14,  # features of both signs cancel; each BLAS adds otherwise
}


def formula_of(key):
    """Return the formula of a public function, given as chapter.name, or None."""
    chapter, _, name = key.partition(".")
    if not (FORMULAS / f"{chapter}.py").exists():
        return None
    return getattr(importlib.import_module(f"dlref.formulas.{chapter}"), name, None)


@contextlib.contextmanager
def quiet():
    """Without warnings: a formula does not avoid the mean of nothing, or a logarithm of 0."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def specs():
    """Yield the records that say how a map is called, with the key chapter.map."""
    for chapter in CHAPTERS:
        for record in records(chapter):
            key = f"{chapter}.{record.name}"
            if record.calls and formula_of(key):  # what lacks a formula, tests/test_api.py says
                yield key, record


SPECS = dict(specs())
#: Forms with a formula of their own: one gradient for each row, a pair.
SPECS["neurons.neuron_grad"] = SPECS["neurons.neuron"]
SPECS["losses.cross_entropy_value_and_grad"] = replace(
    SPECS["losses.cross_entropy"],
    calls=[
        call
        for call in SPECS["losses.cross_entropy"].calls
        if call.options.get("reduction") != "none"
    ],
)


def strategy_of(key):
    """Return how the calls of a map are drawn."""
    record = SPECS[key]
    if record.family or key in STRATEGIES:
        return STRATEGIES[record.family or key]
    return resized(record)


def tolerance_of(key):
    """Return the tolerance of a map, None where it is that of conftest."""
    return TOLERANCES.get(key, TOLERANCES.get(key.partition(".")[0]))


def split(name):
    """Return the map and the form that a public name stands for: ("softmax", "vjp")."""
    for suffix in SUFFIXES:
        if name.endswith(f"_{suffix}"):
            return name.removesuffix(f"_{suffix}"), suffix
    return name, "map"


def key_of(name):
    """Return the key of the cases of a public function."""
    return name if name in SPECS else split(name)[0]


def form_of(name):
    return "map" if name in SPECS else split(name)[1]


def applicable(name, problem):
    """Return those options of a problem that a function has."""
    known = inspect.signature(attrgetter(name)(dlref)).parameters  # a gradient has no keepdims
    options = {option: value for option, value in problem.options.items() if option in known}
    if form_of(name) == "grad" and options.get("reduction") == "none":
        options["reduction"] = "sum"  # a gradient is of a number
    return options


def public_functions():
    """Yield (chapter.name, function) for everything public that has cases."""
    for chapter in dlref.__all__:
        module = getattr(dlref, chapter)
        for name in getattr(module, "__all__", ()):
            if key_of(f"{chapter}.{name}") in SPECS and is_selected(name):
                yield f"{chapter}.{name}", getattr(module, name)


class Problem:
    """A call with values, a cotangent and tangents; what must come out of each form."""

    def __init__(self, key, call, dtype=np.float64, seed=0):
        rng = np.random.default_rng(seed)
        self.spec = SPECS[key]
        self.options = call.options
        self.formula = formula_of(key)
        cast = lambda a: a if a.dtype.kind in "iub" else a.astype(dtype)  # noqa: E731
        drawn = self.spec.inputs(rng, call.shapes)
        self.inputs = tuple(a if a is None else cast(np.asarray(a)) for a in drawn)
        self.varying = [
            k
            for k, a in enumerate(self.inputs)
            if a is not None and k not in self.spec.constant and a.dtype.kind not in "iub"
        ]
        self.of = self.varying if self.spec.of is None else list(self.spec.of)
        self.tangents = tuple(
            cast(rng.normal(size=a.shape)) if k in self.varying else None
            for k, a in enumerate(self.inputs)
        )
        self.out = self.value()
        self.dout = tree(lambda y: cast(rng.normal(size=np.shape(y))), self.out)

    def wide(self):
        """Return the inputs with float64 in place of narrower dtypes."""
        return [a.astype(np.float64) if k in self.varying else a for k, a in enumerate(self.inputs)]

    @quiet()
    def value(self):
        return self.formula(*self.wide(), **self.options)

    def arguments(self, form):
        """Return the positional arguments of a form."""
        if form == "vjp":
            return (self.dout, *self.inputs)
        if form == "jvp":
            if len(self.inputs) == 1:
                return self.inputs[0], self.tangents[0]
            return self.inputs, self.tangents
        return self.inputs

    @quiet()
    def directional(self, tangents):
        """Differentiate the formula along `tangents`."""
        return complex_step(lambda *xs: self.formula(*xs, **self.options), self.wide(), tangents)

    def columns(self, position):
        """Yield the derivative with respect to each element of one input."""
        size = self.inputs[position].size
        for j in range(size):
            unit = np.zeros(size)
            unit[j] = 1
            tangents: list = [None] * len(self.inputs)
            tangents[position] = unit.reshape(self.inputs[position].shape)
            yield self.directional(tangents)

    def jacobians(self):
        """Return (out elements, in elements) matrices of the formula, an input each."""
        return [
            np.stack([flat(column) for column in columns], axis=1)
            if (columns := list(self.columns(k)))
            else np.zeros((flat(self.out).size, 0))
            for k in self.varying
        ]

    def expected(self, form):
        """Return (values, scale) of a form; the scale is that of the terms summed up."""
        if form == "map":
            return self.out, magnitude(self.out)
        jacobians = self.jacobians()
        if form == "jvp":
            moving = [flat(self.tangents[k]) for k in self.varying]
            value = sum(J @ v for J, v in zip(jacobians, moving, strict=True))
            scale = sum(abs(J) @ abs(v) for J, v in zip(jacobians, moving, strict=True))
            return shaped(value, self.out), magnitude(scale)
        u = flat(self.dout) if form == "vjp" else np.ones(flat(self.out).size)
        wanted = {
            k: J
            for k, J in zip(self.varying, jacobians, strict=True)
            if form == "vjp" or k in self.of
        }
        values = tuple((u @ J).reshape(self.inputs[k].shape) for k, J in wanted.items())
        scale = tuple(abs(u) @ abs(J) for J in wanted.values())
        return values if len(values) > 1 else values[0], magnitude(scale)


def tree(f, value):
    """Apply f to the arrays of a nested tuple; None stays None."""
    if isinstance(value, tuple | list):
        return tuple(tree(f, entry) for entry in value)
    return None if value is None else f(value)


def leaves(value):
    """List the arrays of a nested tuple."""
    if isinstance(value, tuple | list):
        return [leaf for entry in value for leaf in leaves(entry)]
    return [] if value is None else [np.asarray(value)]


def flat(value):
    """Return all numbers of a nested tuple as one float64 vector."""
    return np.concatenate([np.zeros(0), *(np.ravel(leaf).astype(float) for leaf in leaves(value))])


def shaped(vector, like):
    """Cut a vector into the arrays of a nested tuple."""
    if isinstance(like, tuple):
        ends = np.cumsum([flat(entry).size for entry in like])
        starts = [0, *ends[:-1]]
        return tuple(
            shaped(vector[a:b], entry) for a, b, entry in zip(starts, ends, like, strict=True)
        )
    return np.reshape(vector, np.shape(like))


def magnitude(value):
    """Return the largest absolute value of the finite numbers, 0 if there are none."""
    numbers = abs(flat(value))
    return np.max(numbers[np.isfinite(numbers)], initial=0.0)

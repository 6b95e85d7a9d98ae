"""
Sample inputs of every public function: what tests/test_contract.py walks through.

A `Spec` belongs to a map, named chapter.map, and serves all its forms (map, map_vjp, ...).
It says how to call it; the naive transcription of the same name says what must come out.
"""

import inspect
from dataclasses import dataclass, field, replace
from operator import attrgetter

import naive
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dlref

SUFFIXES = ("jacobian", "hessian", "grad", "deriv2", "deriv", "vjp", "jvp")


# How the values of an input are drawn: far from kinks and poles, well conditioned.


def normal(rng, shape):
    return rng.normal(size=shape)


def positive(rng, shape):
    return rng.uniform(0.5, 2.0, size=shape)


def nonzero(rng, shape):
    return rng.uniform(0.5, 2.0, size=shape) * rng.choice([-1, 1], size=shape)


def invertible(rng, shape):
    return 3.0 * np.eye(shape[-1]) + rng.uniform(-0.5, 0.5, size=shape)


@dataclass(frozen=True)
class Call:
    """The shapes of the inputs (None: left out), and the options."""

    shapes: tuple
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Spec:
    """How to call a map and its derivatives."""

    calls: list  # fixed ones; the first is the plain one
    strategy: st.SearchStrategy  # of calls
    draw: tuple = ()  # a sampler for each input; `normal` where missing
    constant: tuple = ()  # positions of inputs without derivative (classes, positions)
    batched: bool = True  # whether a leading axis of all inputs is a batch axis
    core: tuple | None = None  # Jacobian by rows: axes of one output, then of each input
    of: tuple | None = None  # positions that grad and jacobian are for, where not all
    analytic: bool = True  # whether a NaN in an input that matters makes the result NaN
    tolerance: float | None = None  # where sharper than, or ill-conditioned beyond, conftest's

    def inputs(self, rng, call):
        """Draw the inputs of a call, in float64 (constants as they come)."""
        samplers = self.draw + (normal,) * (len(call.shapes) - len(self.draw))
        return [
            None if shape is None else sample(rng, shape)
            for sample, shape in zip(samplers, call.shapes, strict=True)
        ]


def shapes(*args, **kwargs):
    """Strategy: calls with these shapes and no options."""
    return st.tuples(*args, **kwargs).map(Call)


SIDES = {"min_side": 0, "max_side": 4}
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, **SIDES)


# calculus

PAIRS = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, **SIDES).map(
    lambda drawn: Call(drawn.input_shapes)
)
PAIR_CALLS = [
    Call(((3,), (3,))),
    Call(((3,), ())),
    Call(((1,), (3,))),
    Call(((2, 1, 3), (4, 1))),
    Call(((), ())),
    Call(((0, 3), (3,))),
]


def binary(*draw):
    return Spec(PAIR_CALLS, PAIRS, draw)


def batch_of(*cores, signature=None):
    """Strategy: inputs with common batch axes before their own, named, axes."""
    names = sorted({name for core in cores for name in core})

    @st.composite
    def draw(pick):
        batch = pick(hnp.array_shapes(min_dims=0, max_dims=2, **SIDES))
        side = {name: pick(st.integers(1, 4)) for name in names}
        return Call(tuple(batch + tuple(side[name] for name in core) for core in cores))

    return draw()


@st.composite
def reductions(draw, min_side=0):
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=min_side, max_side=4))
    axes = hnp.valid_tuple_axes(len(shape)) | st.none()
    if shape:
        axes |= st.integers(-len(shape), len(shape) - 1)
    return Call((shape,), {"axis": draw(axes), "keepdims": draw(st.booleans())})


def reduction(*draw, min_side=0):
    calls = [
        Call(((5,),)),
        Call(((2, 3, 4),), {"axis": (0, -1)}),
        Call(((2, 3),), {"axis": 0, "keepdims": True}),
        Call(((),)),
    ]
    empty = [] if min_side else [Call(((0, 3),)), Call(((3, 0),), {"axis": 1})]
    return Spec(calls + empty, reductions(min_side), draw, batched=False)


# activations

ELEMENTS = [Call(((5,),)), Call(((2, 3),)), Call(((),)), Call(((0, 3),))]


def elementwise(*calls, draw=()):
    """Build the cases of an element-wise map; `calls` are option dictionaries."""
    return Spec([*ELEMENTS, *(Call(((4,),), options) for options in calls)], shapes(SHAPES), draw)


def gated(*calls):
    return Spec([*PAIR_CALLS, *(Call(((2, 3), (3,)), options) for options in calls)], PAIRS)


def rows(*calls, min_side=1):
    return Spec(
        [Call(((5,),)), Call(((2, 3),)), Call(((2, 1, 40),)), Call(((0, 3),)), *calls],
        shapes(hnp.array_shapes(min_dims=1, max_dims=3, min_side=min_side, max_side=4)),
        core=(1, 1),
    )


# neurons and losses


class Classes(tuple):
    """The shape of an array of classes, 0 to 2 (where an array of reals could stand, too)."""

    __slots__ = ()


def classes(rng, shape):
    return rng.integers(0, 3, shape) if isinstance(shape, Classes) else positive(rng, shape)


REDUCTIONS = st.sampled_from(["mean", "sum", "none"])


def elementwise_loss(*options, draw=()):
    calls = [
        Call(((5,), (5,))),
        Call(((2, 3), (2, 3)), {"reduction": "sum"}),
        Call(((3, 2), (3, 2)), {"reduction": "none"}),
        Call(((), ())),
        *(Call(((2, 3), (2, 3)), extra) for extra in options),
    ]
    strategy = st.builds(
        lambda shape, reduction: Call((shape, shape), {"reduction": reduction}),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4),
        REDUCTIONS,
    )
    return Spec(calls, strategy, draw, batched=False, of=(0,))


@st.composite
def scored_rows(draw, probabilities=True, **options):
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=4))
    of_classes = not probabilities or draw(st.booleans())
    count = draw(st.integers(3, 11))
    target = Classes(batch) if of_classes else (*batch, count)
    drawn = {name: draw(values) for name, values in options.items()}
    return Call(((*batch, count), target), drawn)


CLASS_WEIGHTS = np.array([0.5, 2.0, 1.25])
CLASS_CALLS = [
    Call(((5, 3), Classes((5,)))),
    Call(((2, 3, 3), Classes((2, 3))), {"reduction": "none"}),
    Call(((4, 3), Classes((4,))), {"reduction": "sum", "ignore_index": 1}),
    Call(((6, 3), Classes((6,))), {"weight": CLASS_WEIGHTS, "ignore_index": 2}),
    Call(((3,), Classes(()))),
]
CROSS_ENTROPY_CALLS = [
    *CLASS_CALLS,
    Call(((4, 11), Classes((4,))), {"label_smoothing": 0.125}),
    Call(
        ((4, 3), Classes((4,))), {"label_smoothing": 0.5, "weight": CLASS_WEIGHTS, "z_loss": 0.25}
    ),
    Call(((4, 9), (4, 9))),
    Call(((2, 3), (2, 3)), {"label_smoothing": 0.125, "weight": CLASS_WEIGHTS, "z_loss": 0.5}),
    Call(((2, 2, 3), (2, 2, 3)), {"reduction": "none"}),
]


@st.composite
def layers(draw):
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=2, **SIDES))
    n_in, n_out = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    bias = (n_out,) if draw(st.booleans()) else None
    return Call(((*batch, n_in), (n_out, n_in), bias))


NEURON = Spec(
    [
        Call(((4, 3), (3,), ())),
        Call(((3,), (3,), ()), {"activation": "tanh"}),
        Call(((2, 3, 2), (2,), ()), {"activation": "identity"}),
        Call(((0, 2), (2,), ())),
        Call(((2, 0), (0,), ())),
    ],
    batch_of("", "d").map(
        lambda call: Call((call.shapes[0] + call.shapes[1][-1:], call.shapes[1][-1:], ()))
    ),
    batched=False,
)

MATRICES = [Call(((3, 3),)), Call(((2, 4, 2, 2),)), Call(((1, 1),)), Call(((0, 2, 2),))]

# normalization


def optional(draw, shape):
    return shape if draw(st.booleans()) else None


@st.composite
def normalized_rows(draw, bias=True, min_dims=1):
    # at least 3 wide: of 2 numbers only the sign of their difference is left
    shape = draw(hnp.array_shapes(min_dims=min_dims, max_dims=3, min_side=3, max_side=6))
    rest = [optional(draw, shape[-1:]) for _ in range(1 + bias)]
    return Call((shape, *rest), {"eps": draw(st.sampled_from([1e-5, 0.5]))})


@st.composite
def normalized_samples(draw, grouped=False):
    samples, positions = draw(st.integers(1, 3)), draw(st.integers(3, 5))
    groups, size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = (samples, positions, groups * size)
    rest = [optional(draw, shape[-1:]) for _ in range(2)]
    count = [Count(groups)] if grouped else []
    return Call((shape, *count, *rest), {"eps": draw(st.sampled_from([1e-5, 0.5]))})


class Count(int):
    """A number of groups, in the place of a shape."""

    __slots__ = ()


def count(_rng, value):
    return np.asarray(int(value))


def norm(*calls, strategy, draw=(), constant=(), core=None, batched=False):
    return Spec(
        list(calls),
        strategy,
        draw,
        constant,
        batched=batched,
        core=core,
        of=(0,),
        tolerance=1.5e-14,  # of few numbers in a row, nearly all is projected out
    )


# positions


@st.composite
def rotated_rows(draw):
    batch, rows = draw(hnp.array_shapes(min_dims=0, max_dims=2, **SIDES)), draw(st.integers(0, 4))
    pairs, rest = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    options = {"interleaved": draw(st.booleans()), "rotary_dim": 2 * pairs}
    table = ((*batch, rows) if draw(st.booleans()) else (rows,)) + (pairs,)
    return Call(((*batch, rows, 2 * pairs + rest), table, table), options)


class Places(tuple):
    """The shape of an array of positions, 0 to 2."""

    __slots__ = ()


def places(rng, shape):
    return rng.integers(0, 3, shape)


def grids(*shapes_of, **options):
    """Strategy: calls for T queries and S keys, from functions of (T, S)."""
    return st.builds(
        lambda T, S, values: Call(
            tuple(shape(T, S) for shape in shapes_of), {"T": T, "S": S, **values}
        ),
        st.integers(1, 5),
        st.integers(1, 5),
        st.fixed_dictionaries(options),
    )


def angles(*calls):
    return Spec(
        [Call(((4,), (3,))), Call(((2, 3), (2,))), Call(((), (1,))), Call(((0,), (2,))), *calls],
        shapes(SHAPES, st.tuples(st.integers(0, 4))),
        batched=False,
    )


# attention


@st.composite
def attentions(draw, values=True, sink=False):
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
    return Call(tuple(shapes[: 2 + values]), options)


PART = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]], bool)  # one row sees nothing
DROPPED = np.array([[2.0, 0, 0.5, 1], [0, 0, 2, 2], [1, 2, 0, 3]])


def attention(*calls, values=True, **options):
    v = [(4, 2)] if values else []
    heads = [(2, 2, 4, 1)] if values else []
    fixed = [
        Call(((3, 2), (4, 2), *v)),
        Call(((3, 2), (4, 2), *v), {"mask": PART, **options}),
        Call(((2, 4, 3, 2), (2, 2, 4, 2), *heads), {"is_causal": True, "softcap": 1.5}),
        Call(((3, 2), (4, 2), *v), {"window": (1, 0), "q_offset": 1, "scale": 2.0}),
        Call(((0, 2, 3, 2), (0, 1, 4, 2), *([(0, 1, 4, 1)] if values else []))),
    ]
    return Spec([*fixed, *calls], attentions(values))


def maps_of_weights(*calls, strategy=None, draw=(positive,)):
    return Spec(
        [Call(((3, 4),)), Call(((2, 3, 3),)), Call(((0, 2, 3),)), *calls],
        strategy or shapes(hnp.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=4)),
        draw,
    )


RECURRENT = ((3, 2), (3, 2), (3, 4))  # q, k, v

# recurrent


def recurrent_shapes(gates, states, batch, T, D, H, given=(True, True, True), cell=False):
    """Shapes of x, states, weights, biases; `given` says which of states, b_ih, b_hh are."""
    some = lambda shape, there: shape if there else None  # noqa: E731
    return (
        (*batch, D) if cell else (*batch, T, D),
        *states * [some((*batch, H), given[0])],
        (gates * H, D),
        (gates * H, H),
        some((gates * H,), given[1]),
        some((gates * H,), given[2]),
    )


def recurrent(gates, states, *options, cell=False, least=0, **drawn):
    """Build the cases of a cell or a sequence; `options` are of further fixed calls."""
    size = {"T": 3, "D": 2, "H": 3}
    sequence = [] if cell else [{"reverse": True}, {"reverse": True, "lengths": [2, 0]}]
    calls = [
        ((2,), size, (True, True, True), {}),
        ((), {"T": 1, "D": 1, "H": 2}, (True, True, False), {}),
        ((2, 1), {"T": 2, "D": 2, "H": 1}, (False, False, False), {}),
        ((0,), size, (True, False, True), {}),
        *(((2,), size, (True, True, True), extra) for extra in [*sequence, *options]),
    ]
    if not cell and not least:
        calls.append(((2,), {**size, "T": 0}, (True, True, True), {}))
        calls.append(((3,), size, (True, False, False), {"lengths": [1, 3, 2]}))
    strategy = st.builds(
        lambda batch, T, D, H, given, extra: Call(
            recurrent_shapes(gates, states, batch, T, D, H, given, cell), extra
        ),
        hnp.array_shapes(min_dims=0, max_dims=2, max_side=2, min_side=0),
        st.integers(least, 3),
        st.integers(0, 3),
        st.integers(1, 3),
        st.tuples(*3 * [st.booleans()]),
        st.fixed_dictionaries({} if cell or least else {"reverse": st.booleans()} | drawn),
    )
    return Spec(
        [
            Call(recurrent_shapes(gates, states, batch, **sizes, given=given, cell=cell), extra)
            for batch, sizes, given, extra in calls
        ],
        strategy,
        (normal,) * (1 + states) + (moderate, moderate),
        batched=False,
        tolerance=1.5e-14,  # the slope of a saturated unit comes from its value
    )


def moderate(rng, shape):
    return rng.normal(size=shape) / 2


SPECS = {
    "attention.attention_scores": attention(values=False),
    "attention.attention_weights": attention(values=False),
    "attention.scaled_dot_product_attention": attention(
        Call(((3, 2), (4, 2), (4, 2)), {"dropout": DROPPED, "is_causal": True, "softcap": 1.5}),
        Call(((2, 4, 3, 2), (2, 2, 4, 2), (2, 2, 4, 1)), {"dropout": DROPPED[:1], "mask": PART}),
    ),
    "attention.multiplicative_attention": Spec(
        [
            Call(((3, 2), (4, 3), (4, 2), (2, 3))),
            Call(((2, 2, 3, 1), (2, 1, 4, 3), (2, 1, 4, 2), (1, 3))),
            Call(((0, 1, 3, 2), (0, 1, 4, 3), (0, 1, 4, 2), (2, 3)), {"scale": 0.5}),
        ],
        st.builds(
            lambda T, S, D, E, V: Call(((T, D), (S, E), (S, V), (D, E))),
            *5 * [st.integers(1, 4)],
        ),
        batched=False,
    ),
    "attention.additive_attention": Spec(
        [
            Call(((3, 2), (4, 3), (4, 2), (5, 2), (5, 3), (5,))),
            Call(
                ((2, 3, 2), (2, 4, 3), (2, 4, 2), (1, 2), (1, 3), (1,)),
                {"mask": np.arange(4) != 1},
            ),
            Call(((0, 3, 2), (0, 4, 3), (0, 4, 2), (5, 2), (5, 3), (5,))),
        ],
        st.builds(
            lambda T, S, D, E, A: Call(((T, D), (S, E), (S, 2), (A, D), (A, E), (A,))),
            *5 * [st.integers(1, 4)],
        ),
        batched=False,
    ),
    "attention.linear_attention": Spec(
        [
            Call(((3, 2), (4, 2), (4, 3))),
            Call(((2, 3, 2), (2, 3, 2), (2, 3, 1)), {"is_causal": True, "feature_map": "exp"}),
            Call(((3, 2), (3, 2), (3, 1)), {"is_causal": True}),
            Call(((3, 2), (4, 2), (4, 1)), {"feature_map": "identity", "normalize": False}),
            Call(((0, 3, 2), (0, 4, 2), (0, 4, 1))),
        ],
        st.builds(
            lambda T, E, V, name, causal: Call(
                ((T, E), (T, E), (T, V)), {"feature_map": name, "is_causal": causal}
            ),
            *3 * [st.integers(1, 4)],
            st.sampled_from(["elu", "exp"]),
            st.booleans(),
        ),
        tolerance=1e-14,  # features of both signs cancel; each BLAS adds in its own order
    ),
    "attention.recurrent_linear_attention": Spec(
        [
            Call((*RECURRENT, None, None, None)),
            Call((*RECURRENT, (3, 2), (3,), (2, 4)), {"scale": 0.5}),
            Call((*RECURRENT, (3, 1), None, None)),
            Call((*RECURRENT, None, (3,), None)),
            Call(((0, 3, 2), (0, 3, 2), (0, 3, 1), None, (0, 3), None)),
        ],
        st.builds(
            lambda T, E, V, decay, beta, state: Call(
                (
                    *2 * [(2, T, E)],
                    (2, T, V),
                    (2, T, E) if decay else None,
                    (2, T) if beta else None,
                    (2, E, V) if state else None,
                )
            ),
            *3 * [st.integers(1, 4)],
            *3 * [st.booleans()],
        ),
    ),
    "attention.repeat_kv": Spec(
        [
            Call(((2, 3, 4), Count(2))),
            Call(((2, 1, 3, 1), Count(3))),
            Call(((0, 1, 2, 1), Count(1))),
        ],
        st.builds(
            lambda heads, n, rows: Call(((heads, rows, 2), Count(n))), *3 * [st.integers(1, 4)]
        ),
        (normal, count),
        constant=(1,),
        batched=False,
    ),
    "attention.attention_entropy": maps_of_weights(),
    "attention.attention_distance": maps_of_weights(Call(((3, 4),), {"q_offset": 2})),
    "attention.attention_shares": maps_of_weights(Call(((3, 4),), {"q_offset": -1})),
    "attention.attention_rollout": Spec(
        [
            Call(((2, 2, 3, 3),)),
            Call(((1, 4, 2, 2, 2),), {"residual": 0.25}),
            Call(((3, 1, 1, 1),)),
        ],
        st.builds(lambda L, H, T: Call(((L, 2, H, T, T),)), *3 * [st.integers(1, 3)]),
        (positive,),
        batched=False,
    ),
    "calculus.add": binary(),
    "calculus.subtract": binary(),
    "calculus.multiply": binary(),
    "calculus.divide": binary(normal, nonzero),
    "calculus.power": binary(positive, normal),
    "calculus.maximum": binary(),
    "calculus.minimum": binary(),
    "calculus.sum": reduction(),
    "calculus.mean": reduction(),
    "calculus.prod": reduction(),
    "calculus.max": reduction(min_side=1),
    "calculus.norm": reduction(),
    "calculus.dot": Spec(
        [Call(((3,), (3,))), Call(((2, 4), (2, 4))), Call(((2, 0), (2, 0)))],
        batch_of("k", "k"),
    ),
    "calculus.scaled_sum": Spec(
        [Call(((3,), ())), Call(((2, 3), (1,))), Call(((0,), ()))],
        shapes(SHAPES, st.sampled_from([(), (1,), (1, 1)])),
        batched=False,
    ),
    "calculus.matmul": Spec(
        [
            Call(((2, 3), (3, 4))),
            Call(((3,), (3, 4))),
            Call(((2, 3), (3,))),
            Call(((3,), (3,))),
            Call(((5, 1, 2, 3), (2, 3, 4))),
            Call(((2, 0), (0, 3))),
            Call(((0, 2, 3), (3, 1))),
        ],
        hnp.mutually_broadcastable_shapes(
            signature="(n?,k),(k,p?)->(n?,p?)", max_dims=2, **SIDES
        ).map(lambda drawn: Call(drawn.input_shapes)),
        batched=False,  # a leading axis of a vector would be its own
        core=(2, 2, 2),
    ),
    "calculus.quadratic_form": Spec(
        [Call(((3,), (3, 3))), Call(((2, 4), (2, 4, 4)))], batch_of("n", "nn")
    ),
    "calculus.trace": Spec(MATRICES, batch_of("nn")),
    "calculus.inverse": Spec(MATRICES, batch_of("nn"), (invertible,), core=(2, 2)),
    "calculus.logdet": Spec(MATRICES, batch_of("nn"), (invertible,)),
    "calculus.chain_rule": Spec(
        [Call(((2, 3), (3, 4), (4, 1))), Call(((2, 2),)), Call(((5, 2, 3), (3, 4)))],
        batch_of("mn", "nk", "kp"),
    ),
    "activations.relu": elementwise(),
    "activations.leaky_relu": elementwise({"negative_slope": 0.2}),
    "activations.elu": elementwise({"alpha": 0.5}),
    "activations.selu": elementwise(),
    "activations.celu": elementwise({"alpha": 0.5}),
    "activations.sigmoid": elementwise(),
    "activations.log_sigmoid": elementwise(),
    "activations.hard_sigmoid": elementwise({"alpha": 0.2, "beta": 0.4}),
    "activations.tanh": elementwise(),
    "activations.hard_tanh": elementwise(),
    "activations.softplus": elementwise(),
    "activations.softsign": elementwise(),
    "activations.silu": elementwise({"beta": 1.7}),
    "activations.mish": elementwise(),
    "activations.hard_swish": elementwise(),
    "activations.gelu": elementwise({"approximate": "tanh"}),
    "activations.relu6": elementwise(),
    "activations.tanhshrink": elementwise(draw=(nonzero,)),
    "activations.thresholded_relu": elementwise({"alpha": 0.5}),
    "activations.prelu": Spec(
        [Call(((3,), (3,))), Call(((2, 3), (3,))), Call(((2, 3), ())), Call(((0, 3), (3,)))],
        batch_of("d", "d"),
    ),
    "activations.glu": gated(),
    "activations.swiglu": gated({"beta": 1.7}),
    "activations.geglu": gated(),
    "activations.reglu": gated(),
    "activations.softmax": rows(Call(((1,),))),
    "activations.log_softmax": rows(min_side=2),
    "activations.logsumexp": rows(Call(((1,),))),
    "activations.hardmax": rows(Call(((1,),))),
    "neurons.neuron": NEURON,
    "neurons.neuron_grad": NEURON,  # one gradient per row
    "neurons.linear": Spec(
        [
            Call(((4, 3), (2, 3), (2,))),
            Call(((3,), (2, 3), None)),
            Call(((2, 2, 3), (1, 3), (1,))),
            Call(((0, 3), (2, 3), (2,))),
        ],
        layers(),
        batched=False,
        core=(1, 1),
        of=(0,),
    ),
    "losses.squared_error": elementwise_loss(),
    "losses.absolute_error": elementwise_loss(),
    "losses.huber": elementwise_loss({"delta": 0.5}),
    "losses.hinge": elementwise_loss(),
    "losses.binary_cross_entropy": elementwise_loss(
        {"weight": CLASS_WEIGHTS, "pos_weight": 2.5}, draw=(normal, positive)
    ),
    "losses.cross_entropy": Spec(
        CROSS_ENTROPY_CALLS,
        scored_rows(
            reduction=REDUCTIONS,
            label_smoothing=st.sampled_from([0.0, 0.25]),
            z_loss=st.sampled_from([0.0, 0.5]),
            ignore_index=st.sampled_from([-100, 99]),
        ),
        (normal, classes),
        batched=False,
        of=(0,),
    ),
    "losses.cross_entropy_value_and_grad": Spec(
        [call for call in CROSS_ENTROPY_CALLS if call.options.get("reduction") != "none"],
        scored_rows(reduction=st.sampled_from(["mean", "sum"])),
        (normal, classes),
        batched=False,
    ),
    "losses.nll": Spec(
        CLASS_CALLS, scored_rows(False, reduction=REDUCTIONS), (normal, classes), batched=False
    ),
    "losses.kl_divergence": Spec(
        [
            Call(((4, 3), (4, 3))),
            Call(((2, 3), (2, 3)), {"reduction": "sum"}),
            Call(((2, 2, 3), (2, 2, 3)), {"reduction": "none"}),
            Call(((3,), (3,))),
        ],
        st.builds(
            lambda shape, reduction: Call((shape, shape), {"reduction": reduction}),
            hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4),
            REDUCTIONS,
        ),
        (normal, positive),
        batched=False,
        of=(0,),
    ),
    "losses.neuron_squared_error": Spec(
        [
            Call(((5, 3), (5,), (3,), ())),
            Call(((1, 1), (1,), (1,), ())),
            Call(((2, 0), (2,), (0,), ())),
        ],
        st.builds(
            lambda n, d: Call(((n, d), (n,), (d,), ())), st.integers(1, 5), st.integers(0, 4)
        ),
        batched=False,
        of=(2, 3),
    ),
    "propagation.gradient_magnitude": Spec(
        [
            Call(((5,), Count(3))),
            Call(((), Count(1))),
            Call(((2, 3), Count(2)), {"activation_slope": -0.5}),
            Call(((0, 3), Count(2))),
        ],
        SHAPES.map(lambda shape: Call((shape, Count(2)))),
        (normal, count),
        constant=(1,),
        batched=False,
    ),
    "normalization.layer_norm": norm(
        Call(((2, 8), (8,), (8,))),
        Call(((5,), None, None), {"eps": 0.25}),
        Call(((2, 3, 4), None, (4,))),
        Call(((3, 7), (7,), None)),
        Call(((0, 3), (3,), (3,))),
        strategy=normalized_rows(),
        core=(1, 1),
    ),
    "normalization.rms_norm": norm(
        Call(((2, 8), (8,))),
        Call(((5,), None), {"eps": 0.25}),
        Call(((2, 3, 4), (4,)), {"weight_offset": 1.0}),
        Call(((0, 3), (3,))),
        strategy=normalized_rows(bias=False),
        core=(1, 1),
    ),
    "normalization.batch_norm": norm(
        Call(((6, 3), (3,), (3,))),
        Call(((3, 3, 2), None, None), {"eps": 0.25}),
        Call(((5, 1), None, (1,))),
        Call(((0, 3), (3,), (3,))),
        strategy=normalized_rows(min_dims=2),
    ),
    "normalization.batch_norm_inference": norm(
        Call(((6, 3), (3,), (3,), (3,), (3,))),
        Call(((3,), (3,), (3,), None, None)),
        Call(((2, 2, 3), (3,), (3,), None, (3,)), {"eps": 0.25}),
        Call(((0, 3), (3,), (3,), (3,), None)),
        strategy=normalized_rows().map(
            lambda call: Call((call.shapes[0], *2 * [call.shapes[0][-1:]], *call.shapes[1:]))
        ),
        draw=(normal, normal, positive),
    ),
    "normalization.batch_norm_update": Spec(
        [Call(((3,), (3,)), {"momentum": 0.25}), Call(((), ()), {"momentum": 1})],
        SHAPES.map(lambda shape: Call((shape, shape), {"momentum": 0.1})),
    ),
    "normalization.group_norm": norm(
        Call(((2, 3, 4), Count(2), (4,), (4,))),
        Call(((2, 6), Count(2), None, None), {"eps": 0.25}),
        Call(((2, 2, 2, 3), Count(1), None, (3,))),
        Call(((0, 3, 2), Count(2), (2,), None)),
        strategy=normalized_samples(grouped=True),
        draw=(normal, count),
        constant=(1,),
    ),
    "normalization.instance_norm": norm(
        Call(((2, 5, 3), (3,), (3,))),
        Call(((2, 2, 3, 2), None, None), {"eps": 0.25}),
        Call(((1, 4, 1), None, (1,))),
        Call(((0, 3, 2), (2,), None)),
        strategy=normalized_samples(),
    ),
    "recurrent.rnn": recurrent(
        1,
        1,
        {"activation": "relu"},
        {"activation": "sigmoid"},
        {"activation": "identity"},
    ),
    "recurrent.rnn_cell": recurrent(1, 1, {"activation": "sigmoid"}, cell=True),
    "recurrent.rnn_state": replace(
        recurrent(1, 1, {"activation": "identity"}, least=1),
        calls=[
            Call(recurrent_shapes(1, 1, (2,), 3, 2, 3)),
            Call(recurrent_shapes(1, 1, (), 2, 1, 2), {"activation": "sigmoid"}),
            Call(recurrent_shapes(1, 1, (0,), 2, 1, 2)),
        ],
        core=(1, 1),
        of=(1,),
    ),
    "recurrent.lstm": recurrent(4, 2),
    "recurrent.lstm_cell": recurrent(4, 2, cell=True),
    "recurrent.lstm_gates": recurrent(4, 2),
    "recurrent.gru": recurrent(
        3, 1, {"reset_after": False}, {"reset_after": False, "reverse": True, "lengths": [1, 3]}
    ),
    "recurrent.gru_cell": recurrent(3, 1, {"reset_after": False}, cell=True),
    "positions.rope_angles": angles(),
    "positions.rope_tables": angles(Call(((3,), (2,)), {"attention_factor": 1.25})),
    "positions.rope_matrix": angles(),
    "positions.apply_rope": Spec(
        [
            Call(((3, 4), (3, 2), (3, 2))),
            Call(((2, 3, 8), (3, 4), (3, 4)), {"interleaved": False}),
            Call(((2, 3, 7), (2, 3, 2), (2, 3, 2)), {"rotary_dim": 4}),
            Call(((2, 3, 5), (1, 2), (1, 2)), {"rotary_dim": 4, "interleaved": False}),
            Call(((0, 4), (0, 2), (0, 2))),
            Call(((4,), (2,), (2,))),
        ],
        rotated_rows(),
        constant=(1, 2),
    ),
    "positions.alibi_bias": Spec(
        [
            Call(((2,),), {"T": 3, "S": 4}),
            Call(((2, 3),), {"T": 3, "S": 2, "symmetric": True}),
            Call(((),), {"T": 2, "S": 5, "q_offset": 3}),
            Call(((0,),), {"T": 2, "S": 2}),
        ],
        st.builds(
            lambda shape, T, S, offset, symmetric: Call(
                (shape,), {"T": T, "S": S, "q_offset": offset, "symmetric": symmetric}
            ),
            SHAPES,
            *3 * [st.integers(0, 4)],
            st.booleans(),
        ),
    ),
    "positions.learned_positions": Spec(
        [
            Call(((3, 4), Places((5,)))),
            Call(((4, 2), Places((2, 3)))),
            Call(((3, 2), Places(()))),
            Call(((3, 2), Places((0,)))),
        ],
        st.builds(
            lambda count, width, shape: Call(((count, width), Places(shape))),
            st.integers(3, 5),
            st.integers(0, 4),
            SHAPES,
        ),
        (normal, places),
        constant=(1,),
        batched=False,
    ),
    "positions.relative_bias": Spec(
        [
            Call(((2, 6),), {"T": 3, "S": 4}),
            Call(((3,),), {"T": 3, "S": 1}),
            Call(((2, 2, 5),), {"T": 2, "S": 4}),
            Call(((0, 3),), {"T": 2, "S": 2}),
        ],
        grids(lambda T, S: (2, T + S - 1)),
    ),
    "positions.t5_bias": Spec(
        [
            Call(((32, 2),), {"T": 3, "S": 4}),
            Call(((8, 1),), {"T": 9, "S": 12, "max_distance": 10}),
            Call(((6, 3),), {"T": 2, "S": 9, "bidirectional": False, "q_offset": 7}),
        ],
        grids(
            lambda _T, _S: (8, 2),
            bidirectional=st.booleans(),
            q_offset=st.integers(0, 30),
            max_distance=st.sampled_from([5, 16]),
        ),
        batched=False,
    ),
    "positions.shaw_scores": Spec(
        [
            Call(((4, 3), (5, 3))),
            Call(((2, 2, 2), (1, 2))),
            Call(((0, 2, 2), (3, 2))),
            Call(((0, 2), (3, 2))),
        ],
        st.builds(
            lambda batch, T, E, K: Call(((*batch, T, E), (2 * K + 1, E))),
            hnp.array_shapes(min_dims=0, max_dims=2, **SIDES),
            *3 * [st.integers(0, 4)],
        ),
        batched=False,
    ),
    "positions.transformer_xl_scores": Spec(
        [
            Call(((3, 2), (4, 2), (6, 2), (2,), (2,))),
            Call(((2, 3, 2), (2, 2, 2), (4, 2), (2, 1, 2), (2,))),
            Call(((2, 3, 2), (2, 2, 2), (2, 4, 2), (2, 3, 2), (1,))),
            Call(((0, 2, 2), (0, 1, 2), (2, 2), (2,), (2,))),
        ],
        st.builds(
            lambda batch, T, S, E: Call(
                ((*batch, T, E), (*batch, S, E), (T + S - 1, E), (E,), (E,))
            ),
            hnp.array_shapes(min_dims=0, max_dims=2, **SIDES),
            *3 * [st.integers(1, 4)],
        ),
        batched=False,
    ),
    "positions.apply_rope_axial": Spec(
        [
            Call(((3, 8), (3, 2, 2), (3, 2, 2))),
            Call(((2, 3, 6), (3, 3, 1), (3, 3, 1)), {"interleaved": False}),
            Call(((0, 4), (0, 1, 2), (0, 1, 2))),
        ],
        st.builds(
            lambda batch, n, axes, pairs, interleaved: Call(
                ((*batch, n, 2 * axes * pairs), *2 * [(n, axes, pairs)]),
                {"interleaved": interleaved},
            ),
            hnp.array_shapes(min_dims=0, max_dims=2, **SIDES),
            *3 * [st.integers(1, 3)],
            st.booleans(),
        ),
        constant=(1, 2),
    ),
    "positions.xpos_scales": Spec(
        [
            Call(((4,),), {"dim": 6}),
            Call(((2, 3),), {"dim": 2, "gamma": 1.5, "scale_base": 3.0}),
            Call(((),), {"dim": 4}),
            Call(((0,),), {"dim": 4}),
        ],
        st.builds(
            lambda shape, pairs: Call((shape,), {"dim": 2 * pairs}), SHAPES, st.integers(1, 4)
        ),
    ),
    "positions.apply_xpos": Spec(
        [
            Call(((3, 4), *3 * [(3, 2)])),
            Call(((2, 3, 8), *3 * [(3, 4)]), {"interleaved": False, "inverse": True}),
            Call(((2, 3, 7), *3 * [(2, 3, 2)]), {"rotary_dim": 4}),
            Call(((0, 4), *3 * [(0, 2)])),
        ],
        rotated_rows().map(
            lambda call: Call((*call.shapes, call.shapes[1]), {**call.options, "inverse": True})
        ),
        (normal, normal, normal, positive),
        constant=(1, 2, 3),
    ),
    "positions.kerple_bias": Spec(
        [
            Call(((2,), (2,)), {"T": 3, "S": 4}),
            Call(((2, 3), (2, 3)), {"T": 3, "S": 2, "kind": "power", "symmetric": True}),
            Call(((), ()), {"T": 2, "S": 5, "q_offset": 3, "kind": "power"}),
            Call(((0,), (0,)), {"T": 2, "S": 2}),
        ],
        grids(
            *2 * [lambda _T, _S: (2,)],
            q_offset=st.integers(0, 30),
            kind=st.sampled_from(["log", "power"]),
            symmetric=st.booleans(),
        ),
        (positive, positive),
    ),
    "positions.fire_bias": Spec(
        [
            Call(((3,), (3,), (2, 3), (2,), (), ()), {"T": 3, "S": 4}),
            Call(((2,), (2,), (1, 2), (1,), (), ()), {"T": 2, "S": 3, "q_offset": 9}),
        ],
        grids(
            *2 * [lambda _T, _S: (3,)],
            lambda _T, _S: (2, 3),
            lambda _T, _S: (2,),
            *2 * [lambda _T, _S: ()],
            q_offset=st.integers(0, 30),
        ),
        (normal, normal, normal, normal, positive, positive),
        batched=False,
        analytic=False,  # a hidden unit that is off hides what enters it
    ),
    "positions.cope": Spec(
        [
            Call(((3, 2), (3, 3), (4, 2))),
            Call(((2, 3, 2), (2, 3, 5), (2, 2))),
            Call(((2, 2), (2, 3), (1, 2))),
            Call(((0, 2, 2), (0, 2, 3), (2, 2))),
        ],
        st.builds(
            lambda batch, T, S, E, P: Call(((*batch, T, E), (*batch, T, S), (P, E))),
            hnp.array_shapes(min_dims=0, max_dims=2, **SIDES),
            *4 * [st.integers(1, 4)],
        ),
        batched=False,
    ),
    "positions.rope_score": Spec(
        [
            Call(((4,), (4,), (), (2,))),
            Call(((2, 6), (6,), (5, 1), (3,)), {"interleaved": False}),
            Call(((0, 2), (2,), (), (1,))),
        ],
        st.builds(
            lambda batch, n: Call(((*batch, 2 * n), (2 * n,), batch, (n,))),
            hnp.array_shapes(min_dims=0, max_dims=2, **SIDES),
            st.integers(1, 4),
        ),
        batched=False,
    ),
}

#: An activation with the derivatives of the others needs no line of its own.
for _name in dir(dlref.activations):
    if f"{_name}_deriv2" in dir(dlref.activations):
        SPECS.setdefault(f"activations.{_name}", elementwise())

#: Public names that are no maps of arrays, and where their tests are.
NO_MAPS = {
    "check.ErrorReport": "tests/check/test_errors.py",
    "check.CheckReport": "tests/check/test_reports.py",
    "check.GradientCheck": "tests/check/test_derivatives.py",
    "check.HardCase": "tests/check/test_inputs.py",
    "check.OutputCheck": "tests/check/test_candidates.py",
    "check.Verdict": "tests/check/test_candidates.py",
    "check.adjoint_gap": "tests/check/test_derivatives.py: takes functions",
    "check.check_all": "tests/check/test_reports.py: takes functions",
    "check.check_gradients": "tests/check/test_derivatives.py: takes functions",
    "check.check_forward": "tests/check/test_candidates.py: takes functions",
    "check.check_jvp": "tests/check/test_candidates.py: takes functions",
    "check.check_vjp": "tests/check/test_candidates.py: takes functions",
    "check.error_report": "tests/check/test_errors.py: exact values of any kind",
    "check.numerical_jacobian": "tests/check/test_derivatives.py: takes a function",
    "check.hard_inputs": "tests/check/test_inputs.py: takes a function",
    "check.random_inputs": "tests/check/test_inputs.py: takes a function",
    "check.ulp_error": "tests/check/test_errors.py: exact values of any kind",
    "attention.AttentionParams": "tests/attention/test_multi_head.py",
    "attention.KVCache": "tests/attention/test_multi_head.py",
    "attention.causal_mask": "tests/attention/test_masks.py: integers only",
    "attention.multi_head_attention": "tests/attention/test_multi_head.py: nested parameters",
    "attention.multi_head_attention_jvp": "tests/attention/test_multi_head.py",
    "attention.multi_head_attention_vjp": "tests/attention/test_multi_head.py",
    "attention.padding_mask": "tests/attention/test_masks.py: integers only",
    "attention.window_mask": "tests/attention/test_masks.py: integers only",
    "get_num_threads": "tests/core/test_threads.py",
    "set_num_threads": "tests/core/test_threads.py",
    "calculus.chain_cost": "tests/calculus/test_accumulation.py: integers only",
    "calculus.total_derivative": "tests/calculus/test_chain_rule.py: sequences of arrays",
    "propagation.SignalPropagation": "tests/propagation/test_signal_propagation.py",
    "propagation.critical_gain": "tests/propagation/test_signal_propagation.py: a name",
    "propagation.glorot_normal": "tests/propagation/test_initialization.py: random",
    "propagation.glorot_uniform": "tests/propagation/test_initialization.py: random",
    "propagation.he_normal": "tests/propagation/test_initialization.py: random",
    "propagation.he_uniform": "tests/propagation/test_initialization.py: random",
    "propagation.lecun_normal": "tests/propagation/test_initialization.py: random",
    "propagation.orthogonal": "tests/propagation/test_initialization.py: random",
    "propagation.signal_propagation": "tests/propagation/test_signal_propagation.py: random",
    "interop.Convention": "tests/interop/test_conventions.py",
    "interop.BatchNormParams": "tests/interop/test_state_dicts.py",
    "interop.RecurrentParams": "tests/interop/test_state_dicts.py",
    "interop.BertParams": "tests/interop/test_families.py",
    "interop.T5EncoderParams": "tests/interop/test_families.py",
    "interop.read_state_dict": "tests/interop/test_families.py: files",
    "interop.from_state_dict": "tests/interop/test_state_dicts.py: dictionaries",
    "interop.to_state_dict": "tests/interop/test_state_dicts.py: dictionaries",
    "check.TraceDifference": "tests/check/test_traces.py",
    "check.first_difference": "tests/check/test_traces.py: dictionaries",
    "check.trace": "tests/check/test_traces.py: models",
    "interop.conventions": "tests/interop/test_conventions.py: a table of words",
    "interop.mask_convention": "tests/interop/test_conventions.py: names of libraries",
    "interop.to_half_split": "tests/interop/test_layouts.py: a permutation, of weights too",
    "interop.to_interleaved": "tests/interop/test_layouts.py: a permutation, of weights too",
    "interop.transpose_heads": "tests/interop/test_layouts.py: names of libraries",
    "interop.convert_gates": "tests/interop/test_gates.py: names of libraries",
    "positions.alibi_slopes": "tests/positions/test_alibi.py: integers only",
    "positions.rope_attention_factor": "tests/positions/test_rotary_scaling.py: numbers only",
    "positions.rope_frequencies": "tests/positions/test_rotary_scaling.py: numbers only",
    "positions.rope_permutation": "tests/positions/test_rotary.py: integers only",
    "positions.sinusoidal": "tests/positions/test_sinusoidal.py: numbers only",
    "positions.sinusoidal_shift": "tests/positions/test_sinusoidal.py: numbers only",
    "positions.t5_relative_position_bucket": "tests/positions/test_t5.py: integers only",
    "recurrent.LSTMGates": "tests/recurrent/test_lstm.py",
    **{
        f"recurrent.{name}{form}": "tests/recurrent/test_sequences.py: functions and tuples"
        for name in (
            "bidirectional",
            "encoder_decoder",
            "sequence_to_sequence",
            "sequence_to_vector",
            "vector_to_sequence",
        )
        for form in ("", "_vjp", "_jvp")
    },
    "neurons.LinearParams": "tests/neurons/test_mlp.py",
    "neurons.mlp": "tests/neurons/test_mlp.py: trees of arrays",
    "neurons.mlp_deltas": "tests/neurons/test_mlp.py: trees of arrays",
    "neurons.mlp_jvp": "tests/neurons/test_mlp.py: trees of arrays",
    "neurons.mlp_vjp": "tests/neurons/test_mlp.py: trees of arrays",
    "training.MinibatchResult": "tests/training/test_minibatch_descent.py",
    "training.minibatch_descent": "tests/training/test_minibatch_descent.py: a loop",
    "training.minibatches": "tests/training/test_minibatch_descent.py: random",
    "training.mlp_loss": "tests/training/test_mlp_loss.py: trees of arrays",
    "training.mlp_loss_grad": "tests/training/test_mlp_loss.py: trees of arrays",
    "training.mlp_loss_value_and_grad": "tests/training/test_mlp_loss.py: trees of arrays",
    "training.AdagradState": "tests/training/test_adaptive.py",
    "training.AdamState": "tests/training/test_adaptive.py",
    "training.FitResult": "tests/training/test_fit_neuron.py",
    "training.MomentumState": "tests/training/test_momentum.py",
    "training.RMSpropState": "tests/training/test_adaptive.py",
    "training.SGDState": "tests/training/test_momentum.py",
    "training.adagrad_step": "tests/training/test_adaptive.py: trees of arrays and a state",
    "training.adam_step": "tests/training/test_adaptive.py: trees of arrays and a state",
    "training.adamw_step": "tests/training/test_adaptive.py: trees of arrays and a state",
    "training.clip_by_norm": "tests/training/test_clipping.py: trees of arrays",
    "training.clip_by_value": "tests/training/test_clipping.py: trees of arrays",
    "training.cosine_schedule": "tests/training/test_schedules.py: step numbers",
    "training.fit_neuron": "tests/training/test_fit_neuron.py: a loop",
    "training.gradient_descent": "tests/training/test_gradient_descent.py: a loop",
    "training.inverse_sqrt_schedule": "tests/training/test_schedules.py: step numbers",
    "training.momentum_step": "tests/training/test_momentum.py: trees of arrays and a state",
    "training.nesterov_step": "tests/training/test_momentum.py: trees of arrays and a state",
    "training.rmsprop_step": "tests/training/test_adaptive.py: trees of arrays and a state",
    "training.tree_map": "tests/training/test_trees.py: trees of arrays",
    "training.tree_ravel": "tests/training/test_trees.py: trees of arrays",
    "training.tree_unravel": "tests/training/test_trees.py: trees of arrays",
    "training.sgd_step": "tests/training/test_momentum.py: trees of arrays and a state",
    "training.warmup_schedule": "tests/training/test_schedules.py: step numbers",
    "transformer.BlockOptions": "options",
    "transformer.DecoderBlockParams": "tests/transformer/test_blocks.py",
    "transformer.EncoderBlockParams": "tests/transformer/test_blocks.py",
    "transformer.EncoderDecoderParams": "tests/transformer/test_encoder_decoder.py",
    "transformer.FeedForwardParams": "tests/transformer/test_feed_forward.py",
    "transformer.GatedFeedForwardParams": "tests/transformer/test_feed_forward.py",
    "transformer.LanguageModelConfig": "tests/transformer/test_configuration.py",
    "transformer.LanguageModelParams": "tests/transformer/test_configuration.py",
    "transformer.LanguageModelTrace": "tests/transformer/test_language_model.py",
    "transformer.MultiplicationCounts": "tests/transformer/test_budget.py: a configuration",
    "transformer.NormParams": "tests/transformer/test_blocks.py",
    "transformer.ParameterCounts": "tests/transformer/test_budget.py: a configuration",
    "transformer.SequenceClassifierParams": "tests/transformer/test_classifier.py",
    "transformer.addition_task": "tests/transformer/test_tasks.py: random",
    "transformer.associative_recall_task": "tests/transformer/test_tasks.py: random",
    "transformer.beam_search": "tests/transformer/test_generation.py: tokens",
    "transformer.copy_task": "tests/transformer/test_tasks.py: random",
    "transformer.decoder": "tests/transformer/test_stacks.py: trees of arrays",
    "transformer.decoder_block": "tests/transformer/test_blocks.py: trees of arrays",
    "transformer.decoder_block_jvp": "tests/transformer/test_blocks.py: trees of arrays",
    "transformer.decoder_block_vjp": "tests/transformer/test_blocks.py: trees of arrays",
    "transformer.decoder_jvp": "tests/transformer/test_stacks.py: trees of arrays",
    "transformer.decoder_vjp": "tests/transformer/test_stacks.py: trees of arrays",
    "transformer.dropout_mask": "tests/transformer/test_blocks.py: random",
    "transformer.encoder": "tests/transformer/test_stacks.py: trees of arrays",
    "transformer.encoder_block": "tests/transformer/test_blocks.py: trees of arrays",
    "transformer.encoder_block_jvp": "tests/transformer/test_blocks.py: trees of arrays",
    "transformer.encoder_block_vjp": "tests/transformer/test_blocks.py: trees of arrays",
    "transformer.encoder_decoder_generate": "tests/transformer/test_encoder_decoder.py",
    "transformer.encoder_decoder_model": "tests/transformer/test_encoder_decoder.py",
    "transformer.encoder_decoder_model_jvp": "tests/transformer/test_encoder_decoder.py",
    "transformer.encoder_decoder_model_loss": "tests/transformer/test_encoder_decoder.py",
    "transformer.encoder_decoder_model_loss_grad": "tests/transformer/test_encoder_decoder.py",
    "transformer.encoder_decoder_model_loss_value_and_grad": (
        "tests/transformer/test_encoder_decoder.py"
    ),
    "transformer.encoder_decoder_model_vjp": "tests/transformer/test_encoder_decoder.py",
    "transformer.encoder_decoder_weights": "tests/transformer/test_encoder_decoder.py",
    "transformer.encoder_jvp": "tests/transformer/test_stacks.py: trees of arrays",
    "transformer.encoder_vjp": "tests/transformer/test_stacks.py: trees of arrays",
    "transformer.feed_forward": "tests/transformer/test_feed_forward.py: trees of arrays",
    "transformer.feed_forward_jvp": "tests/transformer/test_feed_forward.py: trees of arrays",
    "transformer.feed_forward_vjp": "tests/transformer/test_feed_forward.py: trees of arrays",
    "transformer.gated_feed_forward": "tests/transformer/test_feed_forward.py: trees of arrays",
    "transformer.gated_feed_forward_jvp": "tests/transformer/test_feed_forward.py: trees of arrays",
    "transformer.gated_feed_forward_vjp": "tests/transformer/test_feed_forward.py: trees of arrays",
    "transformer.generate": "tests/transformer/test_generation.py: tokens",
    "transformer.init_encoder_decoder_model": "tests/transformer/test_encoder_decoder.py: random",
    "transformer.init_language_model": "tests/transformer/test_configuration.py: random",
    "transformer.init_sequence_classifier": "tests/transformer/test_classifier.py: random",
    "transformer.language_model": "tests/transformer/test_language_model.py: trees of arrays",
    "transformer.language_model_jvp": "tests/transformer/test_language_model.py: trees of arrays",
    "transformer.language_model_loss": "tests/transformer/test_language_model.py: trees of arrays",
    "transformer.language_model_loss_grad": "tests/transformer/test_language_model.py",
    "transformer.language_model_loss_value_and_grad": "tests/transformer/test_language_model.py",
    "transformer.language_model_trace": "tests/transformer/test_language_model.py: trees of arrays",
    "transformer.language_model_vjp": "tests/transformer/test_language_model.py: trees of arrays",
    "transformer.load_params": "tests/transformer/test_storage.py: files",
    "transformer.multiplication_counts": "tests/transformer/test_budget.py: a configuration",
    "transformer.next_token_probabilities": "tests/transformer/test_generation.py",
    "transformer.parameter_counts": "tests/transformer/test_budget.py: a configuration",
    "transformer.reverse_task": "tests/transformer/test_tasks.py: random",
    "transformer.save_params": "tests/transformer/test_storage.py: files",
    "transformer.sequence_classifier": "tests/transformer/test_classifier.py: trees of arrays",
    "transformer.sequence_classifier_jvp": "tests/transformer/test_classifier.py: trees of arrays",
    "transformer.sequence_classifier_loss": "tests/transformer/test_classifier.py: trees of arrays",
    "transformer.sequence_classifier_loss_grad": "tests/transformer/test_classifier.py",
    "transformer.sequence_classifier_loss_value_and_grad": "tests/transformer/test_classifier.py",
    "transformer.sequence_classifier_vjp": "tests/transformer/test_classifier.py: trees of arrays",
}


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
            if f"{chapter}.{name}" not in NO_MAPS:
                yield f"{chapter}.{name}", getattr(module, name)


class Problem:
    """A call with values, a cotangent and tangents; what must come out of each form."""

    def __init__(self, key, call, dtype=np.float64, seed=0):
        rng = np.random.default_rng(seed)
        self.spec = SPECS[key]
        self.options = call.options
        self.naive = getattr(naive, key.rpartition(".")[2])
        cast = lambda a: a if a is None or a.dtype.kind in "iub" else a.astype(dtype)  # noqa: E731
        self.inputs = tuple(cast(a) for a in self.spec.inputs(rng, call))
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

    @np.errstate(all="ignore")
    def value(self):
        return self.naive(*self.wide(), **self.options)

    def arguments(self, form):
        """Return the positional arguments of a form."""
        if form == "vjp":
            return (self.dout, *self.inputs)
        if form == "jvp":
            if len(self.inputs) == 1:
                return self.inputs[0], self.tangents[0]
            return self.inputs, self.tangents
        return self.inputs

    @np.errstate(all="ignore")
    def directional(self, tangents):
        """Differentiate the naive formula along `tangents`."""
        return naive.complex_step(
            lambda *xs: self.naive(*xs, **self.options), self.wide(), tangents
        )

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
        """Return (out elements, in elements) matrices of the naive formula, an input each."""
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

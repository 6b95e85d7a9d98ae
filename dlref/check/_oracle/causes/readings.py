"""Changed programs: the map of other inputs or options, as kernels read them."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...._core.pytree import is_float, map_floats, named_leaves, tree_leaves, tree_unflatten
from ..arrays import map_leaves
from ..formulas import other_formulas
from ..helpers import FORMATS, HELPERS, in_block, padded
from .common import LN2, check_time
from .mutations import outputs_of
from .programs import BLOCKS, Program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..calls import ReferenceCall


#: Numbers of an array that is padded, at most.
MAX_PADDED = 2**16
#: Numbers of parts of a fused array, which holds the weights of gates, or of q, k and v.
PARTS = (2, 3, 4)


def readings(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that read their inputs in another format or in blocks, or round an option."""
    for name, rounded in READ_AS.items():
        for count in (len(call.arguments), 2):  # all, or the operands of a product
            if count <= len(call.arguments):
                change = functools.partial(_with_inputs, f=rounded, count=count)
                which = "all inputs are" if count == len(call.arguments) else "both operands are"
                yield Program(f"{which} {name}", functools.partial(with_reading, change))
    for key, value in call.settings.items():
        if isinstance(value, float):
            for other in dict.fromkeys(round(value, digits) for digits in (4, 3, 2)):
                if other not in (value, 0.0):
                    change = functools.partial(with_default, key=key, due=value, value=other)
                    message = f"{key} is {other:g}, not {value:.6g}"
                    yield Program(message, functools.partial(with_reading, change))
    for key in (key for key in call.non_default_options if key in call.defaults):
        change = functools.partial(without_option, key=key)
        program = functools.partial(with_reading, change)
        yield Program(f"the option {key!r} is ignored", program)
    if call.settings.get("weight_decay") and {"params", "grads"} <= {*call.names}:
        message = "the weight decay is added to the gradient, not taken from the parameters"
        yield Program(message, functools.partial(with_reading, _with_coupled_decay))
        yield Program("the weight decay is taken from the new parameters", _with_late_decay)
    yield from _constant_programs(call)  # any function of an input would do for these, too
    yield from _tuple_programs(call)
    yield from _block_programs(call)
    yield from _entry_programs(call)
    yield from _group_programs(call)
    yield from composed_programs(call)
    yield from _leaf_programs(call)
    yield from _exchanged_programs(call)


def _constant_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that read 0 or 1 in place of an input."""
    leaves = [] if call.form == "jvp" else _float_leaves(call)
    for (number, (name, _)), value in itertools.product(enumerate(leaves), (0, 1)):
        f = functools.partial(np.full_like, fill_value=value)
        change = functools.partial(with_leaf, number=number, f=f)
        message = f"{value} stands where {name} is due"
        yield Program(message, functools.partial(with_reading, change))


def _exchanged_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that read another input or its statistic in place of an input."""
    leaves = [] if call.form == "jvp" else _float_leaves(call)
    for number, (name, a) in enumerate(leaves):
        for k, (other, b) in enumerate(leaves):
            for text, f in _in_place_of(a, b).items() if k != number else ():
                change = functools.partial(_with_other_leaf, number=number, k=k, f=f)
                message = f"{text.format(other)} stands where {name} is due"
                yield Program(message, functools.partial(with_reading, change))


def _in_place_of(a: Any, b: Any) -> dict[str, Any]:
    """Return what kernels take of an array b in place of an array a: all of it, or a statistic."""
    if np.shape(a) == np.shape(b):
        return {"{}": lambda array: array}
    if not np.ndim(a) or np.ndim(a) >= np.ndim(b) or np.shape(a) != np.shape(b)[-np.ndim(a) :]:
        return {}
    axes = tuple(range(np.ndim(b) - np.ndim(a)))
    names = ("mean", "var", "std", "sum", "max")
    return {
        f"the {name} of {{}}": functools.partial(getattr(np, name), axis=axes) for name in names
    }


def _with_other_leaf(call: ReferenceCall, *, number: int, k: int, f: Any) -> ReferenceCall:
    """Return a call with a function of one array in place of another, both by their numbers."""
    return with_leaf(call, number=number, f=lambda _: f(np.asarray(_float_leaves(call)[k][1])))


def other_maps(call: ReferenceCall) -> Iterator[Program]:
    """Yield the other maps of the chapter."""
    for name, f in other_formulas(call).items():
        yield Program(f"it is {name}", functools.partial(_other_map, f))


def _other_map(f: Any, call: ReferenceCall) -> list[Any] | None:
    """Return the outputs of another formula, called with the options that it takes."""
    known = inspect.signature(f).parameters
    options = {key: value for key, value in call.non_default_options.items() if key in known}
    return outputs_of(f, replace(call, options=options))


def composed_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that apply a usual function to an input or to the result, or the map twice."""
    if call.form == "jvp":
        return
    for number, (name, _) in enumerate(_float_leaves(call)):
        for text, f in COMPOSED.items():
            change = functools.partial(with_leaf, number=number, f=f)
            message = f"{text.format(name)} stands where {name} is due"
            yield Program(message, functools.partial(with_reading, change))
    for text, f in COMPOSED.items():
        yield Program(f"{text.format('the result')} is returned", functools.partial(_after, f))
    yield Program("the map is applied twice", _twice)
    yield from _programs_of_results(call)


def _programs_of_results(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that return some entries of the first result in place of others."""
    first = np.asarray((_own_outputs(call) or [0])[0])
    for axis in (axis for axis in range(-first.ndim, 0) if first.shape[axis] > 1):
        for how, f in ENTRIES.items():
            run = functools.partial(_with_first, functools.partial(f, axis=axis))
            yield Program(how.format(f"of the result along axis {axis}"), run)


def _with_first(f: Any, call: ReferenceCall) -> list[Any] | None:
    """Return the outputs with a function applied to the first one."""
    outputs = _own_outputs(call)
    return outputs and [f(np.asarray(outputs[0])), *outputs[1:]]


def scaled_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs whose result is times or over a size: a mean stands for a sum, or a scale."""
    for (text, size), (how, power) in itertools.product(_sizes_of(call).items(), POWERS.items()):
        scaled = functools.partial(_scaled, size=size, power=power)
        yield Program(f"the result is {how} {text}", scaled, is_term=True)
        if call.defaults.get("scale", 0) is None:
            change = functools.partial(_with_scale, size=size, power=power)
            yield Program(f"scale is 1 {how} {text}", functools.partial(with_reading, change))


def _with_scale(call: ReferenceCall, *, size: Any, power: float) -> ReferenceCall:
    """Return a call whose scale is a power of a size where it has the usual one."""
    if call.settings["scale"] is not None:
        return call
    return call.with_options(scale=size([np.asarray(a) for _, a in _float_leaves(call)]) ** power)


def _sizes_of(call: ReferenceCall) -> dict[str, Any]:
    """Return descriptions of sizes, each with a function of the arrays of a call that has it."""
    sizes: dict[str, Any] = {}
    leaves = _float_leaves(call)
    for number, (name, a) in enumerate(leaves):
        axes = range(-np.ndim(a), 0)
        for some in itertools.chain(*(itertools.combinations(axes, n) for n in (1, 2, 3))):
            which = f"axes {some}" if len(some) > 1 else f"axis {some[0]}"
            sizes[f"the size of {which} of {name}"] = functools.partial(_size, number, some)
        for other, (of, b) in enumerate(leaves):
            for axis in range(np.ndim(b)):
                share = functools.partial(_share, number, other, axis)
                sizes[f"the size of {name} over the size of axis {axis} of {of}"] = share
    return sizes


def _size(number: int, axes: tuple[int, ...], arrays: list[Any]) -> float:
    """Return how many numbers an array has along some axes."""
    return float(np.prod([arrays[number].shape[axis] for axis in axes]))


def _share(number: int, other: int, axis: int, arrays: list[Any]) -> float:
    """Return how many numbers of an array there are for each entry along an axis of another."""
    return float(arrays[number].size / arrays[other].shape[axis])


#: Powers of a size that a result is multiplied by.
POWERS = {
    "multiplied by": 1.0,
    "divided by": -1.0,
    "multiplied by the root of": 0.5,
    "divided by the root of": -0.5,
}


def _scaled(call: ReferenceCall, *, size: Any, power: float) -> list[Any] | None:
    """Return the outputs times a power of a size."""
    # another case may have fewer arrays or axes, or a size of 0
    with contextlib.suppress(LookupError, ZeroDivisionError):
        factor = size([np.asarray(a) for _, a in _float_leaves(call)]) ** power
        return _after(lambda a: factor * a, call)
    return None


def _after(f: Any, call: ReferenceCall) -> list[Any] | None:
    """Return the outputs with a function applied to those that are floats."""
    outputs = _own_outputs(call)
    return outputs and [f(a) if is_float(a) else a for a in outputs]


def _own_outputs(call: ReferenceCall) -> list[Any] | None:
    """Return the outputs of the map itself, which are computed once for all programs."""
    outputs: list[Any] | None = next(iter(call.once(_unchanged)))
    return outputs


def _unchanged(call: ReferenceCall) -> Iterator[list[Any] | None]:
    """Yield the outputs of the map itself."""
    yield with_reading(lambda own: own, call)


def _twice(call: ReferenceCall) -> list[Any] | None:
    """Return the outputs for the first output in place of the first input of its shape."""
    outputs = _own_outputs(call)
    shapes = [np.shape(a) if is_float(a) else None for a in call.arguments]
    if not outputs or np.shape(outputs[0]) not in shapes:
        return None
    k = shapes.index(np.shape(outputs[0]))
    arguments = (*call.arguments[:k], outputs[0], *call.arguments[k + 1 :])
    return with_reading(lambda own: replace(own, arguments=arguments), call)


def _leaf_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield the program that treats each array of a tree by itself."""
    if call.form == "forward" and len(tree_leaves(call.arguments[:1])) > 1:
        yield Program(f"each array of {call.names[0]} is treated alone", _each_leaf)


def _each_leaf(call: ReferenceCall) -> list[Any] | None:
    """Return the first output for each array of a tree alone, and the others as they are."""
    tree, *rest = call.arguments
    leaves = tree_leaves(tree)
    alone = [
        with_reading(lambda own, a=a: replace(own, arguments=((a,), *rest)), call) for a in leaves
    ]
    outputs = _own_outputs(call)
    if outputs is None or not all(alone) or len(outputs) < len(leaves):
        return None
    rest = outputs[len(leaves) :]
    return [part[0] for part in alone if part] + rest


def _float_leaves(call: ReferenceCall) -> list[tuple[str, Any]]:
    """Return the names of the arrays of floats that a call has, and the arrays; no tangents."""
    names = ["dout"] * (call.form == "vjp") + call.names
    arrays = call.inputs if call.form == "jvp" else call.arguments
    every = (leaf for pair in zip(names, arrays, strict=True) for leaf in named_leaves(*pair))
    return [(name, a) for name, a in every if is_float(a)]


def _with_coupled_decay(call: ReferenceCall) -> ReferenceCall:
    params, grads, *rest = call.arguments
    decay = call.settings["weight_decay"]
    grads = tree_unflatten(
        grads, (g + decay * p for p, g in zip(tree_leaves(params), tree_leaves(grads), strict=True))
    )
    return replace(call, arguments=(params, grads, *rest)).with_options(weight_decay=0.0)


def _with_late_decay(call: ReferenceCall) -> list[Any] | None:
    outputs = with_reading(lambda own: own.with_options(weight_decay=0.0), call)
    if outputs is None or "learning_rate" not in call.settings:
        return None
    kept = 1 - call.settings["learning_rate"] * call.settings["weight_decay"]
    count = len(tree_leaves(call.arguments[0]))
    return [kept * a for a in outputs[:count]] + outputs[count:]


def _entry_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that read some entries of an array in place of others."""
    if call.form == "jvp":
        return
    leaves = _float_leaves(call)
    for numbers in _groups_of_leaves(leaves):
        names, a = _names_of(leaves, numbers), leaves[numbers[0]][1]
        for axis in (axis for axis in range(-np.ndim(a), 0) if np.shape(a)[axis] > 1):
            for how, f in ENTRIES.items():
                change = functools.partial(
                    _with_leaves, numbers=numbers, f=functools.partial(f, axis=axis)
                )
                message = how.format(f"of {names} along axis {axis}")
                yield Program(message, functools.partial(with_reading, change))


def _groups_of_leaves(leaves: list[tuple[str, Any]]) -> list[tuple[int, ...]]:
    """Return the numbers of single arrays, and of all arrays that have a shape in common."""
    by_shape: dict[Any, list[int]] = {}
    for i, (_, a) in enumerate(leaves):
        by_shape.setdefault(np.shape(a), []).append(i)
    alone: list[tuple[int, ...]] = [(i,) for i in range(len(leaves))]
    return alone + [tuple(some) for some in by_shape.values() if len(some) > 1]


def _names_of(leaves: list[tuple[str, Any]], numbers: tuple[int, ...]) -> str:
    return " and ".join(leaves[i][0] for i in numbers)


def _tuple_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that read one entry of an option for all axes, or the entries backwards."""
    for key, value in call.settings.items():
        if isinstance(value, tuple) and len({*map(repr, value)}) > 1:
            for how, f in TUPLES.items():
                change = functools.partial(_with_tuple, key=key, f=f)
                message = how.format(key)
                yield Program(message, functools.partial(with_reading, change))


def _with_tuple(call: ReferenceCall, *, key: str, f: Any) -> ReferenceCall:
    value = call.settings.get(key)
    return call.with_options(**{key: f(value)}) if isinstance(value, tuple) else call


#: How kernels read an option that has an entry for each axis.
TUPLES: dict[str, Any] = {
    "the first entry of {} stands for all axes": lambda a: a[:1] * len(a),
    "the last entry of {} stands for all axes": lambda a: a[-1:] * len(a),
    "the entries of {} are read backwards": lambda a: a[::-1],
}


def _group_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that read a vector by the number of the group that an entry is in."""
    if call.form == "jvp":
        return
    leaves = _float_leaves(call)
    vectors = [s for s in _groups_of_leaves(leaves) if np.ndim(leaves[s[0]][1]) == 1]
    for numbers, name in itertools.product(vectors, _counts(call)):
        for how, f in IN_GROUPS.items():
            change = functools.partial(_with_groups, numbers=numbers, name=name, f=f)
            message = f"{how} of {_names_of(leaves, numbers)} for each of {name}"
            yield Program(message, functools.partial(with_reading, change))


def _counts(call: ReferenceCall) -> dict[str, int]:
    """Return the inputs and options that are integers above 1."""
    every = {**dict(zip(call.names, call.inputs, strict=True)), **call.settings}
    return {name: value for name, value in every.items() if type(value) is int and value > 1}


def _with_groups(
    call: ReferenceCall, *, numbers: tuple[int, ...], name: str, f: Any
) -> ReferenceCall:
    """Return a call in which vectors are read by groups, as many as an integer says."""
    count = _counts(call).get(name, 1)
    return _with_leaves(call, numbers=numbers, f=lambda a: a[f(np.arange(len(a)), count, len(a))])


#: Which of n entries is read for each, where there are some groups.
IN_GROUPS: dict[str, Any] = {
    "one entry is read": lambda i, groups, n: i // (n // groups),
    "the first entries are read again": lambda i, groups, n: i % (n // groups),
    "entries in turn are read": lambda i, groups, n: i % groups,
}


def part_readings(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that read one part of a fused array, such as a gate, in place of others."""
    leaves = [] if call.form == "jvp" else _float_leaves(call)
    for numbers, count in itertools.product(_groups_of_leaves(leaves), PARTS):
        names = _names_of(leaves, numbers)
        shape = np.shape(leaves[numbers[0]][1])
        for axis in sorted({0, len(shape) - 1}) if shape else ():
            for order in _orders_of_parts(count) if shape[axis] % count == 0 else ():
                f = functools.partial(_in_parts, order=order, axis=axis)
                change = functools.partial(_with_leaves, numbers=numbers, f=f)
                moved = [i for i, k in enumerate(order) if k != i]
                which = f"part {moved[0]}" if len(moved) == 1 else "parts {} and {}".format(*moved)
                message = (
                    f"part {order[moved[0]]} of {count} of {names} along axis {axis} "
                    f"is read in place of {which}"
                )
                yield Program(message, functools.partial(with_reading, change))


def _orders_of_parts(count: int) -> Iterator[tuple[int, ...]]:
    """Yield which part is read in each place: one or two of them are another, the same one."""
    for k, n in itertools.product(range(count), (1, 2)):
        others = [i for i in range(count) if i != k]
        for moved in itertools.combinations(others, n):
            yield tuple(k if i in moved else i for i in range(count))


def _in_parts(a: Any, *, order: tuple[int, ...], axis: int) -> Any:
    parts = np.split(a, len(order), axis)
    return np.concatenate([parts[k] for k in order], axis)


def _with_leaves(call: ReferenceCall, *, numbers: tuple[int, ...], f: Any) -> ReferenceCall:
    """Return a call with other arrays in place of some, by their numbers among all."""
    count = itertools.count()
    changed = map_floats(lambda a: f(a) if next(count) in numbers else a, call.arguments)
    return replace(call, arguments=changed)


def with_leaf(call: ReferenceCall, *, number: int, f: Any) -> ReferenceCall:
    """Return a call with another array in place of one, by its number among all."""
    return _with_leaves(call, numbers=(number,), f=f)


#: How kernels read the entries of an array along an axis.
ENTRIES: dict[str, Any] = {
    "the first entry {} stands for all": lambda a, axis: np.repeat(
        a.take([0], axis), a.shape[axis], axis
    ),
    "the last entry {} stands for all": lambda a, axis: np.repeat(
        a.take([-1], axis), a.shape[axis], axis
    ),
    "only the last entry {} is read: the others count as 0": functools.partial(
        in_block, size=1, which="last"
    ),
    "only the first entry {} is read: the others count as 0": functools.partial(
        in_block, size=1, which="first"
    ),
    "the last entry {} is left out": lambda a, axis: a - in_block(a, 1, axis, which="last"),
    "the first entry {} is left out": lambda a, axis: a - in_block(a, 1, axis, which="first"),
    "the order {} is reversed": np.flip,
    "each entry {} is the one before": functools.partial(np.roll, shift=1),
    "each entry {} is the one after": functools.partial(np.roll, shift=-1),
    "neighbors {} are taken for halves": lambda a, axis: a.take(_in_turn(a, axis), axis),
    "halves {} are taken for neighbors": lambda a, axis: a.take(
        np.argsort(_in_turn(a, axis)), axis
    ),
    "memory {} and the one before it is read in the other order": lambda a, axis: (
        np.swapaxes(a, axis, axis - 1).reshape(a.shape) if np.ndim(a) > -axis else a
    ),
}


def _in_turn(a: Any, axis: int) -> Any:
    """Return the even places of an axis, then the odd ones."""
    places = np.arange(np.shape(a)[axis])
    return np.concatenate([places[::2], places[1::2]])


def _over(norm: Any, a: Any) -> Any:
    """Return an array over a norm of its last axis."""
    return a / norm(a, axis=-1, keepdims=True) if np.ndim(a) else a


def _less(statistic: Any, a: Any) -> Any:
    """Return an array less a statistic of its last axis."""
    return a - statistic(a, axis=-1, keepdims=True) if np.ndim(a) else a


#: What people apply to an input or a result where nothing is due.
COMPOSED: dict[str, Any] = {
    "exp({})": np.exp,
    "log({})": np.log,
    "sqrt({})": np.sqrt,
    "square({})": np.square,
    "1 / {}": np.reciprocal,
    "log(2) * {}": lambda a: LN2 * a,
    "{} / log(2)": lambda a: a / LN2,
    "-{}": np.negative,
    "1 - {}": lambda a: 1 - a,
    "abs({})": np.abs,
    "maximum({}, 0)": lambda a: np.maximum(a, 0),
    "sigmoid({})": lambda a: 1 / (1 + np.exp(-a)),
    "tanh({})": np.tanh,
    "softmax({})": lambda a: HELPERS["softmax"](a) if np.ndim(a) else a,
    "log(softmax({}))": lambda a: np.log(HELPERS["softmax"](a)) if np.ndim(a) else a,
    "exp({} / 2)": lambda a: np.exp(a / 2),
    "log(square({}))": lambda a: np.log(np.square(a)),
    "1 / sqrt({})": lambda a: 1 / np.sqrt(a),
    "{}, over its sum,": functools.partial(_over, np.sum),
    "{}, over its norm,": functools.partial(_over, np.linalg.norm),
    "{}, less its mean,": functools.partial(_less, np.mean),
    "{}, less its maximum,": functools.partial(_less, np.max),
}


def with_reading(change: Any, call: ReferenceCall) -> list[Any] | None:
    """Return the outputs of the map for a changed call."""
    check_time()
    with contextlib.suppress(Exception):  # the map may refuse it
        parts = tree_leaves(change(call).run())
        return [None if part is None else np.asarray(part) for part in parts]
    return None


def change_of(program: Program) -> Any:
    """Return the change of a call that a program consists of; None if it is another one."""
    run = program.run
    return run.args[0] if getattr(run, "func", None) is with_reading else None


def _with_inputs(call: ReferenceCall, *, f: Any, count: int) -> ReferenceCall:
    first, rest = call.arguments[:count], call.arguments[count:]
    return replace(call, arguments=(*map_floats(f, first), *rest))


def with_default(call: ReferenceCall, *, key: str, due: float, value: float) -> ReferenceCall:
    """Return a call with another value of an option, where it has a certain one."""
    return call.with_options(**{key: value}) if call.settings.get(key) == due else call


def without_option(call: ReferenceCall, *, key: str) -> ReferenceCall:
    """Return a call without an option."""
    return call.with_options(**{key: call.defaults[key]})


def _to_ten_bits(a: Any, *, nearest: bool) -> Any:
    """Return numbers whose float32 mantissa has 10 bits, as tensor cores read them."""
    bits = np.asarray(a, np.float32).view(np.uint32)
    bits = (bits + np.uint32(0x1000) if nearest else bits) & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


#: How kernels read their inputs.
READ_AS: dict[str, Any] = {
    "rounded to the 10 bits of TF32 or float16": functools.partial(_to_ten_bits, nearest=True),
    "cut to the 10 bits of TF32": functools.partial(_to_ten_bits, nearest=False),
    **{f"rounded to {name}": f for name, f in FORMATS.items()},
}


class _Block(NamedTuple):
    """How an axis of an input is read: a size that it has, and another one that it is read as."""

    k: int
    axis: int | None  # None is the axis that the option 'axis' says
    size_of: Any  # from the size of the axis to the size that is read

    def axis_and_sizes(self, call: ReferenceCall) -> tuple[int, int, int]:
        """Return the axis, its size and the size that is read."""
        a = call.inputs[self.k]
        axis = call.settings["axis"] if self.axis is None else self.axis
        axis = axis if axis < 0 else axis - np.ndim(a)
        n = np.shape(a)[axis]
        return axis, n, self.size_of(n) or n  # where no block is whole, all is read

    def changed(self, call: ReferenceCall) -> ReferenceCall:
        """Return a call whose arrays have the size that is read in place of the axis's own."""
        place, n, size = self.axis_and_sizes(call)

        def resized(a: Any) -> Any:
            return _resized(a, place, n, size) if isinstance(a, np.ndarray) else a

        options = {key: map_leaves(resized, value) for key, value in call.options.items()}
        return replace(call, arguments=map_leaves(resized, call.arguments), options=options)

    def run(self, call: ReferenceCall) -> list[Any] | None:
        """Return the outputs of that call, in their own sizes."""
        if (outputs := with_reading(self.changed, call)) is None:
            return None
        place, n, size = self.axis_and_sizes(call)
        with contextlib.suppress(ValueError):
            return [None if part is None else _resized(part, place, size, n) for part in outputs]
        return None


def _block_programs(call: ReferenceCall) -> Iterator[Program]:
    """Yield programs that count the padding of a block, or leave the last block out."""
    for k, a in enumerate(call.inputs):
        axes: list[int | None] = [*range(-np.ndim(a) if is_float(a) else 0, 0)]
        if not k and isinstance(call.settings.get("axis"), int):
            axes = [None]
        for axis in axes:
            where = f"axis {axis} of {call.names[k]}" if axis is not None else "the axis"
            for how, size_of in READ_IN_BLOCKS.items():
                yield Program(f"{where} is {how}", _Block(k, axis, size_of).run)


def _sizes(block: int) -> dict[str, Any]:
    size = f"a multiple of {block}"
    return {
        f"padded to {size}, and the padding is counted": lambda n: padded(n, block),
        f"cut to {size}: the last block is left out": lambda n: n // block * block,
        f"read up to {block}, and left out beyond": lambda n: min(n, block),
    }


#: How many numbers of an axis kernels read that have blocks of one size, or a power of two.
READ_IN_BLOCKS: dict[str, Any] = {
    **{how: f for block in BLOCKS for how, f in _sizes(block).items()},
    "padded to a power of two, and the padding is counted": lambda n: padded(n, 0),
}


def _resized(a: Any, place: int, n: int, size: int) -> Any:
    """Return an array whose axes of one size have another: more is 0, or True."""
    for axis, count in enumerate(a.shape):
        if count != n or (n == 1 and axis != a.ndim + place):  # an axis of one is seldom this one
            continue
        if size <= n:
            a = a.take(range(size), axis)
        else:
            if a.size // n * size > MAX_PADDED:
                msg = "so large an array is not padded"
                raise ValueError(msg)
            more = [(0, size - n if i == axis else 0) for i in range(a.ndim)]
            a = np.pad(a, more, constant_values=a.dtype.kind == "b")
    return a

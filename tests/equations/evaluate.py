r"""The evaluation of displayed equations: a tree of `tex.py` in an environment of values.

An environment maps names, written in TeX, to numbers, arrays, functions (`\sigma`), index sets
(a range), and quantities that depend on others (`Of`). A name that it lacks is defined by the
equation that has it on its left side. Derivatives need no entry: `\pdv{L}{x}`, `\dot y` and `f'`
are complex steps through what `L`, `y` and `f` are computed from.
"""

import functools
import itertools
import math
import zlib

import numpy as np
import scipy.integrate
import scipy.linalg
import scipy.special
from equations import numeric, tex
from equations.tex import Name, Node

STEP = 1e-100


def diagonal(*parts):
    """Return a diagonal matrix of a vector, or of matrices."""
    blocks = parts if len(parts) > 1 else parts[0]
    is_vector = len(parts) == 1 and np.ndim(blocks) == 1
    return np.diag(blocks) if is_vector else scipy.linalg.block_diag(*blocks)


FUNCTIONS = {
    r"\log": np.log, r"\exp": np.exp, r"\tanh": np.tanh, r"\sin": np.sin, r"\cos": np.cos,
    r"\tan": np.tan, r"\sinh": np.sinh, r"\cosh": np.cosh, "sign": lambda x: np.sign(x.real),
    "erf": scipy.special.erf,
    "artanh": np.arctanh, "diag": diagonal, "tr": np.trace, r"\det": np.linalg.det,
    "Re": np.real, "Im": np.imag, "round": np.round, "sg": lambda x: x,
    "relu": lambda x: np.where(np.real(x) > 0, x, 0 * x),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "clip": lambda x, low, high: pick([pick([x, low], max), high], min),
}  # fmt: skip
CONSTANTS = {
    "e": math.e, r"\pi": math.pi, r"\mathrm{i}": 1j, r"\vec{0}": 0.0, r"\infty": math.inf,
}  # fmt: skip
TERMS = 60  # of a series
COMPARED = {
    "=": lambda a, b: np.abs(a - b) <= 1e-12 * (1 + np.abs(a)),
    "!=": lambda a, b: a != b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b, "in": lambda a, b: a in b,
}  # fmt: skip


class UnknownError(Exception):
    """A name without a value, which may be an index."""

    def __init__(self, name):
        super().__init__(f"no value of {name}")
        self.name = name


class Of:
    """A quantity that a function computes from others, which are named in TeX."""

    def __init__(self, function, *names, **options):
        self.function, self.options = function, options
        self.names = [tex.key_of(name) for name in names]


class From:
    """An array whose first entry has another index than 0; `outside` is what it has beyond."""

    def __init__(self, start, values, outside=None):
        self.start, self.values, self.outside = start, np.asarray(values), outside

    def moved(self, values):
        """Return other values with the same indices."""
        return From(self.start, values, self.outside)


class Random:
    """Names whose values occur together with some probabilities, one array of values a name."""

    def __init__(self, chances, **values):
        self.chances, self.values = np.asarray(chances) / np.sum(chances), values


def normal(name, nodes=40):
    """Return a standard normal number, as nodes of a quadrature."""
    values, weights = np.polynomial.hermite_e.hermegauss(nodes)
    return Random(weights, **{name: values})


def starts_of(value):
    """Return the first indices of the leading axes of an array."""
    return getattr(value, "starts", [getattr(value, "start", 0)])


class Row(np.ndarray):
    """A vector that is transposed."""


def row(vector):
    return np.asarray(vector).view(Row)


def pick(values, choose):
    """Return the largest or smallest number by the real parts; numbers may be complex."""
    values = [np.asarray(v)[()] for v in values]
    if all(np.ndim(v) == 0 for v in values):
        return choose(values, key=np.real)
    values = np.broadcast_arrays(*values)
    result = values[0]
    for other in values[1:]:
        better = (other.real > result.real) if choose is max else (other.real < result.real)
        result = np.where(better, other, result)
    return result


def multiply(first, second):
    """Return a product by the kinds of the factors, which stand side by side."""
    a, b = np.ndim(first), np.ndim(second)
    if a == 0 or b == 0:
        kind = Row if isinstance(first, Row) or isinstance(second, Row) else np.ndarray
        out = np.asarray(first) * np.asarray(second)
        return out.view(kind) if np.ndim(out) else out[()]
    if isinstance(first, Row):
        out = np.asarray(first) @ np.asarray(second)
        return row(out) if np.ndim(out) else out
    if isinstance(second, Row):
        if a != 1:
            msg = "a matrix times a row"
            raise TypeError(msg)
        return np.multiply.outer(np.asarray(first), np.asarray(second))
    if a == 1:
        msg = "two vectors side by side"
        raise TypeError(msg)
    return first @ second


def dotted(first, second):
    """Return a dot product of vectors, or the product of numbers."""
    if np.ndim(first) == np.ndim(second) == 1:
        return np.asarray(first) @ np.asarray(second)
    return multiply(first, second)


def derivative_of(function, order):
    """Return a derivative of a function of one number, for each entry."""
    if order == 1:
        return lambda x: np.imag(function(np.asarray(x + STEP * 1j)[()])) / STEP
    return lambda x: numeric.nth_derivative(function, x, order)[()]


class Environment:
    """Values of names; those that a child overrides hide whatever they are computed from."""

    def __init__(self, values, parent=None, local=None):
        self.own = values if parent else {tex.key_of(k): v for k, v in values.items()}
        self.parent, self.cache = parent, {}
        self.local = local if local is not None else {}

    def moved(self, values):
        """Return a child in which some quantities have other values."""
        return Environment(values, parent=self, local=self.local)

    def find(self, key):
        """Return what a key means, here or in a parent; None if nothing."""
        if key in self.own:
            return self.own[key]
        return self.parent.find(key) if self.parent else None

    def plain(self, key):
        r"""Return a key that has a value, the one without \vec and \mat if need be."""
        for candidate in dict.fromkeys([key, undecorated(key)]):
            if self.find(candidate) is not None or candidate in self.local:
                return candidate
        return None

    def known(self, key):
        """Return the key under which a value is found or can be derived."""
        result = self.plain(key)
        if result:
            return result
        key = undecorated(key).replace(r"\dd{", r"\dot{")
        if key.startswith(r"\dot{"):
            inner = undotted(key)
            return key if self.plain(inner) and not callable(self.find(inner)) else self.plain(key)
        if key.endswith("'") and (
            callable(self.find(key.rstrip("'")))
            or (self.find("at") is not None and self.plain(key.rstrip("'")))
        ):
            return key
        return None

    def value(self, key):
        """Return the value of a known key."""
        if key in self.cache:
            return self.cache[key]
        result = self.find(key)
        if isinstance(result, Of):
            result = result.function(*map(self.array, result.names), **result.options)
        elif result is None and key in self.local:
            return self.local[key]
        elif result is None and key.startswith(r"\dot{"):
            result = self.rate(self.plain(undotted(key)))
        elif result is None and key.endswith("'"):
            result = self.slope(key.rstrip("'"), len(key) - len(key.rstrip("'")))
        if isinstance(result, list | tuple):
            result = np.asarray(result)
        self.cache[key] = result
        return result

    def slope(self, key, order):
        """Return what primes mean: the derivative of a function, or of a quantity along `at`."""
        function = self.find(key)
        if callable(function):
            return derivative_of(function, order)
        at = self.find("at")
        return derivative_of(lambda x: self.moved({at: x}).array(key), order)(self.value(at))

    def array(self, key):
        """Return a value as an array or a number, one that an equation defines as well."""
        value = self.value(self.known(key) or key)
        if isinstance(value, Local):
            return value.array(self)
        return value.values if isinstance(value, From) else value

    def leaves(self, key):
        """Return the given quantities that one depends on."""
        result = self.find(key)
        if isinstance(result, Of):
            return set().union(*(self.leaves(self.plain(name)) for name in result.names))
        if key in self.local:
            msg = rf"\dot {key}"
            raise UnknownError(msg)
        return {key}

    def rate(self, key):
        """Return the tangent of a quantity: drawn, or by a complex step along those of others."""
        value = self.find(key)
        if not isinstance(value, Of):
            shape = np.shape(value.values if isinstance(value, From) else value)
            drawn = np.random.default_rng(zlib.crc32(key.encode())).normal(size=shape)
            return value.moved(drawn) if isinstance(value, From) else drawn
        step = {}
        for leaf in sorted(self.leaves(key)):
            tangent = self.value(rf"\dot{{{leaf}}}" if "_" not in leaf else dotted_key(leaf))
            step[leaf] = self.shifted(leaf, tangent)
        return self.imaginary(self.moved(step).value(key))

    def shifted(self, key, tangent):
        value, tangent = self.value(key), getattr(tangent, "values", tangent)
        if isinstance(value, From):
            return value.moved(value.values + 1j * STEP * tangent)
        return np.asarray(value + 1j * STEP * np.asarray(tangent))[()]

    def imaginary(self, value):
        if isinstance(value, From):
            return value.moved(np.imag(value.values) / STEP)
        return np.imag(value) / STEP

    def steps(self, key):
        """Yield an environment for each entry of a quantity, which has moved there."""
        base = self.array(key)
        for index in np.ndindex(np.shape(base)):
            tangent = np.zeros(np.shape(base))
            tangent[index] = 1
            if key in self.local:
                yield self.moved({key: np.asarray(base + 1j * STEP * tangent)[()]})
            else:
                self.value(key)
                yield self.moved({key: self.shifted(key, tangent)})

    def derivative(self, first, second):
        """Return all derivatives of a quantity by another: axes of the first, then the second."""
        name = rf"\pdv{{{first}}}{{{second}}}"
        if self.find(name) is not None:
            return self.find(name)
        if name not in self.cache:
            if not isinstance(self.find(first), Of) and first not in self.local and first != second:
                raise UnknownError(name)
            columns = [np.imag(step.array(first)) / STEP for step in self.steps(second)]
            out = np.stack(columns, axis=-1)
            out = out.reshape(out.shape[:-1] + np.shape(self.array(second)))
            self.cache[name] = self.like(first, second, out)
        return self.cache[name]

    def like(self, first, second, out):
        """Return derivatives with the first indices of what they are derivatives of."""
        values = [self.find(first), self.find(second)]
        starts = []
        for key, result in zip((first, second), values, strict=True):
            value = self.value(key) if isinstance(result, Of) else result
            axes = np.ndim(self.array(key))
            start = value.start if isinstance(value, From) else 0
            starts += [start, *[0] * (axes - 1)] if axes else []
        return Shifted(starts, out) if any(starts) else out


class Shifted:
    """An array with a first index for each axis."""

    def __init__(self, starts, values):
        self.starts, self.values = starts, values


class Local:
    """What an equation defines: an expression of its indices."""

    def __init__(self, evaluator, indices, body):
        self.evaluator, self.indices, self.body = evaluator, indices, body
        self.is_used = False

    def at(self, environment, values):
        self.is_used = True
        scope = dict(zip(self.indices, values, strict=True))
        key = (id(self), tuple(values))
        if key not in environment.cache:
            environment.cache[key] = Evaluator(environment).at(self.body, scope)
        return environment.cache[key]

    def array(self, environment, values=()):
        """Return all entries."""
        if len(values) == len(self.indices):
            return self.at(environment, list(values))
        indices = Evaluator(environment).indices(self.indices[len(values)], (self.body,))
        return np.array([self.array(environment, (*values, i)) for i in indices])


def undecorated(key):
    r"""Return a key without \vec and \mat."""
    while True:
        m = tex.re.search(r"\\(?:vec|mat)\{", key)
        if not m:
            return key
        depth, end = 1, m.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(key[end], 0)
            end += 1
        key = key[: m.start()] + key[m.end() : end - 1] + key[end:]


def undotted(key):
    r"""Return the key without \dot, which may carry a subscript: \dot{W}_{h} gives W_{h}."""
    depth, end = 1, len(r"\dot{")
    while depth:
        depth += {"{": 1, "}": -1}.get(key[end], 0)
        end += 1
    return key[len(r"\dot{") : end - 1] + key[end:]


def dotted_key(key):
    base, mark, rest = key.partition("_")
    return rf"\dot{{{base}}}{mark}{rest}"


class Evaluator:
    """Computes nodes in an environment; a scope holds the values of indices."""

    def __init__(self, environment):
        self.environment = environment

    def at(self, node, scope):
        """Return the value of a node."""
        return getattr(self, KINDS.get(node.kind, node.kind))(node, scope)

    def both(self, node, scope):
        return [self.at(part, scope) for part in node.parts]

    # Names

    def name(self, node, scope):
        """Return the value of a name, an entry of an array, or an index."""
        if not node.sub and not node.sup and node.key in scope:
            return scope[node.key]
        is_power = node.upper is not None and not node.sub and not node.primes
        if is_power and node.base in scope and node.base not in CONSTANTS:
            return self.raised(scope[node.base], self.at(node.upper, scope))
        result = self.resolved(node, scope)
        if result is None:
            return self.constant(node, scope)
        key, indices, power = result
        value = self.entry(self.environment.value(key), indices, scope)
        if callable(value):
            at = self.environment.find("at")
            value = value(self.environment.value(at)) if at else value
        return self.raised(value, self.at(node.upper, scope)) if power else value

    def constant(self, node, scope):
        if node.base in {r"\delta", r"\mathbf"} and len(node.indices) == 2:
            first, second = (self.index(i, scope) for i in node.indices)
            return float(first == second)
        if node.base in CONSTANTS and not node.sub and not node.primes:
            value = CONSTANTS[node.base]
            return value if node.upper is None else value ** np.asarray(self.at(node.upper, scope))
        if node.sup and not node.sub and node.base in scope and node.upper is not None:
            return scope[node.base] ** self.at(node.upper, scope)
        raise UnknownError(node.key)

    def resolved(self, node, scope=()):
        """Return which key a name has here, the expressions of its indices, and if it has a power.

        A subscript or superscript may be a part of the key, an index, or a power.
        """
        known, tail = self.environment.known, node.primes
        sub, sup = tex.subscript(node.sub), tex.superscript(node.sup)
        is_power = node.upper is not None
        tries = [(sub + sup, (), False)]
        inner = node.upper.parts[0] if getattr(node.upper, "kind", "") == "group" else None
        if isinstance(inner, Name):  # W^{(h)}
            tries += [(sub, (inner,), False), ("", (inner, *node.indices), False)]
        tries += [(sub, (), True)]
        if len(node.groups) > 1:  # z_{f, t}
            first, _ = tex.indices_of(tex.Parser(""), tex.tokens(node.groups[0]))
            rest = node.indices[len(first) :]
            head = tex.subscript(node.groups[0])
            tries += [(head + sup, rest, False), (head, rest, True)]
        if node.indices:
            tries += [(rf"_{{\cdot}}{sup}", node.indices, False)]
            tries += [(r"_{\cdot}", node.indices, True), (sup, node.indices, False)] if sup else []
            tries += [("", node.indices, bool(sup))]
        for suffix, indices, power in tries:
            if power and not is_power and sup:
                continue
            key = known(node.base + suffix + tail)
            if key is not None and not isinstance(self.environment.find(key), range):
                return key, indices, power and bool(sup)
        return None

    def index(self, node, scope):
        """Return an index, a whole number."""
        if isinstance(node, Name) and node.key in CONSTANTS and node.key not in scope:
            raise UnknownError(node.key)
        value = self.at(node, scope)
        if isinstance(value, str):
            return value
        whole = int(np.real(value))
        return whole if whole == value else value  # D_\phi: a matrix for each angle

    def entry(self, value, indices, scope, axes=None):  # noqa: PLR0911
        """Return an entry of an array, or of what an equation defines."""
        if isinstance(value, Local) and indices and not value.indices:
            value = value.array(self.environment)  # an entry of a matrix that an equation defines
        if isinstance(value, Local):
            if not indices and value.indices:
                return value.array(self.environment)
            if not indices:
                value.is_used = True
                return self.at(value.body, scope)
            if len(indices) != len(value.indices):
                msg = "of a local name"
                raise IndexError(msg)
            return value.at(self.environment, [self.index(i, scope) for i in indices])
        if not indices:
            return getattr(value, "values", value)
        if callable(value):
            return value(*(self.index(i, scope) for i in indices))
        array = np.asarray(getattr(value, "values", value))
        starts = starts_of(value)
        axes = range(len(indices)) if axes is None else axes
        if len(indices) > array.ndim:
            msg = f"{len(indices)} indices of {array.ndim} axes"
            raise IndexError(msg)
        starts = [starts[axis] if axis < len(starts) else 0 for axis in axes]
        result = [slice(None)] * array.ndim
        for axis, start, index in zip(axes, starts, indices, strict=True):
            result[axis] = self.index(index, scope) - start
            if not 0 <= result[axis] < array.shape[axis]:
                if getattr(value, "outside", None) is not None:
                    return np.full_like(array[(0,) * len(indices)], value.outside)[()]
                msg = f"{result[axis]} of {array.shape[axis]}"
                raise IndexError(msg)
        return array[tuple(result)]

    def indices(self, name, nodes):
        """Return the set of an index: as given, or as the axis of an array has it."""
        explicit = self.environment.find(name)
        if isinstance(explicit, range | set | frozenset | list):
            return explicit
        result = self.axis(name, nodes, set())
        if result is None:
            raise UnknownError(name)
        return result

    def axis(self, name, nodes, seen):
        """Return the indices of the first axis in nodes that an index runs along, or None."""
        for node in nodes:
            if isinstance(node, Name):
                result = self.axis_of_entry(name, node, seen)
                parts = (*node.indices, node.upper)
            elif isinstance(node, Node | tuple):
                result, parts = None, node.parts if isinstance(node, Node) else node
            else:
                continue
            result = self.axis(name, parts, seen) if result is None else result
            if result is not None:
                return result
        return None

    def axis_of_entry(self, name, node, seen):
        """Return the indices of an axis of an entry, if the index is one of its own."""
        resolved = self.resolved(node)
        if resolved is None:
            return None
        key, indices, _ = resolved
        places = [k for k, i in enumerate(indices) if isinstance(i, Name) and i.key == name]
        value = self.environment.value(key)
        if isinstance(value, Local) and not value.indices:
            value = value.array(self.environment) if places and key not in seen else value
        if isinstance(value, Local):
            if key in seen:
                return None
            names = [value.indices[k] for k in places]
            return self.axis(names[0], (value.body,), {*seen, key}) if names else None
        if not places or callable(value):
            return None
        starts, array = starts_of(value), np.asarray(getattr(value, "values", value))
        start = starts[places[0]] if places[0] < len(starts) else 0
        return range(start, start + array.shape[places[0]])

    # Arithmetic

    def number(self, node, _):
        return float(node.text) if "." in node.text else int(node.text)

    def sum(self, node, scope):
        values = self.both(node, scope)
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    def negative(self, node, scope):
        return -self.at(node.parts[0], scope)

    def group(self, node, scope):
        return self.at(node.parts[0], scope)

    def run(self, node, scope):
        return multiply(*self.both(node, scope))

    def times(self, node, scope):
        return dotted(*self.both(node, scope))

    def hadamard(self, node, scope):
        return np.asarray(np.multiply(*self.both(node, scope)))

    def kronecker(self, node, scope):
        return np.kron(*self.both(node, scope))

    def quotient(self, node, scope):
        above, below = self.both(node, scope)
        if np.ndim(below) and np.ndim(above) != np.ndim(below):
            msg = "a quotient of vectors"
            raise TypeError(msg)
        return above / below

    def power(self, node, scope):
        return self.raised(*self.both(node, scope))

    def raised(self, value, exponent):
        """Return a power: of a matrix, or of each entry."""
        if np.ndim(value) == 2 and np.ndim(exponent) == 0:
            return np.linalg.matrix_power(value, int(exponent))
        if np.ndim(value) == 0 and isinstance(exponent, int | np.integer) and exponent < 0:
            return 1 / value**-exponent
        return value**exponent

    def sqrt(self, node, scope):
        return np.sqrt(self.at(node.parts[0], scope))

    def transposed(self, node, scope):
        value = self.at(node.parts[0], scope)
        return row(value) if np.ndim(value) == 1 else np.swapaxes(value, -1, -2)

    def inverse(self, node, scope):
        return np.linalg.inv(self.at(node.parts[0], scope))

    def entry_of(self, node, scope):
        return self.entry(self.at(node.parts[0], scope), node.parts[1:], scope)

    def absolute(self, node, scope):
        value = self.at(node.parts[0], scope)
        if isinstance(value, set | frozenset | range):
            return len(value)
        if np.ndim(value) == 1:
            return np.sqrt(np.sum(value * value))
        if np.iscomplexobj(value) and np.all(np.abs(np.imag(value)) < STEP * 1e50):
            return np.where(np.real(value) < 0, -value, value)[()]
        return np.abs(value)

    def norm(self, node, scope):
        value = np.asarray(self.at(node.parts[0], scope))
        if node.text == "2" and value.ndim == 2:
            return np.linalg.norm(value, 2)
        if node.text not in {"", "2", "F"}:
            power = self.environment.value(node.text)
            return np.sum(np.where(value.real < 0, -value, value) ** power) ** (1 / power)
        return np.sqrt(np.sum(value * value))

    def floor(self, node, scope):
        return np.floor(np.real(self.at(node.parts[0], scope)))

    def ceil(self, node, scope):
        return np.ceil(np.real(self.at(node.parts[0], scope)))

    def inner(self, node, scope):
        first, second = self.both(node, scope)
        return np.sum(first * second)

    def span(self, node, scope):
        """Return the values from the first to the last of those that are named."""
        first, last = node.parts
        return np.array([self.at(first, scope), *self.between(first, last, scope)])

    def between(self, first, last, scope):
        """Yield the values after the first, to the last: one index of the two differs."""
        (start, end), *rest = tex.differing(first, last)
        assert not rest, "more than one index differs"
        start, end = self.index(start, scope), self.index(end, scope)
        step = 1 if end >= start else -1
        for index in range(start + step, end + step, step):
            yield self.at(tex.with_index(first, last, index), scope)

    def filled(self, node, scope):
        r"""Return a product with \cdots before its last factor."""
        before, last = node.parts
        first = before.parts[1] if before.kind == "run" else before
        return functools.reduce(multiply, self.between(first, last, scope), self.at(before, scope))

    def factorial(self, node, scope):
        return math.factorial(self.index(node.parts[0], scope))

    def primed(self, node, scope):
        """Return the derivative of an expression along `at`."""
        at = self.environment.find("at")
        if at is None:
            raise UnknownError(at)
        moved = lambda x: Evaluator(self.environment.moved({at: x})).at(node.parts[0], scope)  # noqa: E731
        return derivative_of(moved, len(node.text))(self.environment.value(at))

    def where(self, node, scope):
        """Return an expression in which a name has a value."""
        body, name, value = node.parts
        moved = self.environment.moved({name.key: float(self.at(value, scope))})
        return Evaluator(moved).at(body, scope)

    def flag(self, node, _):
        """Say whether a case that has a name is the one."""
        value = self.environment.find(node.text)
        if value is None:
            raise UnknownError(node.text)
        return value

    def values(self, node, scope):
        return np.concatenate([np.ravel(v) for v in self.both(node, scope)])

    # Functions

    def function(self, node, scope):
        name, primes = node.text.rstrip("'"), len(node.text) - len(node.text.rstrip("'"))
        first = node.parts[0]
        if name == r"\log" and isinstance(first, Name):
            named = tex.dataclasses.replace(first, base=rf"\log{{{first.base}}}")
            if self.resolved(named) is not None:
                return self.name(named, scope)
        function = self.environment.find(name) or FUNCTIONS[name]
        function = derivative_of(function, primes) if primes else function
        return function(*(np.asarray(v)[()] for v in self.both(node, scope)))

    def call(self, node, scope):
        name, *arguments = node.parts
        key, indices, power = self.resolved(name, scope)
        value = self.environment.value(key)
        if indices:
            value = value(*(self.index(i, scope) for i in indices))
        if isinstance(value, Local):
            raise UnknownError(key)
        out = value(*(np.asarray(self.at(a, scope))[()] for a in arguments))
        return self.raised(out, self.at(name.upper, scope)) if power else out

    def mean(self, node, scope):
        """Return the mean of the entries of vectors, multiplied entry by entry."""
        name, inner = node.parts
        if self.resolved(name) is not None:
            return self.name(name, scope)
        return np.mean(EntryByEntry(self.environment).at(inner, scope))

    def derivative(self, node, scope):
        """Return a derivative: an entry of all derivatives, or a complex step through a node."""
        above, by = node.parts
        if by.kind != "name":
            msg = "a derivative by an expression"
            raise UnknownError(msg)
        explicit = self.explicit(above, by, node.text)
        if explicit is not None:
            rows = () if self.environment.find(above.key) is not None else above.indices
            return self.entry(explicit, (*rows, *by.indices), scope)
        result = self.resolved(by)
        if result is None:
            raise UnknownError(by.key)
        key, indices, _ = result
        if above.kind == "name" and (self.resolved(above) or (None,))[0] is not None:
            top, rows, _ = self.resolved(above)
            explicit = self.environment.find(rf"\pdv{{{top}}}{{{key}}}")
            if explicit is not None or top != key:
                value = self.environment.derivative(top, key)
                return self.derivative_at(value, top, rows, indices, scope)
        base = self.environment.array(key)
        if len(indices) != np.ndim(base):
            msg = "a derivative of an expression by an array"
            raise UnknownError(msg)
        full = self.environment.value(key)
        start = getattr(full, "start", 0)
        place = tuple(
            self.index(i, scope) - (start if axis == 0 else 0) for axis, i in enumerate(indices)
        )
        tangent = np.zeros(np.shape(base))
        tangent[place] = 1
        moved = self.environment.moved({key: self.environment.shifted(key, tangent)})
        return np.imag(Evaluator(moved).at(above, scope)) / STEP

    def explicit(self, above, by, kind):
        """Return derivatives that the environment has by the names of both quantities."""
        if above.kind != "name":
            return None
        short = f"{{{above.base}{above.primes}}}{{{by.base}{by.primes}}}"
        long = f"{{{above.key}}}{{{by.key}}}"
        for name in (kind + short, kind + long, r"\pdv" + short, r"\pdv" + long):
            key = self.environment.plain(name)
            if key is not None:
                return self.environment.find(key)
        return None

    def derivative_at(self, value, top, rows, indices, scope):
        """Return the entry at the indices of both quantities."""
        if not rows and not indices:
            return getattr(value, "values", value)
        known = self.environment.find(top) is not None or top in self.environment.local
        axes = np.ndim(self.environment.array(top)) if known else len(rows)
        places = [*range(len(rows)), *range(axes, axes + len(indices))]
        return self.entry(value, (*rows, *indices), scope, places)

    def expected(self, node, scope):
        """Return a mean or a variance over all outcomes of the random names in a body."""
        body, condition = node.parts
        kind, _, which = node.text.partition("_")
        names = self.dependencies(body)
        sources = self.environment.find(rf"\E_{which}" if which else r"\E")
        sources = [s for s in sources if names & {tex.key_of(k) for k in s.values}]
        if not sources:
            return self.at(body, scope) if kind == "E" else 0.0
        chances, values = [], []
        for outcome in itertools.product(*(range(len(s.chances)) for s in sources)):
            pairs = list(zip(sources, outcome, strict=True))
            drawn = {tex.key_of(k): v[i] for s, i in pairs for k, v in s.values.items()}
            inner = Evaluator(self.environment.moved(drawn))
            if condition is None or inner.at(condition, scope):
                chances.append(math.prod(s.chances[i] for s, i in pairs))
                values.append(inner.at(body, scope))
        chances, values = np.array(chances), np.array(values)
        mean = np.tensordot(chances, values, 1)
        return mean if kind == "E" else np.tensordot(chances, (values - mean) ** 2, 1)

    def dependencies(self, node):
        """Return the given names that a node is computed from."""
        if isinstance(node, Name):
            parts, result = (*node.indices, node.upper), self.resolved(node)
            key = result[0] if result else ""
            own = {key}
            if isinstance(self.environment.find(key), Of):
                own |= self.environment.leaves(key)
            elif key in self.environment.local:
                parts = (*parts, self.environment.local[key].body)
        else:
            parts, own = getattr(node, "parts", node) or (), set()
        return own.union(*(self.dependencies(part) for part in parts))

    def integral(self, node, scope):
        """Return an integral by quadrature."""
        body, name, *limits = node.parts
        low, high = (self.at(limit, scope) for limit in limits)
        inner = Evaluator(self.environment)
        value, _ = scipy.integrate.quad(
            lambda z: float(inner.at(body, {**scope, name.key: z})), low, high, epsabs=1e-12,
            epsrel=1e-11, limit=200,
        )  # fmt: skip
        return value

    # Indices and conditions

    def over(self, node, scope):
        """Return a sum, product, maximum or minimum over indices."""
        names, condition, body = node.parts
        if node.text.startswith("arg"):
            return self.best(names, condition, body, scope, max if node.text == "argmax" else min)
        choose = {"sum": add, "prod": chain, "max": largest, "min": smallest}[node.text]
        if not names:
            return choose([self.at(body, scope)])
        return choose(list(self.terms([n.key for n in names], condition, body, scope)))

    def best(self, names, condition, body, scope, choose):
        """Return the index at which a body is largest or smallest."""
        (name,) = names
        inner = {k: v for k, v in scope.items() if k != name.key}
        values = {i: self.at(body, {**inner, name.key: i}) for i in self.indices(name.key, (body,))}
        assert condition is None, "no condition"
        return choose(values, key=values.get)

    def terms(self, names, condition, body, scope):
        """Yield the values of a body for all indices of a condition."""
        if not names:
            if condition is None or condition.kind == "range" or self.at(condition, scope):
                yield self.at(body, scope)
            return
        name, *rest = names
        explicit = self.environment.find(name)
        if isinstance(explicit, list) and isinstance(explicit[0], dict):  # rows with their values
            for values in explicit:
                yield Evaluator(self.environment.moved(values)).at(body, scope)
            return
        if isinstance(explicit, dict):  # a set of several indices
            inner = {key: value for key, value in scope.items() if key not in explicit}
            for values in itertools.product(*explicit.values()):
                result = dict(zip(explicit, values, strict=True))
                yield from self.terms(rest, condition, body, {**inner, **result})
            return
        inner = {k: v for k, v in scope.items() if k != name}
        if condition is not None and condition.kind == "range":
            low, high = condition.parts
            low, is_series = self.index(low, scope), high == Name(r"\infty")
            indices = range(low, low + TERMS if is_series else self.index(high, scope) + 1)
        elif condition is not None and condition.kind == "chain" and condition.text == "in":
            indices = self.at(condition.parts[1], scope)
        else:
            indices = self.indices(name, (body, condition))
        for index in indices:
            yield from self.terms(rest, condition, body, {**inner, name: index})

    def maximum(self, node, scope):
        return self.extreme(node, scope, max)

    def minimum(self, node, scope):
        return self.extreme(node, scope, min)

    def extreme(self, node, scope, choose):
        """Return the largest or smallest of several values, or of a set."""
        values = self.both(node, scope)
        return choose(values[0]) if isinstance(values[0], set) else pick(values, choose)

    def set(self, node, scope):
        """Return the indices for which a condition holds."""
        name, condition = node.parts[0].key, node.parts[1]
        indices = self.indices(name, (condition,))
        return {index for index in indices if self.at(condition, {**scope, name: index})}

    def chain(self, node, scope):
        """Say whether relations hold, or return the value that equal sides have."""
        signs = node.text.split()
        if signs == ["in"]:
            return self.index(node.parts[0], scope) in self.at(node.parts[1], scope)
        values = self.both(node, scope)
        pairs = itertools.pairwise(values)
        return all(bool(COMPARED[s](a, b)) for s, (a, b) in zip(signs, pairs, strict=True))

    def either(self, node, scope):
        return any(self.both(node, scope))

    def all_of(self, node, scope):
        return all(self.both(node, scope))

    def indicator(self, node, scope):
        return float(bool(self.at(node.parts[0], scope)))

    def otherwise(self, *_):
        return True

    def cases(self, node, scope):
        """Return the value of the first case whose condition is true."""
        for value, condition in node.parts:
            if self.at(condition, scope):
                if value.kind != "chain":
                    return self.at(value, scope)
                sides = self.both(value, scope)
                for first, second in itertools.pairwise(sides):
                    np.testing.assert_allclose(first, second, rtol=1e-10)
                return sides[-1]
        msg = "no case"
        raise UnknownError(msg)

    def pmatrix(self, node, scope):
        """Return a matrix, or vectors on top of each other."""
        rows = []
        for k, line in enumerate(node.parts):
            if line[0].kind == "dots":
                continue
            if k and node.parts[k - 1][0].kind == "dots":
                rows += [[value] for value in self.between(node.parts[k - 2][0], line[0], scope)]
            else:
                rows.append([self.at(entry, scope) for entry in line])
        if all(len(line) == 1 for line in rows):
            return np.concatenate([np.atleast_1d(line[0]) for line in rows])
        return np.array(rows)


class EntryByEntry(Evaluator):
    """What stands under the line of a mean: vectors side by side are multiplied by entries."""

    def run(self, node, scope):
        return np.asarray(np.multiply(*self.both(node, scope)))


KINDS = {
    "/": "quotient", "^": "power", r"\cdot": "times", r"\odot": "hadamard", r"\times": "times",
    r"\otimes": "kronecker", "entry": "entry_of", "abs": "absolute", "or": "either",
    "and": "all_of", "max": "maximum", "min": "minimum",
}  # fmt: skip


def add(values):
    if not values:
        return 0
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def chain(values):
    total = values[0] if values else 1
    for value in values[1:]:
        total = multiply(total, value) if np.ndim(total) == 2 else total * value
    return total


def largest(values):
    return pick(values, max)


def smallest(values):
    return pick(values, min)


# Equations


def is_function_in(environment):
    """Return what says whether a name is a function, or the derivative of one."""

    def is_function(key):
        for candidate in (key, tex.re.sub(r"[_'].*$", "", key)):
            known = environment.plain(candidate)
            if known:
                return callable(environment.find(known))
        return False

    return is_function


def defined(node, environment, evaluator):
    """Return the key and indices of a name that an equation defines, or None."""
    left = node.parts[0]
    if left.kind != "name" or node.text.split()[0] != "=" or evaluator.resolved(left) is not None:
        return None
    names = [i for i in left.indices if isinstance(i, Name) and not i.sub]
    fixed = [n for n in names if environment.find(n.key) is not None]
    fixed = [n for n in fixed if not isinstance(environment.find(n.key), range)]
    if left.indices and len(names) == len(left.indices) and not fixed:
        plain = left.base + tex.superscript(left.sup) + left.primes
        return undecorated(plain), [n.key for n in names]
    return undecorated(left.key), []


def lines(texts, values):
    """Yield the sides of all relations of displays that share an environment, as tuples to agree.

    The indices that no sum binds run through their sets. A side that the display itself defines is
    not compared with its own definition.
    """
    environment = Environment(values)
    evaluator = Evaluator(environment)
    branch = environment.find("branch")
    nodes = []
    for text in texts:
        for node, alternative, condition in tex.equations(text, is_function_in(environment)):
            if type(branch) is not type(alternative) or alternative == branch:
                nodes.append((assigned(node), condition))
    definitions = {}
    for node, _ in nodes:
        new = defined(node, environment, evaluator)
        if new:
            definitions[id(node)] = Local(evaluator, new[1], node.parts[1])
            environment.local[new[0]] = definitions[id(node)]
    for node, condition in nodes:
        first = int(id(node) in definitions)
        sides, signs = node.parts[first:], node.text.split()[first:]
        if len(sides) > 1:
            yield from compared(sides, signs, evaluator, {}, condition)
    for node, _ in nodes:
        new = definitions.get(id(node))
        assert new is None or new.is_used or len(node.parts) > 2, f"unused: {node.parts[0].key}"


def assigned(node):
    """Return an assignment as an equation for the value that a name has afterwards: w'."""
    left = node.parts[0]
    if node.text == "<-" and left.kind == "name":
        new = tex.dataclasses.replace(left, primes=left.primes + "'")
        return Node("chain", (new, *node.parts[1:]), "=")
    return node


def compared(sides, signs, evaluator, scope, condition):
    """Yield the values of sides for all values of their free indices."""
    try:
        if condition is not None and not evaluator.at(condition, scope):
            return
        values = [evaluator.at(side, scope) for side in sides]
    except UnknownError as error:
        if error.name in scope:
            raise
        for index in evaluator.indices(error.name, sides):
            inner = {**scope, error.name: index}
            yield from compared(sides, signs, evaluator, inner, condition)
        return
    values = [np.asarray(getattr(v, "values", v)) for v in values]
    if set(signs) <= {"=", "<-"}:
        yield tuple(values)
        return
    for sign, (first, second) in zip(signs, itertools.pairwise(values), strict=True):
        if sign in {"<=", "<"}:
            yield np.all(first <= second + 1e-12 * (1 + np.abs(second))), True
        elif sign in {">=", ">"}:
            yield np.all(first >= second - 1e-12 * (1 + np.abs(second))), True
        else:
            yield first, second


def each(values, given=()):
    """Return an environment for each entry of arrays that have the same length."""
    length = len(next(iter(values.values())))
    return [{**dict(given), **{key: a[n] for key, a in values.items()}} for n in range(length)]


def mapped(function, inputs, y="y", /, **more):
    """Return an environment of a map: inputs, the output y, cotangents u, and their loss L."""
    output = function(*inputs.values())
    u = np.random.default_rng(7).normal(size=np.shape(output))
    loss = Of(lambda y: np.sum(u * y), y)
    return {**inputs, y: Of(function, *inputs), "u": u, "L": loss, **more}


def elementwise(function, inputs, y="y", /, **more):
    """Return the environments of a map of numbers, one for each entry of its inputs."""
    rows = each(inputs)
    return [mapped(function, row, y, **more) for row in rows]

r"""Inline relations, such as :math:`\sigma(x) + \sigma(-x) = 1`: found, read, and evaluated.

A relation between scalars is read as TeX and evaluated: one without variables must be true, and one
that holds for all values of its variables is an *identity*. `inline.toml` lists the identities of
each place, so that a change of one is noticed; ``cd tests; python -m equations.inline`` writes it.
A sentence's definition or assumption is neither, and is left alone.
"""

import itertools
import math
import re
from pathlib import Path

import numpy as np
from equations import ledger

LIST = Path(__file__).with_name("inline.toml")
MATH = re.compile(r":math:`([^`]+)`")
RELATIONS = {
    "=": "=", r"\le": "<=", r"\leq": "<=", r"\ge": ">=", r"\geq": ">=", "<": "<", ">": ">",
    r"\approx": "~",
}  # fmt: skip
TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?(?:\{,\}\d+)*|\s+|.")
FUNCTIONS = {
    r"\log": np.log, r"\exp": np.exp, r"\tanh": np.tanh, r"\sin": np.sin, r"\cos": np.cos,
    r"\sigma": lambda x: 1 / (1 + np.exp(-x)), r"\sinh": np.sinh, r"\cosh": np.cosh,
    r"\Phi": lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), r"\arctan": np.arctan,
    "relu": lambda x: max(x, 0.0), "softplus": lambda x: np.log1p(np.exp(x)), "sign": np.sign,
    "erfc": math.erfc, "erf": math.erf,
}  # fmt: skip
SPACE = {r"\,", r"\;", r"\!", r"\:", r"\ ", r"\quad", r"\qquad", r"\bigl", r"\bigr", r"\Bigl",
         r"\Bigr", r"\left", r"\right", "&"}  # fmt: skip
GREEK = {
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda"),
    *("mu", "nu", "xi", "rho", "sigma", "tau", "phi", "psi", "omega", "Delta", "Phi"),
}
CLOSING = {"(": ")", "{": "}", "[": "]", "|": "|"}
DRAWS = 40


class UnreadableError(Exception):
    """TeX that is no relation between scalars."""


class Reader:
    """A reader of a scalar expression: it returns functions of a dictionary of variables."""

    def __init__(self, text):
        tokens = (t for t in TOKEN.findall(text) if not t.isspace())
        self.tokens = [t.replace("{,}", "") for t in tokens if t not in SPACE]
        self.names = set()

    def next(self):
        """Return the next token without taking it."""
        return self.tokens[0] if self.tokens else ""

    def take(self, want=None):
        """Take a token."""
        if not self.tokens or (want is not None and self.tokens[0] != want):
            raise UnreadableError(want)
        return self.tokens.pop(0)

    def sum(self):
        """Read terms with signs between them."""
        sign = self.take() if self.next() in {"-", "+"} else "+"
        first = self.product()
        value = (lambda env: -first(env)) if sign == "-" else first
        while self.next() in {"+", "-"}:
            value = self.joined(value, self.take(), self.product())
        return value

    @staticmethod
    def joined(one, sign, other):
        """Return a sum, a difference, a product or a quotient of two expressions."""
        return {
            "+": lambda env: one(env) + other(env),
            "-": lambda env: one(env) - other(env),
            "*": lambda env: one(env) * other(env),
            "/": lambda env: one(env) / other(env),
        }[sign]

    def product(self):
        """Read factors, next to each other or with a sign between them."""
        value = self.power()
        while self.next() and self.next() not in {"+", "-", ")", "}", "]", "|", ",", *RELATIONS}:
            sign = "*"
            if self.next() in {"/", r"\cdot", r"\times", r"\odot"}:
                sign = "/" if self.take() == "/" else "*"
            value = self.joined(value, sign, self.power())
        return value

    def power(self):
        """Read a value and its exponent."""
        value = self.value()
        if self.next() == "^":
            self.take()
            exponent = self.argument()
            base = value
            value = lambda env: base(env) ** exponent(env)  # noqa: E731
        return value

    def argument(self):
        """Read a group in braces, or one token."""
        if self.next() == "{":
            return self.group()
        token = self.take()
        if token[0].isdigit() and len(token) > 1:  # \frac12 has two arguments
            self.tokens.insert(0, token[1:])
            token = token[0]
        self.tokens.insert(0, token)
        return self.value()

    def group(self):
        """Read an expression in brackets."""
        end = CLOSING[self.take()]
        value = self.sum()
        self.take(end)
        return value

    def value(self):  # noqa: PLR0911
        """Read a number, a variable, a function of something, or brackets."""
        token = self.next()
        if token in {"(", "{", "["}:
            return self.group()
        if token == "|":
            inner = self.group()
            return lambda env: abs(inner(env))
        self.take()
        if token[0].isdigit():
            return lambda _: float(token)
        if token in {r"\frac", r"\tfrac"}:
            return self.joined(self.argument(), "/", self.argument())
        if token == r"\sqrt":
            inner = self.argument()
            return lambda env: math.sqrt(inner(env))
        if token == r"\abs":
            inner = self.argument()
            return lambda env: abs(inner(env))
        if token in {r"\max", r"\min"}:
            return self.extremum(max if token == r"\max" else min)
        if token == r"\operatorname":
            token = "".join(iter(self.take, "}")).removeprefix("{")
        return self.applied(token)

    def extremum(self, choose):
        """Read the arguments of a maximum or minimum."""
        self.take("(")
        values = [self.sum()]
        while self.next() == ",":
            self.take()
            values.append(self.sum())
        self.take(")")
        return lambda env: choose(v(env) for v in values)

    def applied(self, token):
        """Read what follows a name: an index, or the argument of a function."""
        if token in FUNCTIONS and (token != r"\sigma" or self.next() == "("):
            exponent = None
            if self.next() == "^":
                self.take()
                exponent = self.argument()
            inner = self.group() if self.next() == "(" else self.bare()
            f = FUNCTIONS[token]
            if exponent is None:
                return lambda env: f(inner(env))
            return lambda env: f(inner(env)) ** exponent(env)
        if token == r"\pi":
            return lambda _: math.pi
        if token == "e" and self.next() == "^":
            return lambda _: math.e
        if token.lstrip("\\") not in GREEK and not (len(token) == 1 and token.isalpha()):
            raise UnreadableError(token)
        return self.variable(token)

    def bare(self):
        """Read the argument of a function without brackets: factors up to a sign."""
        value = self.power()
        while self.next() and (self.next()[0].isalnum() or self.next().lstrip("\\") in GREEK):
            value = self.joined(value, "*", self.power())
        return value

    def variable(self, name):
        """Read a variable with its index and primes."""
        if self.next() == "_":
            self.take()
            name += "_" + self.index()
        if self.next() in {"'", "("}:  # a derivative, or a function that is not known here
            raise UnreadableError(name)
        self.names.add(name)
        return lambda env: env[name]

    def index(self):
        """Read an index as text."""
        if self.next() != "{":
            return self.take()
        self.take()
        return "".join(itertools.takewhile(lambda t: t != "}", iter(self.take, None)))


def read(text):
    """Return the sides of a relation, the signs between them, and the names of the variables."""
    reader, sides, signs = Reader(text), [], []
    while True:
        sides.append(reader.sum())
        if not reader.tokens:
            break
        sign = reader.take()
        if sign not in RELATIONS:
            raise UnreadableError(sign)
        signs.append(RELATIONS[sign])
    if not signs:
        raise UnreadableError(text)
    return sides, signs, reader.names


def digits(text):
    """Return how far a number may be from what it abbreviates: half of its last digit."""
    found = re.fullmatch(r"-?\d+(?:\.(\d+))?", text.strip().removesuffix("."))
    return 0.5000001 * 10.0 ** -len(found[1] or "") if found and found[1] else 0.0


def holds(one, sign, other, slack):
    """Whether two values have a relation."""
    if sign == "~":
        return abs(one - other) <= 0.1 * abs(other)
    if sign == "=":
        return abs(one - other) <= max(slack, 1e-9 * max(1.0, abs(one), abs(other)))
    margin = 1e-12 * max(1.0, abs(one), abs(other))
    low, high = (one, other) if sign[0] == "<" else (other, one)
    return low <= high + margin if "=" in sign else low < high


def verdict(text):
    """Return "number" or "identity" if that is so, "false" for numbers, None for all else."""
    try:
        sides, signs, names = read(text)
    except (UnreadableError, IndexError, KeyError):
        return None
    slacks = [digits(part) for part in re.split(r"=|\\le\b|\\ge\b|<|>|\\approx\b", text)]
    rng, valid = np.random.default_rng(0), 0
    for k in range(DRAWS if names else 1):
        scale = 3.0 if k % 2 else 0.9
        env = dict(
            zip(
                sorted(names),
                rng.uniform(-scale if k % 4 > 1 else 0.05, scale, len(names)),
                strict=True,
            )
        )
        try:
            with np.errstate(all="raise"):
                values = [side(env) for side in sides]
        except (ArithmeticError, ValueError, TypeError):
            continue
        if not np.all(np.isfinite(values)) or np.iscomplexobj(np.array(values)):
            continue
        valid += 1
        pairs = zip(values[:-1], signs, values[1:], slacks[:-1], slacks[1:], strict=True)
        if not all(holds(a, s, b, max(x, y)) for a, s, b, x, y in pairs):
            return None if names else "false"
    if valid == 0 or (names and valid < 8):
        return None
    return "identity" if names else "number"


def sources():
    """Yield each place with its text: docstrings, and pages with the parts they are composed of."""
    for path in sorted(ledger.ROOT.glob("dlref/**/*.py")):
        yield from ledger.docstrings(path)
    for pattern in (
        "docs/*.rst",
        "docs/reference/*.rst",
        *(f"docs/{p}/**/*.rst" for p in ledger.PARTS),
    ):
        for path in sorted(ledger.ROOT.glob(pattern)):
            if "_build" not in path.parts:
                yield str(path.relative_to(ledger.ROOT)), path.read_text(encoding="utf-8")


def relations():
    """Yield each place with its inline relations."""
    for place, text in sources():
        for found in MATH.findall(text):
            inline = ledger.normalized(found)
            if any(sign in TOKEN.findall(inline) for sign in RELATIONS):
                yield place, inline


#: One symbol, with accents, an index, an exponent, or an argument: what a definition begins with.
SYMBOL = re.compile(
    r"(\\(vec|mat|hat|bar|dot|tilde)\s*)*(\{?\\?[a-zA-Z]+\}?)"
    r"('|_\{?[^}=]*\}?|\^\{?[*'\w]*\}?|\([^=]*\))*"
)
SIGN = re.compile(r"=|\\le\b|\\ge\b|<|>|\\approx\b|\\propto\b")
#: Relations between expressions that are assumed or chosen, not stated.
ASSUMED = {
    r"2^{-53} |x| < 2^{-43}",
    r"\log p_i = x_i + \text{const}",
    r"\abs e = \delta",
    r"2 \delta > 0",
    r"\dd x = (1, 0, -1)",
    r"-\text{left} \le j - (i + \text{offset}) \le \text{right}",
    r"\lVert \mat A \rVert = 1",
    r"\dot{\mat A} = \mat A",
    r"s t + d k - p = j",
    r"\log p_y = -\infty",
    r"(d)_+ = \max(d, 0)",
    r"L \theta_i = 2\pi r",
    r"\abs w < 1",
    r"\abs{h_0} \le 1",
    r"n_{in} \operatorname{Var} W = 1",
    r"n_{out} \operatorname{Var} W = 1",
    r"\abs{s_j} \le c",
    r"\tanh x = 0.5",
    r"\dot{\vec h} = \vec a \odot \vec h + \vec b\, x",
    r"\tilde{\vec x} = (\vec x, 1)",
    r"\eta \lambda \le 1",
    r"\rho A = -3",
    r"\abs{1 - \eta \lambda} > 1",
    r"\dot{\vec h}_0 = \dot{\vec x}",
    r"\E q_e^2 \E k_e^2 = 1",
    r"\alpha^2 + \sigma^2 = 1",
    r"\frac2N \sum_{z_n > 0} e_n \vec x_n",
    r"\frac2N \sum_{z_n > 0} e_n",
    r"0.9\, m < 0.1",
    r"\sum_h \bigl( \dd w_{th} \max(z_{hts}, 0) + w_{th} [z_{hts} > 0]\, \dd z_{hts} \bigr)",
}


#: The name of a gradient, and what it is the gradient by: both bold or both not.
GRADIENT = re.compile(
    r"(?P<bold>\\(?:vec|mat)\s*)?(?P<name>\\?[a-zA-Z]+)(?P<index>_\w|_\{[^}]*\})?"
    r" = \\partial L / \\partial (?(bold)\\(?:vec|mat)\s*)(?P<of>[a-zA-Z])'?(?P<by>_\w|_\{[^}]*\})?"
    r"(?: = .*)?"
)


def names_gradient(text):
    """Whether a text gives a gradient of the loss a name, rightly or not."""
    left, _, right = text.partition("=")
    return bool(SYMBOL.fullmatch(left.strip())) and r"\partial L / \partial" in right


def is_named_rightly(text):
    """Whether such a text has no sign, factor or term, and the right index."""
    found = GRADIENT.fullmatch(text)
    return bool(found) and found["index"] in (None, found["by"])


def states(text):
    """Whether a relation states something of an expression, not of one symbol."""
    left = SIGN.split(text)[0].strip()
    return len(left) >= 4 and not SYMBOL.fullmatch(left) and text not in ASSUMED


def main():
    """Write the list of identities."""
    found = {}
    for place, text in relations():
        if verdict(text) == "identity" and text not in found.setdefault(place, []):
            found[place].append(text)
    lines = ["# Inline identities: written by `PYTHONPATH=tests python -m equations.inline`."]
    for place, texts in sorted(found.items()):
        if texts:
            lines.append(f'"{place}" = [\n' + "".join(f"  '''{t}''',\n" for t in texts) + "]")
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

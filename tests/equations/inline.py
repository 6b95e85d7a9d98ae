r"""Inline relations, such as :math:`\sigma(x) + \sigma(-x) = 1`: found, read, and evaluated.

A relation between scalars is read as TeX and evaluated: one without variables must be true, and one
that holds for all values of its variables is an *identity*. `inline.toml` lists the identities of
each place, so that a change of one is noticed; ``tox run -e written`` writes it.
A sentence's definition or assumption is neither, and is left alone.
"""

import functools
import math
import re
from pathlib import Path

import numpy as np
from equations import evaluate, ledger, tex

LIST = Path(__file__).with_name("inline.toml")
MATH = re.compile(r":math:`([^`]+)`")
RELATIONS = {"=", r"\le", r"\leq", r"\ge", r"\geq", "<", ">", r"\approx"}
FUNCTIONS = {
    r"\sigma": lambda x: 1 / (1 + np.exp(-x)), "softplus": lambda x: np.log1p(np.exp(x)),
    r"\Phi": lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), "erfc": math.erfc,
    r"\arctan": np.arctan,
}  # fmt: skip
VARIABLE = re.compile(
    r"[a-zA-Z]|\\(?:alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|rho|sigma"
    r"|tau|phi|psi|omega|Delta|Phi)"
)
#: Names that may stand before a bracket; any other one is a function that is not known here.
KNOWN = {*FUNCTIONS, *tex.FUNCTIONS, *tex.LARGE, *tex.IGNORED}
CALL = re.compile(r"(\\[a-zA-Z]+|(?<![a-zA-Z])[a-zA-Z](?:_\w|_\{\w+\})?'*)\(")
DRAWS = 40


def variables(node):
    """Yield the names of the variables of a tree; fail at one that is no scalar."""
    if isinstance(node, tex.Name):
        is_constant = node.base in evaluate.CONSTANTS and (node.base != "e" or node.upper)
        if not is_constant:
            if not VARIABLE.fullmatch(node.base) or node.primes:
                raise tex.UnreadableError(node.base)
            yield node.base + tex.subscript(node.sub)
        yield from variables(node.upper)
    elif isinstance(node, tex.Node | tuple):
        parts = node if isinstance(node, tuple) else node.parts[node.kind == "call" :]
        for part in parts:
            yield from variables(part)


def read(text):
    """Return the sides of a relation, the signs between them, and the names of the variables."""
    ((node, _, _),) = tex.equations(text, FUNCTIONS.__contains__)
    if not KNOWN.issuperset(CALL.findall(text)):
        raise tex.UnreadableError(text)
    return node.parts, node.text.split(), sorted({*variables(node)})


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
    except (tex.UnreadableError, LookupError, ValueError):
        return None
    slacks = [digits(part) for part in SIGN.split(text)]
    rng, valid = np.random.default_rng(0), 0
    for k in range(DRAWS if names else 1):
        scale = 3.0 if k % 2 else 0.9
        drawn = rng.uniform(-scale if k % 4 > 1 else 0.05, scale, len(names))
        evaluator = evaluate.Evaluator(
            evaluate.Environment(FUNCTIONS | dict(zip(names, drawn, strict=True)))
        )
        try:
            with np.errstate(all="raise"):
                values = [evaluator.at(side, {}) for side in sides]
                values = [float(v) if isinstance(v, int) else v for v in values]
        except evaluate.UnknownError:
            return None
        except (ArithmeticError, ValueError, TypeError, LookupError):
            continue
        if any(np.ndim(v) or np.iscomplexobj(v) or not np.isfinite(v) for v in values):
            continue
        valid += 1
        pairs = zip(values[:-1], signs, values[1:], slacks[:-1], slacks[1:], strict=True)
        if not all(holds(a, s, b, max(x, y)) for a, s, b, x, y in pairs):
            return None if names else "false"
    if valid == 0 or text in ASSUMED or (names and valid < 8):
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
            if any(sign in tex.TOKEN.findall(inline) for sign in RELATIONS):
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


@functools.cache
def texts():
    return dict(sources())


def is_name(place, text):
    """Whether a gradient has a name that its place uses elsewhere, and no operand has."""
    found, source = GRADIENT.fullmatch(text), texts()[place]
    operands = re.findall(r"^(\w+(?:, \w+)*) : ", source, re.MULTILINE)
    name = rf"(?<![a-zA-Z\\]){re.escape(found['name'])}(?![a-zA-Z])"
    elsewhere = re.search(name, ledger.normalized(source).replace(text, ""))
    is_upstream = found["of"] not in "yY" or found["name"] in "uU"  # the letter of all derivations
    return bool(elsewhere) and is_upstream and found["name"] not in ", ".join(operands).split(", ")


def states(text):
    """Whether a relation states something of an expression, not of one symbol."""
    left = SIGN.split(text)[0].strip()
    return len(left) >= 4 and not SYMBOL.fullmatch(left) and text not in ASSUMED


def defines(text):
    """Whether a relation gives a symbol an expression, not a digit or another symbol."""
    parts = re.findall(r"\\[a-z]+|\w", text.rpartition("=")[2])
    return "=" in text and not states(text) and len(parts) > 2


def main():
    """Write the list of identities."""
    found = {}
    for place, text in relations():
        if verdict(text) == "identity" and text not in found.setdefault(place, []):
            found[place].append(text)
    lines = ["# Inline identities: written by `tox run -e written`."]
    for place, texts in sorted(found.items()):
        if texts:
            lines.append(f'"{place}" = [\n' + "".join(f"  '''{t}''',\n" for t in texts) + "]")
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")

r"""A parser of displayed equations: TeX becomes a tree of nodes, which `evaluate.py` computes.

    display  = piece { separator piece }        \qquad, a comma, an arrow, a new line
    chain    = sum { relation sum }             a = b \le c
    sum      = [sign] product { sign product }
    product  = run { (\cdot | \odot) run }      a dot binds less than what stands side by side
    run      = factor { [/] factor }
    factor   = atom { prime | _index | ^power | (arguments) }

A name keeps its subscript and superscript as text and as expressions: whether `W_{ih}` is a name or
an entry depends on the names that an environment has.
"""

import dataclasses
import re
from typing import ClassVar

TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|\d+(?:\.\d+)?|\s+|.")
IGNORED = {
    *(r"\,", r"\!", r"\:", "\\ ", r"\bigl", r"\bigr", r"\Bigl", r"\Bigr", r"\biggl", r"\biggr"),
    *(r"\left", r"\right", r"\displaystyle", r"\Big", r"\big"),
}
RELATIONS = {
    "=": "=", "=:": "=", ":=": "=", r"\le": "<=", r"\ge": ">=", "<": "<", ">": ">", r"\ne": "!=",
    r"\approx": "~", r"\leftarrow": "<-", r"\in": "in", r"\sim": "=",
}  # fmt: skip
SEPARATORS = {r"\qquad", r"\quad", r"\\", r"\Rightarrow", r"\Longrightarrow", ",", ";", "&"}
FUNCTIONS = {
    *(r"\log", r"\exp", r"\tanh", r"\sin", r"\cos", r"\tan", r"\sinh", r"\cosh", r"\det", "sign"),
    *("tr", "diag", "erf", "artanh", "Re", "Im", "softmax", "clip", "round", "ulp", "sg", "relu"),
}
MEANS = {r"\E": "E", "Var": "Var"}
DECORATIONS = {
    r"\vec", r"\mat", r"\dot", r"\hat", r"\bar", r"\tilde", r"\mathcal", r"\mathrm", r"\dd",
    r"\texttt", r"\text", r"\nabla",
}  # fmt: skip
LARGE = {
    r"\sum": "sum", r"\prod": "prod", r"\max": "max", r"\min": "min",
    r"\argmax": "argmax", r"\argmin": "argmin",
}  # fmt: skip
CLOSING = {
    "(": ")", "{": "}", "[": "]", "|": "|", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil",
    r"\{": r"\}", r"\langle": r"\rangle", r"\lvert": r"\rvert", r"\lVert": r"\rVert",
}  # fmt: skip
ENDS = {"+", "-", *CLOSING.values(), ",", ";", ":", "&", r"\cdot", r"\odot", r"\times"}
ENDS |= {"", ".", r"\text", r"\end", r"\mid", r"\otimes", *RELATIONS, *SEPARATORS}
ENDS -= {"|"}
#: A case that has a name: `after,` and `"repeat", or t = 1` and `ceil: q > 1`.
FLAG = re.compile(r'"?(?P<name>[\w-]+)"?(?P<more>:|,? (?P<word>or|and))? *[,.;]? *')
CONJUNCTIONS = {"or", "and", "hence", "otherwise", "else"}


class UnreadableError(Exception):
    """TeX outside of the grammar."""


@dataclasses.dataclass(frozen=True)
class Node:
    """A kind of expression, its parts, and a text: a sign, a number, a key."""

    kind: str
    parts: tuple = ()
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Name:
    """A symbol: its base, primes, subscript and superscript, as texts and as expressions."""

    base: str
    primes: str = ""
    sub: str = ""
    sup: str = ""
    indices: tuple = ()  # the expressions of the subscript
    groups: tuple = ()  # the texts between its commas
    upper: object = None  # the expression of the superscript
    kind: str = "name"

    @property
    def key(self):
        """Return the symbol with all that it carries, as the key of an environment."""
        return self.base + subscript(self.sub) + superscript(self.sup) + self.primes


def subscript(text):
    return f"_{{{text}}}" if text else ""


def superscript(text):
    return f"^{{{text}}}" if text else ""


def tokens(text):
    """Return the tokens without white space, thin spaces and the sizes of brackets."""
    rest = re.sub(r"\\end\{(\w+)\}", r"\\end", text).replace("=:", "=").replace(":=", "=")
    rest = re.sub(r"\\arg\\(max|min)", r"\\arg\1", rest)
    out = []
    while rest:
        if m := re.match(r"\\(?:text|texttt|operatorname\*?|begin)\{((?:\\.|[^{}\\])*)\}", rest):
            out.append((m[0].partition("{")[0], m[1]))
            rest = rest[m.end() :]
            continue
        m = TOKEN.match(rest)
        rest = rest[m.end() :]
        if m[0] == r"\," and re.match(r"\s*(?:\\[bB]ig+l)?\(", rest):  # a factor: no arguments
            out.append(r"\,")
        elif not m[0].isspace() and m[0] not in IGNORED:
            out.append(m[0])
    return out


class Parser:
    """A recursive descent; `is_function` says which names take arguments in brackets."""

    def __init__(self, text, is_function=lambda _: False):
        self.tokens, self.place = tokens(text), 0
        self.is_function, self.bars = is_function, 0

    # Tokens

    def next(self, ahead=0):
        """Return a token that comes, the first of a pair, or nothing."""
        place = self.place + ahead
        token = self.tokens[place] if place < len(self.tokens) else ""
        return token[0] if isinstance(token, tuple) else token

    def take(self, want=None):
        """Take a token, which may have to be a certain one."""
        token = self.next()
        if not token or (want is not None and token != want):
            msg = f"{want or 'more'} expected before {self.tokens[self.place :]}"
            raise UnreadableError(msg)
        self.place += 1
        return token

    def word(self):
        """Take a token with its text in braces, and return the text."""
        self.place += 1
        return self.tokens[self.place - 1][1]

    def accept(self, *wanted):
        """Take a token if it is one of these."""
        if self.next() in wanted:
            return self.take()
        return None

    def argument(self):
        """Return the tokens of a group in braces, or one token; a number gives its first digit."""
        if self.accept("{"):
            start, depth = self.place, 1
            while depth:
                depth += {"{": 1, "}": -1}.get(self.take(), 0)
            return self.tokens[start : self.place - 1]
        token = self.tokens[self.place]
        self.place += 1
        if isinstance(token, str) and token.isdigit() and len(token) > 1:
            self.place -= 1
            self.tokens = [*self.tokens[: self.place], token[1:], *self.tokens[self.place + 1 :]]
            return [token[0]]
        if token in DECORATIONS or token in {r"\frac", r"\pdv", r"\sqrt"}:
            return [token, "{", *self.argument(), "}"]
        return [token]

    def inside(self, inner, rule="chain"):
        """Parse tokens by a rule, to their end."""
        parser = Parser("", self.is_function)
        parser.tokens = list(inner)
        value = getattr(parser, rule)()
        if parser.place < len(parser.tokens):
            msg = f"{parser.tokens[parser.place :]} left"
            raise UnreadableError(msg)
        return value

    # Levels

    def chain(self):
        """Read sides with relations between them."""
        sides, signs = [self.sum()], []
        while self.next() in RELATIONS:
            signs.append(RELATIONS[self.take()])
            sides.append(self.sum())
        return Node("chain", tuple(sides), " ".join(signs)) if signs else sides[0]

    def sum(self):
        """Read terms with signs."""
        terms = []
        sign = self.accept("+", "-") or "+"
        while True:
            if terms and self.accept(r"\ldots"):  # the rest of a series
                return Node("sum", tuple(terms))
            term = self.product()
            terms.append(Node("negative", (term,)) if sign == "-" else term)
            sign = self.accept("+", "-")
            if not sign:
                return terms[0] if len(terms) == 1 else Node("sum", tuple(terms))

    def product(self):
        """Read runs with dots between them."""
        value = self.run()
        while sign := self.accept(r"\cdot", r"\odot", r"\times", r"\otimes"):
            value = Node(sign, (value, self.run()))
        return value

    def run(self, *, bare=False):
        """Read factors side by side; the bare argument of a function ends before another one."""
        self.accept(r"\;")
        value = self.factor()
        while True:
            if self.next() == r"\;" and (bare or self.next(1) in ENDS):
                if not bare:
                    self.take()
                    continue
                return value
            self.accept(r"\;", r"\,")
            if self.next() == "|" and (self.bars or self.next(1) == "_"):
                return value
            if bare and self.next() == "/" and self.next(1) in FUNCTIONS:
                return value
            if self.accept("/"):
                value = Node("/", (value, self.denominator()))
            elif self.accept(r"\cdots"):  # A_1 A_2 \cdots A_n
                value = Node("filled", (value, self.factor()))
            elif self.ends() or (bare and self.starts_function()):
                return value
            else:
                value = Node("run", (value, self.factor()))

    def denominator(self):
        """Read what a stroke divides by: one factor, or all that follow a number."""
        value = self.factor()
        while value.kind == "number" and not self.ends() and self.next() != "/":
            value = Node("run", (value, self.factor()))
        return value

    def ends(self):
        """Say whether a run ends here."""
        token = self.next()
        if token == r"\text":  # a name, if it stands in an expression
            word = self.tokens[self.place][1]
            return not re.fullmatch(r"[\w\\-]+", word) or word in CONJUNCTIONS
        return token in ENDS

    def starts_function(self):
        token = self.tokens[self.place]
        return (token[1] if isinstance(token, tuple) else token) in {*FUNCTIONS, *MEANS}

    def factor(self):
        """Read an atom with its powers, transpositions, primes and a factorial."""
        value = self.atom()
        while self.next() in {"^", "_", "'", "!"}:
            if self.accept("!"):
                value = Node("factorial", (value,))
                continue
            if value.kind == "name":
                break
            if self.accept("'"):
                order = len(value.text) + 1 if value.kind == "primed" else 1
                inner = value.parts[0] if order > 1 else value
                value = Node("primed", (inner,), "'" * order)
                continue
            if self.accept("_"):
                value = self.entry(value, self.argument())
                continue
            self.take()
            value = self.raised(value, self.argument())
        return value

    def entry(self, value, inner):
        """Return an entry of an expression; the subscript + is its positive part."""
        result = indices_of(self, inner)[0]
        if inner == ["+"]:
            return Node("max", (value, Node("number", (), "0")))
        if not result:
            raise UnreadableError(joined(inner))
        return Node("entry", (value, *result))

    def raised(self, value, power):
        """Return a value with a superscript."""
        if power and power[-1] == r"\top":
            value = self.raised(value, power[:-1]) if power[:-1] not in ([], ["-"]) else value
            value = Node("inverse", (value,)) if power == ["-", r"\top"] else value
            return Node("transposed", (value,))
        return Node("^", (value, self.inside(power, "sum"))) if power else value

    # Atoms

    def atom(self):  # noqa: PLR0911
        """Read a number, a name, or something with brackets."""
        token = self.next()
        rule = self.RULES.get(token)
        if rule:
            self.take()
            return rule(self)
        if token in CLOSING:
            return self.group()
        if token in LARGE:
            return self.large()
        if token and token[0].isdigit():
            return Node("number", (), self.take())
        if token in FUNCTIONS:
            return self.function(self.take())
        if token.startswith(r"\operatorname"):
            word = self.word()
            if word in MEANS:
                return self.expectation(MEANS[word])
            if word in FUNCTIONS and not self.is_function(word):
                return self.function(word)
            return self.called(self.suffixes(word))
        if token in DECORATIONS or token.isalpha() or re.fullmatch(r"\\[a-zA-Z]+", token):
            return self.called(self.suffixes(self.base()))
        msg = f"no value at {self.tokens[self.place :]}"
        raise UnreadableError(msg)

    def base(self):
        """Read a letter with its decorations, as the text of a key."""
        token = self.next()
        if token in {r"\text", r"\texttt"}:
            return self.word().replace("\\_", "_")
        self.take()
        if token == r"\mathrm":
            return rf"\mathrm{{{''.join(self.argument())}}}"
        if token in DECORATIONS:
            inner = self.inside(self.argument(), "plain_name")
            return rf"{token}{{{inner}}}"
        if token in {r"\dots", r"\cdots", r"\ldots", r"\vdots", r"\arg"}:
            raise UnreadableError(token)
        return token

    def plain_name(self):
        """Read a name that a decoration stands on, as text: a letter, or anything in brackets."""
        if self.next() == r"\log":
            return self.differentiated().key
        name = self.suffixes(self.base()) if self.next() != "(" else None
        if name is None or self.place < len(self.tokens):
            return joined(self.tokens) if self.advance_to_end() else ""
        return name.key

    def advance_to_end(self):
        self.place = len(self.tokens)
        return True

    def suffixes(self, base):
        """Read primes, a subscript and superscripts of a name."""
        name, powers = Name(base), []
        while self.next() in {"'", "_", "^"}:
            sign = self.take()
            if sign == "'":
                name = dataclasses.replace(name, primes=name.primes + "'")
            elif sign == "_":
                inner = self.argument()
                result, groups = indices_of(self, inner)
                name = dataclasses.replace(name, sub=joined(inner), indices=result, groups=groups)
            else:
                inner = self.argument()
                while inner and inner[-1] == r"\top":
                    powers.insert(0, [r"\top"] if inner[:-1] != ["-"] else ["-", r"\top"])
                    inner = inner[:-1] if inner[:-1] != ["-"] else []
                if inner in (["*"], [r"\ell"]) or (inner and inner[0] in {r"\to", r"\gets", "+"}):
                    name = dataclasses.replace(name, sup=joined(inner))
                elif inner:
                    try:
                        upper = self.inside(inner, "sum")
                    except UnreadableError:
                        upper = None
                    name = dataclasses.replace(name, sup=joined(inner), upper=upper)
        value = name
        for power in powers:
            value = self.raised(value, power)
        return value

    def called(self, name):
        """Read the arguments of a name, if it is a function."""
        if name.kind == "name" and self.next() == "(" and self.is_function(name.key):
            return Node("call", (name, *self.arguments()))
        if name.kind == "name" and name.upper is not None and self.next() == "(":
            plain = dataclasses.replace(name, sup="", upper=None)
            if self.is_function(plain.key):
                return Node("^", (Node("call", (plain, *self.arguments())), name.upper))
        return name

    def arguments(self):
        """Read expressions in brackets."""
        self.take("(")
        result = [self.sum()]
        while self.accept(",", ";"):
            self.accept(r"\;", r"\quad")
            if self.accept(r"\dots"):
                self.take(",")
                result[-1] = Node("span", (result[-1], self.sum()))
            else:
                result.append(self.sum())
        self.take(")")
        return tuple(result)

    def function(self, name):
        """Read a function of a known name: its power, and an argument with or without brackets."""
        primes, power = "", None
        while self.next() in {"^", "'"}:
            if self.accept("'"):
                primes += "'"
            else:
                self.take()
                power = self.inside(self.argument(), "sum")
        base = self.argument() if self.accept("_") else None
        if base and name != r"\log":
            msg = "a subscript of a function"
            raise UnreadableError(msg)
        arguments = self.arguments() if self.next() == "(" else (self.run(bare=True),)
        value = Node("function", arguments, name + primes)
        if base:
            value = Node("/", (value, Node("function", (self.inside(base),), name)))
        return Node("^", (value, power)) if power else value

    def group(self):
        """Read brackets: a group, several values, an indicator, an absolute value."""
        opening = self.take()
        closing, saved = CLOSING[opening], self.bars
        self.bars = int(opening in {"|", r"\lvert"})
        values = [self.condition() if opening == "[" else self.chain()]
        while opening in {"(", r"\langle"} and self.accept(","):
            self.accept(r"\;", r"\quad")
            if self.accept(r"\dots"):  # (x_1, \dots, x_n)
                self.take(",")
                values = [Node("span", (values[-1], self.sum()))]
            else:
                values.append(self.sum())
        if opening == r"\{":
            self.take(":")
            values.append(self.chain())
        self.take(closing)
        self.bars = saved
        if len(values) > 1 and opening == "(":
            return Node("values", tuple(values))
        if opening == "[":
            return Node("indicator", tuple(values)) if is_condition(values[0]) else values[0]
        kinds = {
            "|": "abs",
            r"\lvert": "abs",
            r"\lVert": "norm",
            r"\lfloor": "floor",
            r"\lceil": "ceil",
            r"\{": "set",
            r"\langle": "inner",
        }
        return (
            Node(kinds[opening], tuple(values)) if opening in kinds else Node("group", (values[0],))
        )

    def condition(self):
        """Read relations with 'and' and 'or' between them."""
        value = self.chain()
        while self.next() == r"\text" and self.tokens[self.place][1].strip() in {"and", "or"}:
            value = Node(self.word().strip(), (value, self.chain()))
        return value

    def large(self):
        """Read a sum, a product, a maximum or a minimum over indices, or of listed values."""
        kind = LARGE[self.take()]
        low = high = None
        while self.next() in {"_", "^"}:
            if self.accept("_"):
                low = self.argument()
            else:
                self.take()
                high = self.inside(self.argument(), "sum")
        if low is None and kind in {"max", "min"}:
            if self.next() == "(":
                return Node(kind, self.arguments())
            return Node(kind, (self.atom(),))
        names, condition = bound_names(self, low or [], high)
        is_negative = self.accept("-")
        body = self.product() if kind in {"sum", "prod"} or is_negative else self.run()
        body = Node("negative", (body,)) if is_negative else body
        return Node("over", (names, condition, body), kind)

    def expectation(self, kind="E"):
        """Read a mean or a variance: of what brackets hold, where a condition holds, or factors."""
        which, condition = joined(self.argument()) if self.accept("_") else "", None
        if self.next() == "[":
            self.take()
            body = self.sum()
            condition = self.chain() if self.accept(";") else None
            self.take("]")
        else:
            body = self.factor() if self.next() == "(" else self.run(bare=True)
        return Node("expected", (body, condition), kind + subscript(which))

    def integral(self):
        """Read an integral: its limits, and all up to the differential of a letter."""
        limits = {}
        while self.next() in {"_", "^"}:
            sign = self.take()
            limits[sign] = self.inside(self.argument(), "sum")
        infinite = Name(r"\infty")
        low, high = limits.get("_", Node("negative", (infinite,))), limits.get("^", infinite)
        body, depth = [], 0
        while depth or self.next() not in {"d", r"\dd"} or body[-1:] == ["_"]:
            body.append(self.tokens[self.place])
            token = self.take()
            depth += (token in {"{", "(", "["}) - (token in {"}", ")", "]"})
        self.take()
        return Node("integral", (self.inside(body, "sum"), self.suffixes(self.base()), low, high))

    def fraction(self):
        """Read a fraction; one of partial differentials is a derivative."""
        top, bottom = self.argument(), self.argument()
        if r"\partial" in top[:1] and "^" not in top[:2]:
            return self.quotient_of(top[1:], bottom[1:])
        return Node("/", (self.inside(top, "sum"), self.inside(bottom, "sum")))

    def derivative(self):
        kind = self.tokens[self.place - 1]
        return self.quotient_of(self.argument(), self.argument(), kind)

    def quotient_of(self, top, bottom, kind=r"\pdv"):
        """Return a derivative of a name, an expression, or all that follows."""
        by = self.inside(bottom, "differentiated")
        above = self.inside(top, "differentiated") if top else self.product()
        value = Node("derivative", (above, by), kind)
        if self.next() == "|" and self.next(1) == "_":  # \Big|_{t = 0}
            self.take()
            self.take()
            value = Node("where", (value, *self.inside(self.argument()).parts))
        return value

    def differentiated(self):
        """Read what is differentiated: `\\log p` is a name here."""
        if self.next() == r"\log" and len(self.tokens) > 1:
            self.take()
            name = self.factor()
            if isinstance(name, Name):
                return dataclasses.replace(name, base=rf"\log{{{name.base}}}")
            msg = "a logarithm"
            raise UnreadableError(msg)
        return self.sum()

    def cases(self):
        """Read values with conditions."""
        word = self.tokens[self.place - 1][1]
        rows = []
        while self.next() != r"\end":
            row = [Node("dots") if self.accept(r"\vdots") else self.chain()]
            self.accept(",", ".")
            while self.accept("&"):
                row.append(self.otherwise() if word == "cases" else self.sum())
                self.accept(",", ".", ";")
            rows.append(tuple(row))
            self.accept(r"\\")
        self.take(r"\end")
        if word not in {"cases", "pmatrix"}:
            raise UnreadableError(word)
        return Node(word, tuple(rows))

    def otherwise(self):
        if self.next() == r"\text" and self.tokens[self.place][1] in {"otherwise", "else"}:
            self.word()
            return Node("otherwise")
        if self.next() == r"\text" and (m := FLAG.fullmatch(self.tokens[self.place][1])):
            self.word()
            flag = Node("flag", (), m["name"])
            return Node(m["word"] or "and", (flag, self.condition())) if m["more"] else flag
        return self.condition()

    def root(self):
        return Node("sqrt", (self.inside(self.argument(), "sum"),))

    def absolute(self):
        return Node("abs", (self.inside(self.argument(), "sum"),))

    def norm(self):
        """Read a norm; a subscript names it."""
        inner = self.inside(self.argument(), "sum")
        which = joined(self.argument()) if self.accept("_") else ""
        return Node("norm", (inner,), which)

    def brace(self):
        """Read what stands over a brace, without its note."""
        inner = self.inside(self.argument(), "sum")
        if self.accept("_"):
            self.argument()
        return Node("group", (inner,))

    def mean(self):
        """Read a mean: what has a line over it, and its indices."""
        inner = self.argument()
        name = Name(rf"\overline{{{joined(inner)}}}")
        if self.accept("_"):
            raw = self.argument()
            result, groups = indices_of(self, raw)
            name = dataclasses.replace(name, sub=joined(raw), indices=result, groups=groups)
        return Node("mean", (name, self.inside(inner, "sum")))

    RULES: ClassVar = {
        r"\frac": fraction, r"\tfrac": fraction, r"\dfrac": fraction, r"\pdv": derivative,
        r"\dv": derivative, r"\begin": cases, r"\sqrt": root, r"\abs": absolute, r"\norm": norm,
        r"\underbrace": brace, r"\overline": mean, r"\E": expectation, r"\int": integral,
    }  # fmt: skip


def joined(parts):
    """Return tokens as the canonical text of a key, without braces around one token."""
    texts = [t if isinstance(t, str) else t[1].replace("\\_", "_") for t in parts]
    text = "".join(t + (" " if re.fullmatch(r"\\[a-zA-Z]+", t) else "") for t in texts)
    return re.sub(r" (?![a-zA-Z0-9])", "", text).strip()


def is_condition(node):
    return node.kind in {"chain", "and", "or"}


def split(parts, *separators):
    """Split tokens where no bracket is open."""
    result, depth = [[]], 0
    for token in parts:
        depth += (token in {"{", "(", "["}) - (token in {"}", ")", "]"})
        if token in separators and depth == 0:
            result.append([])
        else:
            result[-1].append(token)
    return result


def indices_of(parser, inner):
    """Return the expressions of a subscript, and the texts between its commas."""
    result, groups = [], split(inner, ",")
    try:
        for group in groups:
            result += items(parser, [t for t in group if t != r"\;"])
    except UnreadableError:
        result = []
    return tuple(result), tuple(map(joined, groups))


def items(parser, group):
    """Return one expression, or names side by side as an index each."""
    value = parser.inside(group, "sum")
    factors = []
    node = value
    while node.kind == "run":
        factors.insert(0, node.parts[1])
        node = node.parts[0]
    factors.insert(0, node)
    if factors[0].kind == "number" and len(factors) > 1:  # 2i
        return [value]
    return factors


def bound_names(parser, low, high):
    """Return the indices that a subscript binds, and the condition on them."""
    if not low:
        return (), None
    head, *tail = split(low, ":")
    if tail:
        condition = parser.inside(tail[0], "chain")
        return tuple(items(parser, head)), condition
    if any(t in RELATIONS for t in low):
        chain = parser.inside(low, "chain")
        sides, signs = chain.parts, chain.text.split()
        if high is not None:
            return (sides[0],), Node("range", (sides[1], high))
        if signs == ["in"]:
            return (sides[0],), chain
        middle = sides[1] if len(sides) == 3 else sides[0]
        return (first_index(middle),), chain
    names = [n for group in split(low, ",") for n in items(parser, group)]
    if high is not None:
        msg = "an upper limit without a lower one"
        raise UnreadableError(msg)
    return tuple(names), None


def first_index(node):
    """Return the index of an entry, as n of z_n > 0, or the name itself."""
    return node.indices[-1] if node.kind == "name" and node.indices else node


def pieces(text):
    """Return the parts of a display that are read by themselves, as tokens."""
    result, depth = [[]], 0
    for token in tokens(text.strip().rstrip(".,;: ")):
        word = token[0] if isinstance(token, tuple) else token
        depth += word in {"{", "(", "[", r"\begin", r"\{", r"\langle"}
        depth -= word in {"}", ")", "]", r"\end", r"\}", r"\rangle"}
        if depth == 0 and word in SEPARATORS:
            result.append([])
        elif word in RELATIONS and not result[-1] and depth == 0:  # a line goes on: \\\\ &=
            while not result[-1]:
                result.pop()
            result[-1].append(token)
        else:
            result[-1].append(token)
    return [piece for piece in result if piece]


def text_of(token):
    return token[1].strip() if isinstance(token, tuple) and token[0] == r"\text" else ""


def label_of(piece):
    """Return the words of a piece that is only a note in brackets."""
    if len(piece) == 3 and piece[0] == "(" and text_of(piece[1]):
        return text_of(piece[1]).strip('"')
    word = text_of(piece[0]) if len(piece) == 1 else ""
    return word[1:-1] if word.startswith("(") else ""


def without_notes(piece):
    """Return a piece without the words before and after it."""
    start, end = 0, len(piece)
    while start < end - 1 and text_of(piece[start]) and piece[start + 1] not in {"=", "_"}:
        start += 1
    while start < end and text_of(piece[end - 1]) and piece[end - 2] not in RELATIONS:
        end -= 1
    return piece[start:end]


def is_range(piece):
    """Say whether a piece is only the range of an index, as t = 1 \\dots T."""
    return len(piece) <= 6 and piece[1] == "=" and r"\dots" in piece


def whole(piece, is_function):
    """Return the chain that a piece is."""
    parser = Parser("", is_function)
    return parser.inside(piece)


SYMBOL = r"((?:\\(?:vec|mat|hat|bar)\s*)?\\?[a-zA-Z]+'?(?:_(?:\{[^{}]*\}|\w))?)"
#: A derivative in a line of text, one symbol by another; and what separates thousands.
PARTIAL = re.compile(rf"\\partial\s+{SYMBOL}\s*/\s*\\partial\s+{SYMBOL}")
THOUSANDS = re.compile(r"(?<=\d)(?:\\,|\{,\})(?=\d{3})")


def equations(text, is_function):
    """Return the chains of a display, the number of each after an 'or', and its condition."""
    result, label, count, before = [], None, 0, None
    text = PARTIAL.sub(r"\\frac{\\partial \1}{\\partial \2}", THOUSANDS.sub("", text))
    for piece in pieces(text):
        word = text_of(piece[0])
        if word.endswith(":"):  # a label, whose name is the alternative
            label = word[:-1]
        elif word.partition(",")[0] == "or" and result:
            result[-1] = (result[-1][0], count, result[-1][2])
            count += 1
            continue
        if note := label_of(piece):
            if result and result[-1][1] is None:
                result[-1] = (result[-1][0], note, result[-1][2])
            continue
        inner = without_notes(piece)
        is_number = len(inner) == 1 and isinstance(inner[0], str) and inner[0].isdigit()
        if inner == [r"\dots"] or (is_number and before != [r"\dots"]):  # j = 0, \dots, n
            result.pop()
        is_range_end, before = before == [r"\dots"], inner
        if len(inner) <= 1 or is_range_end or is_range(inner):
            continue
        node = whole(inner, is_function)
        is_other = bool(count) and (not result or result[-1][1] == count - 1)
        alternative = count if is_other else label
        if node.kind == "chain":
            result.append((node, alternative, None))
        elif node.kind == "group" and node.parts[0].kind == "chain" and result:  # (i \ne j)
            result[-1] = (*result[-1][:2], node.parts[0])
        elif is_other:
            left = result[-1][0].parts[0]
            result.append((Node("chain", (left, node), "="), alternative, None))
        else:
            raise UnreadableError(joined(inner))
    return result


def key_of(text):
    """Return the canonical key of a name that is written in TeX."""
    word = re.fullmatch(r"((?:[a-z]+-)?[a-z]{2,})(?:_(\w))?('*)", text)
    if word:
        return word[1] + subscript(word[2]) + word[3]
    if re.fullmatch(r"[a-zA-Z]{2,}|[a-z]+(_[a-z]{2,})+|\\E(_\{\w+\})?", text) or text in FUNCTIONS:
        return text
    parser = Parser(text)
    name = parser.differentiated()
    if name.kind == "derivative":
        return rf"{name.text}{{{name.parts[0].key}}}{{{name.parts[1].key}}}"
    if name.kind == "mean":
        return name.parts[0].base
    if not isinstance(name, Name):
        raise UnreadableError(text)
    return name.key


def differing(first, last):
    """Return the pairs of indices in which two expressions differ."""
    if first == last:
        return []
    pairs = pairs_of(first, last)
    return [pair for two in pairs for pair in differing(*two)] if pairs else [(first, last)]


def pairs_of(first, last):
    """Return the pairs of the indices of two names, or of the parts of two expressions."""
    field = "indices" if isinstance(first, Name) else "parts"
    both = getattr(first, field, ()), getattr(last, field, ())
    is_alike = type(first) is type(last) and len(both[0]) == len(both[1])
    return list(zip(*both, strict=True)) if is_alike else []


def with_index(first, last, index):
    """Return an expression whose index is another where two expressions differ."""
    if first == last:
        return last
    pairs = pairs_of(first, last)
    if not pairs:
        return Node("number", (), str(index))
    moved = tuple(with_index(*pair, index) for pair in pairs)
    if isinstance(last, Node):
        return dataclasses.replace(last, parts=moved)
    # A name with this text is in no environment, so that its indices are read.
    return dataclasses.replace(last, sub=rf"\dots{index}", indices=moved, groups=())

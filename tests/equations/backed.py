r"""Numbers in prose are backed by mathematics, code or results of the same place.

A number of a sentence stands beside it once more: in a formula, in an example or its output, in a
literal, in the code of the function that the docstring documents, or in a table that the section
shows. A list of numbers stands there in its order, and a number in a term such as T + S − 1 with
the letters around it. A wrong number loses what backs it, unless another number is there by chance.
Where nothing stands beside a number, `sentences.toml` has an expression that gives it.
"""

import ast
import csv
import functools
import itertools
import math
import re

from equations import hypotheses, inline, ledger

NUMBERS = {
    "half": 0.5, "halve": 0.5, "halves": 0.5, "a third": 1 / 3, "a quarter": 0.25,
    "an eighth": 1 / 8, "one eighth": 1 / 8, "a tenth": 0.1, "three fifths": 0.6, "one": 1,
    "one millionth": 1e-6, "a hundredth": 0.01,
    "twice": 2, "two": 2, "three": 3, "four": 4, "Four": 4, "five": 5, "six": 6, "eight": 8,
    "seven": 7, "twenty": 20, "squared": 2, "fourth": 4, "nine": 9, "ten": 10,
    "one half": 0.5, "a thousandth": 0.001,
}  # fmt: skip
MARKUP = re.compile(r":\w+:`[^`]*`|``[^`]*``")
WORDS = r"half|twice|three|four|five|six|seven|eight|nine|ten|twenty|a quarter|a third"
DIGITS = r"\d{1,3}(?:[ ,]\d{3})+(?!\d)|\d+(?:\.\d+)?(?:e[-−+]?\d+)?"
NUMBER = re.compile(rf"(?<![\w.^{{/\[-])(?:{DIGITS})(?![\w.]*\d)(?![\w/\]])|\b(?:{WORDS})\b")
CODE = re.compile(r"::|\.\.\.| = |np\.|curves\(|maps\(|\*\*Proposition")
ENUMERATORS = re.compile(
    r"(?:^|[.;:`] )\d+\.(?= |$)|(?:[Ee]xercises?|[Ss]teps?|[Pp]ropositions?|[Pp]arts?|lines?) \d+"
)
PROSE = re.compile(r"^ *[\w*:`(“].*$")
#: Half of a pair is a noun, no quantity: the second half.
NOUN = re.compile(
    r"(?:first|second|other|upper|lower|positive|negative|each|neither|the) half\b(?! of)"
    r"|half (?:steps?|circles?|precision|way|an hour)|one half (?:cannot|knows)"
)
#: What is no quantity: versions of programs and models, and years.
NAMES = re.compile(
    r"(?:Apache License|PyTorch|Keras|IEEE"
    r"|Llama|Gemma|OLMo|T5|Qwen|ONNX|opset|Python|NumPy|DeepSeek|Phi|Mamba)"
    r"[- ](?:V|v)?\d[\d.]*|\b(?:19|20)\d\d\b"
)
#: The names with numbers and the years that are right, from `sentences.toml`.
KNOWN: set[str] = set()
LIST = re.compile(
    r"\(?[-−+]?NUM(?:, [-−+]?NUM)+(?:,? (?:and|or) [-−+]?NUM)?".replace("NUM", f"(?:{DIGITS})")
)
TERM = re.compile(
    r"(?<![\w\\])(?:\w|[a-z]+)\)? [+−-] \d(?![\w.])|(?<![\w\\.])\d [+−-] [a-zA-Z]\b"
    r"|(?<![\w.])\d [A-Z]\b"
)


@functools.cache
def sentences():
    """Return the sentences with numbers, outside of mathematics, code and tables, with parts."""
    found = []
    for place, text in inline.sources():
        if hypotheses.PROGRAMS.match(place) or place.startswith(("dlref/_math", "dlref/formulas")):
            continue
        for part in parts(place, text):
            notes = part.partition("Notes\n-----\n")[2] if place.startswith("dlref") else part
            notes = re.split(r"\n(?:References|Examples)\n-{6,}\n", notes)[0]
            for paragraph in filter(is_prose, re.split(r"\n\s*\n", notes)):
                normal = ledger.normalized(paragraph)
                every = re.split(r"(?<=[.:?])\s+(?=[A-Z:*`])", normal)
                found += [(place, s, part) for s in every if len(s) > 40 and spots(s)]
    return found


def parts(place, text):
    """Return the exercises or the sections of a page, or a docstring as it is."""
    if place.startswith("docs/exercises"):
        return re.split(r"^(?=\d+\. )", text, flags=re.MULTILINE)
    if place.startswith("docs"):
        return re.split(r"\n(?=[^\n]+\n(?:={3,}|-{3,}|~{3,})\n|\*\*)", text)
    return [text]


def is_prose(paragraph):
    lines = paragraph.rstrip().split("\n")  # the last one of a section ends with a line break
    return all(map(PROSE.match, lines)) and not CODE.search(MARKUP.sub("", paragraph))


def spots(sentence):
    """Return the numbers of a sentence that are no part of mathematics, and count no list."""
    apart = [m for skipped in (MARKUP, ENUMERATORS, NOUN) for m in skipped.finditer(sentence)]
    found = NUMBER.finditer(sentence)
    return [m for m in found if not any(a.start() <= m.start() < a.end() for a in apart)]


# What backs a number


@functools.cache
def evidence(place, part):
    """Return the formulas, literals, examples, tables and code of a part, each as a text."""
    found = []
    for paragraph in re.split(r"\n\s*\n", part):
        if is_prose(paragraph) and "\n---" not in paragraph:
            found += [m[0] for m in MARKUP.finditer(" ".join(paragraph.split()))]
        else:
            found.append(paragraph)
    for name in re.findall(r":file: (?:/|\.\./)*(results/[\w.]+)", part):
        found.append((ledger.ROOT / "docs" / name).read_text(encoding="utf-8"))
    return [*found, *code(place)]


@functools.cache
def code(place):
    """Return the code of a function or class, without its docstring."""
    file, _, name = place.partition("::")
    if not file.endswith(".py"):
        return []
    source = (ledger.ROOT / file).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if getattr(node, "name", None) == name and ast.get_docstring(node):
            return [ast.unparse([node.args, *node.body[1:]])] if hasattr(node, "args") else []
    return []


@functools.cache
def largest_errors(name):
    """Return the figures of the searches for the largest error of a function, as it quotes them."""
    # Not for the build of the pages, where `exact` in a docstring would be this module.
    import exact  # noqa: PLC0415

    folder = ledger.ROOT / "docs"
    texts = [(folder / "results" / file).read_text() for file in ("largest.csv", "bounds.csv")]
    tables = [csv.DictReader(text.splitlines()) for text in texts]
    rows = [row for row in itertools.chain(*tables) if row["dtype"] == "float64"]
    rows = [row for row in rows if row["function"].replace("gelu_tanh", "gelu") == name]
    found = [
        row.get("published") or exact.rounded_up(float(row["largest error"]), 2) for row in rows
    ]
    near = re.search(r"NEAR = ([\d.]+)", (folder / "measure" / "largest_errors.py").read_text())
    ends = re.search(r"LOW, HIGH = -(\d), (\d)", (folder / "measure" / "bounds.py").read_text())
    return " ".join([*found, near[1], f"1/{2 ** int(ends[1])}", str(2 ** int(ends[2]))])


def plain(text):
    """Return a text with numbers as they are written in Python."""
    text = re.sub(r"(?<=\d)(?:_|\{,\}|[ ,](?=\d{3}(?!\d)))(?=\d{3})", "", text)
    text = re.sub(r"\\t?frac\{?(\d+)\}?\s*\{?(\d+)\}?", r" \1/\2 ", text)
    return text.replace("−", "-").replace("\\", " ")


@functools.cache
def values(text):
    """Return the numbers of a text in their order, without signs; a quotient is one number.

    Indices and exponents of formulas count nothing.
    """
    if "`" in text or "\\" in text:
        text = re.sub(r"[_^](?:\{[^{}]*\}|\d)", " ", text)
    found = re.finditer(r"(\d+)\s?/\s?(\d+)(?![\w.])|\d+\.?\d*(?:e[-+]?\d+)?", plain(text))
    return [
        int(m[1]) / int(m[2]) if m[1] and int(m[2]) else float(m[0].partition("/")[0])
        for m in found
    ]


def value(word):
    """Return a number and how far it may be from what it rounds."""
    if word in NUMBERS:
        return NUMBERS[word], 0.0
    word = re.sub(r"(?<=\d)[ ,](?=\d{3})", "", word).replace("−", "-")
    mantissa, _, exponent = word.partition("e")
    digits = len(mantissa.partition(".")[2])
    return float(word), 0.501 * 10.0 ** (int(exponent or 0) - digits) if digits else 0.0


def is_near(number, slack, other):
    return abs(number - other) <= slack + 1e-9 * number


def is_backed(place, part, sentence, spot):
    """Whether the number at a spot stands beside the sentence; None if that is not asked."""
    found = evidence(place, part)
    if "Largest error found" in sentence:
        found = [*found, largest_errors(place.partition("::")[2])]
    for pattern, check in ((LIST, has_list), (TERM, has_term)):
        for m in pattern.finditer(sentence):
            if m.start() <= spot.start() < m.end():
                return any(check(m[0], text) for text in found)
    number, slack = value(spot[0])
    for m in NAMES.finditer(sentence):
        if m.start() <= spot.start() < m.end():
            return None if m[0] in KNOWN else False
    percent = re.match(r" (?:%|percent)", sentence[spot.end() :])
    every = itertools.chain.from_iterable(map(values, found))
    return any(
        is_near(number, slack, other) or (percent and is_near(number, max(slack, 0.5), 100 * other))
        for other in every
    )


def has_list(words, text):
    """Whether the numbers stand in a text one after the other."""
    wanted = [value(word) for word in re.findall(DIGITS, words)]
    have = values(text)
    runs = (have[k : k + len(wanted)] for k in range(len(have) - len(wanted) + 1))
    return any(
        all(is_near(*want, other) for want, other in zip(wanted, run, strict=True)) for run in runs
    )


def has_term(words, text):
    """Whether a term stands in a text, whatever the spaces."""
    return re.sub(r"[\s)]", "", plain(words)) in re.sub(r"[\s)]", "", plain(text))


# Definitions by numbers

LITERAL = re.compile(r"(?!.*\\[lg]e)[^=<>]*= (?:(?:\\t?frac|[\d\s.,(){}+-])+)")
SIGNED = r"(?:(?<=[\s(\[{=,:])-|)\d+\.?\d*(?:e[-+]?\d+)?"


@functools.cache
def literals():
    """Return where a name is defined by a number of two digits or a tuple, and the part."""
    return {
        (place, text): part
        for place, whole in inline.sources()
        for part in parts(place, whole)
        for text in map(ledger.normalized, inline.MATH.findall(part))
        if LITERAL.fullmatch(text) and inline.defines(text) and inline.verdict(text) != "number"
    }


def is_literal(place, part, text):
    """Whether the numbers of such a definition stand in the code of its place, in their order."""
    try:
        wanted = eval(
            re.sub(r"\\t?frac\s*\{?(\d+)\}?\s*\{?(\d+)\}?", r"\1/\2", text.split("= ")[1])
        )
    except (SyntaxError, TypeError):
        return False
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for words in evidence(place, part):
        if "math:" not in words:
            have = [float(n) for n in re.findall(SIGNED, plain(words))]
            have += [int(a) / int(b) for a, b in re.findall(r"(-?\d+) ?/ ?(\d+)", words) if int(b)]
            runs = (have[k : k + len(wanted)] for k in range(len(have) - len(wanted) + 1))
            if any(all(map(math.isclose, wanted, run)) for run in runs):
                return True
    return False

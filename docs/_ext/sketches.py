"""The directive ``sketch``: a small picture in an essay, drawn by lines of Python with dlref.

The lines run while the pages are built, and their last one calls a function of `DRAWING`. Each
returns an SVG of a few kilobytes that takes its colors from the page, light or dark. The
directive's argument describes the picture, for readers who do not see it, and is its caption.
``python sketches.py PAGE.rst OUT.html`` draws the sketches of one page, to look at.
"""

import cmath
import html
import itertools
import math
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
from course import SKETCH
from docutils import nodes
from docutils.parsers.rst import Directive

WIDTH, HEIGHT = 440, 220
LEFT, RIGHT, TOP, BOTTOM = 52, 130, 12, 42  # margins; the names of the curves stand on the right


def text(x, y, words, anchor="middle", **options):
    """Return words at a point."""
    more = "".join(f' {name}="{value}"' for name, value in options.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>'


def ticks(low, high, *, log):
    """Return some round numbers between two: powers of ten, or 1, 2 or 5 times one."""
    if log:
        first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
        return list(range(first, last + 1, max(1, math.ceil((last - first) / 4))))
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(s * unit for s in (1, 2, 5, 10) if s * unit >= rough)
    return list(np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step)


def label(value, *, log):
    """Return a tick as a reader writes it."""
    if log:
        superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
        small = {0: "1", 1: "10", 2: "100", -1: "0.1", -2: "0.01"}
        return small.get(value) or "10" + str(value).translate(superscripts)
    return f"{value:.6g}".replace("-", "−")


def spread(places, least=15):
    """Return places moved apart, in the same order, so that words do not overlap."""
    order, out = np.argsort(places, kind="stable"), np.array(places, float)
    for one, other in itertools.pairwise(order):
        out[other] = max(out[other], out[one] + least)
    return out - max(0.0, out.max(initial=0.0) - (HEIGHT - BOTTOM))


def curves(x, lines, *, xlabel, ylabel, log="", ylim=None):
    """Return curves with their names at their ends; `log` names the logarithmic axes."""
    x = np.asarray(x, float)
    lines = {name: np.asarray(y, float) for name, y in lines.items()}
    scale_x, scale_y = (np.log10 if axis in log else np.asarray for axis in "xy")
    low, high = ylim or (min(map(np.min, lines.values())), max(map(np.max, lines.values())))
    (left, right), (low, high) = scale_x([x[0], x[-1]]), scale_y([low, high])
    if "y" in log:
        low, high = math.floor(low + 1e-9), math.ceil(high - 1e-9)

    def across(values):
        return LEFT + (np.asarray(values) - left) / (right - left) * (WIDTH - LEFT - RIGHT)

    def up(values):
        share = np.clip((np.asarray(values) - low) / (high - low), 0, 1)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    out, end = [], WIDTH - RIGHT
    for tick in ticks(low, high, log="y" in log):
        out.append(f'<path class="ifig-grid" d="M{LEFT} {up(tick):.1f}H{end}"/>')
        out.append(text(LEFT - 6, up(tick) + 4, label(tick, log="y" in log), "end"))
    out += [
        text(across(tick), HEIGHT - BOTTOM + 17, label(tick, log="x" in log))
        for tick in ticks(left, right, log="x" in log)
    ]
    out.append(text((LEFT + end) / 2, HEIGHT - 6, xlabel))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(text(12, middle, ylabel, transform=f"rotate(-90 12 {middle:.0f})"))
    ends = spread([up(scale_y(y[-1])) for y in lines.values()])
    for k, (name, y) in enumerate(lines.items()):
        points = zip(across(scale_x(x)), up(scale_y(y)), strict=True)
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
        out.append(f'<g class="ifig-curve ifig-curve-{k}"><path d="M{path}"/>')
        out.append(f"{text(end + 6, ends[k] + 4, name, 'start')}</g>")
    return drawing(out, HEIGHT)


def maps(matrices, *, rows, columns, side=24):
    """Return matrices with elements from 0 to 1 as squares, the darker the larger."""
    out, start = [], 46
    for title, given in matrices.items():
        matrix = np.asarray(given, float)
        count = matrix.shape[1]
        out.append(text(start + count * side / 2, 14, title))
        for i, row in enumerate(matrix):
            y = 40 + i * side
            out.append(text(start - 6, y + side * 0.65, rows[i], "end"))
            for j, value in enumerate(row):
                place = f'x="{start + j * side}" y="{y}" width="{side}" height="{side}"'
                heat = f'style="--heat:{100 * value:.0f}%"'
                out.append(f'<rect class="sketch-cell" {place} {heat}/>')
        for j, name in enumerate(columns[:count]):
            out.append(text(start + (j + 0.5) * side, 34, name))
        start += count * side + 56
    return drawing(out, 48 + side * len(rows), start - 30)


def chain(names, *, forward, backward):
    """Return boxes in a row: arrows to the right above them, to the left below them."""
    out, width, gap = [], 52, 40
    for k, name in enumerate(names):
        x = 12 + k * (width + gap)
        out.append(f'<rect class="sketch-box" x="{x}" y="44" width="{width}" height="34" rx="5"/>')
        out.append(text(x + width / 2, 66, name))
        if k < len(names) - 1:
            a, b = x + width + 4, x + width + gap - 4
            out.append(f'<path class="sketch-arrow" d="M{a} 52H{b}m-6 -4l6 4l-6 4"/>')
            out.append(
                f'<g class="ifig-curve ifig-curve-1"><path d="M{b} 70H{a}m6 -4l-6 4l6 4"/></g>'
            )
            out.append(text((a + b) / 2, 34, forward[k]))
            out.append(text((a + b) / 2, 100, backward[k]))
    return drawing(out, 112, 12 + len(names) * (width + gap) - gap + 12)


def bars(groups, *, names, width=44, height=110):
    """Return groups of bars with their numbers; those below 0 go down, in the gradients' color."""
    out, start = [], 16
    every = [value for values in groups.values() for value in values]
    top, bottom = max(0, *every), min(0, *every)
    unit = height / ((top - bottom) or 1)
    zero = 44 + top * unit
    floor = 44 + height + 34
    for title, values in groups.items():
        end = start + width * len(values)
        out.append(text((start + end) / 2, 14, title))
        out.append(f'<path class="sketch-axis" d="M{start} {zero:.1f}H{end}"/>')
        for k, value in enumerate(values):
            x, size = start + k * width, abs(value) * unit
            y = zero - size if value >= 0 else zero
            sign = "plus" if value >= 0 else "minus"
            place = f'x="{x + 8}" y="{y:.1f}" width="{width - 16}" height="{max(size, 1):.1f}"'
            out.append(f'<rect class="sketch-bar sketch-{sign}" {place}/>')
            written = y - 5 if value >= 0 else y + size + 14
            out.append(text(x + width / 2, written, label(value, log=False)))
            out.append(text(x + width / 2, floor, names[k]))
        start = end + 40
    return drawing(out, floor + 8, start - 24)


def arrow(start, end):
    """Return an arrow between two points of the plane, which are complex numbers."""
    back = 7 * (start - end) / abs(start - end)
    line = (start, end, end + back * cmath.exp(0.5j), end, end + back * cmath.exp(-0.5j))
    path = "L".join(f"{z.real:.1f} {z.imag:.1f}" for z in line)
    return f'<path class="sketch-arrow" d="M{path}"/>'


def graph(nodes, edges, *, step=112, rise=74):
    """
    Return boxes joined by arrows.

    `nodes` are columns, rows and texts by name; an edge is a start, an end, the words above its
    arrow and those below, which are about gradients.
    """
    width = {name: max(44, 16 + 7.6 * len(node[2])) for name, node in nodes.items()}
    at = {n: complex(60 + column * step, 40 + row * rise) for n, (column, row, _) in nodes.items()}
    out = []

    def border(name, toward):
        """Return where an arrow in a direction leaves a box, and a little beyond."""
        to_side = width[name] / 2 / max(abs(toward.real), 1e-9)
        return min(to_side, 17 / max(abs(toward.imag), 1e-9)) + 4

    for first, second, above, below in edges:
        toward = (at[second] - at[first]) / abs(at[second] - at[first])
        start = at[first] + toward * border(first, toward)
        end = at[second] - toward * border(second, toward)
        out.append(arrow(start, end))
        x, y = ((start + end) / 2).real, ((start + end) / 2).imag
        steep = abs(toward.imag) > 0.8  # the words stand on the right of the arrow
        x, anchor = (x + 8, "start") if steep else (x, "middle")
        if above:
            out.append(text(x, y - (4 if steep else 8), above, anchor))
        if below:
            words = text(x, y + (14 if steep else 19), below, anchor)
            out.append(f'<g class="ifig-curve ifig-curve-1">{words}</g>')
    for name, (_, _, words) in nodes.items():
        x, y = at[name].real, at[name].imag
        place = f'x="{x - width[name] / 2:.1f}" y="{y - 17}" width="{width[name]:.1f}" height="34"'
        out.append(f'<rect class="sketch-box" {place} rx="5"/>{text(x, y + 4.5, words)}')
    right = max(at[n].real + width[n] / 2 for n in nodes)
    return drawing(out, max(z.imag for z in at.values()) + 40, right + 16)


def matrices(*parts, side=44):
    """Return matrices with their numbers, each after its caption, and operators between them."""
    parts = [p if isinstance(p, str) else np.atleast_2d(np.asarray(p, float)) for p in parts]
    tall, out, start = max(len(p) for p in parts if not isinstance(p, str)), [], 14
    middle = 30 + tall * 26 / 2
    for k, given in enumerate(parts):
        if not isinstance(given, str):
            rows, columns = given.shape
            y, end = middle - rows * 13, start + columns * side
            out.append(text((start + end) / 2, y - 8, parts[k - 1]))
            for x, turn in ((start, 5), (end, -5)):
                out.append(
                    f'<path class="sketch-arrow" d="M{x + turn} {y}H{x}v{rows * 26}h{turn}"/>'
                )
            out += [
                text(start + (j + 0.5) * side, y + i * 26 + 18, label(round(value, 4), log=False))
                for (i, j), value in np.ndenumerate(given)
            ]
            start = end + 12
        elif k + 1 == len(parts) or isinstance(parts[k + 1], str):
            wide = 9 * len(given) + 8
            out.append(text(start + wide / 2, middle + 5, given))
            start += wide + 12
    return drawing(out, 30 + tall * 26 + 12, start + 2)


def drawing(parts, height, width=WIDTH):
    """Return an SVG of its parts; the directive puts the description into it."""
    box = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    style = f'style="max-width:{1.4 * width:.0f}px"'
    return f'<svg class="sketch" role="img" aria-label="%s" {box} {style}>{"".join(parts)}</svg>'


#: The functions that draw, which a sketch calls in its last lines.
DRAWING = {f.__name__: f for f in (curves, maps, chain, bars, graph, matrices)}


def draw(code, where="a sketch"):
    """Run the lines of a sketch and return what the last one returns."""
    names = {"np": np, **DRAWING}
    *lines, last = code.rstrip().split("\n\n")
    exec(compile("\n\n".join(lines), where, "exec"), names)
    return eval(compile(last.strip(), where, "eval"), names)


class Sketch(Directive):
    """A picture with its description; the code ends with a paragraph that draws."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self):
        """Return the picture as HTML, and its description as a caption."""
        words = " ".join(self.arguments[0].split())
        picture = draw("\n".join(self.content), f"sketch in {self.state.document['source']}")
        svg = picture.replace("%s", html.escape(words), 1)
        caption = nodes.paragraph(words, words, classes=["sketch-caption"])
        return [nodes.raw("", svg, format="html"), caption]


def setup(app):
    """Register the directive."""
    app.add_directive("sketch", Sketch)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


#: A page with the colors that the theme would give.
PREVIEW = """<link rel="stylesheet" href="{css}">
<style>:root {{ --pst-color-text-base: #222; --pst-color-border: #999; --pst-color-text-muted: #555;
--pst-color-surface: #eee }}</style><div class="bd-article">{pictures}</div>"""


def preview(page, out):
    """Draw the sketches of one page into an HTML file."""
    source = Path(page).read_text(encoding="utf-8")
    css = Path(__file__).parents[1].joinpath("_static", "dlref.css").as_uri()
    pictures = "\n".join(draw(dedent(code), page) for _, code in SKETCH.findall(source))
    Path(out).write_text(PREVIEW.format(css=css, pictures=pictures), encoding="utf-8")


if __name__ == "__main__":
    preview(*sys.argv[1:])

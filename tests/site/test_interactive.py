"""Interactive figures: each control moves the right curves to the right values.

The values are dlref's, those of the dashboard also formulas written out here.
"""

import contextlib
import inspect
import itertools
import json
import math

import numpy as np
import pytest
import tryit

SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772  # of SELU
#: Read a panel off the screen: the points of a curve, and two places on each axis.
READ = """
([panel, curve]) => {
  const box = document.querySelectorAll('.ifig-panel')[panel];
  const texts = [...box.querySelectorAll('svg text')];
  const superscripts = '⁰¹²³⁴⁵⁶⁷⁸⁹';
  const value = t => /^10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+$/.test(t)
    ? 10 ** +[...t.slice(2)].map(c => c === '⁻' ? '-' : superscripts.indexOf(c)).join('')
    : +t.replace('−', '-');
  const axis = (anchor, at) => texts
    .filter(t => t.getAttribute('text-anchor') === anchor && !isNaN(value(t.textContent)))
    .map(t => [value(t.textContent), at(t)]);
  const group = box.querySelector('g.ifig-curve-' + curve);
  return {
    x: axis('middle', t => +t.getAttribute('x')),
    y: axis('end', t => +t.getAttribute('y') - 4),
    points: (group.querySelector('path').getAttribute('d').match(/[ML][^ML]+/g) || [])
      .map(p => p.slice(1).split(' ').map(Number)),
    label: box.querySelector('svg').getAttribute('aria-label'),
  };
}
"""


def normal_tail(t):
    return math.erfc(t / math.sqrt(2)) / 2


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


ACTIVATION = {
    "ReLU": lambda x, _: max(x, 0),
    "Leaky ReLU": lambda x, a: x if x > 0 else a * x,
    "ELU": lambda x, a: x if x > 0 else a * math.expm1(x),
    "SELU": lambda x, _: SCALE * (x if x > 0 else ALPHA * math.expm1(x)),
    "sigmoid": lambda x, _: sigmoid(x),
    "tanh": lambda x, _: math.tanh(x),
}
SLOPE = {
    "ReLU": lambda x, _: float(x > 0),
    "Leaky ReLU": lambda x, a: 1 if x > 0 else a,
    "ELU": lambda x, a: 1 if x > 0 else a * math.exp(x),
    "SELU": lambda x, _: SCALE * (1 if x > 0 else ALPHA * math.exp(x)),
    "sigmoid": lambda x, _: sigmoid(x) * sigmoid(-x),
    "tanh": lambda x, _: 1 / math.cosh(x) ** 2,
}


def mean_square_slope(kind, a):
    below = math.exp(2) * normal_tail(2)  # of exp(z) for normal z below 0
    known = {
        "ReLU": 0.5,
        "Leaky ReLU": (1 + a**2) / 2,
        "ELU": 0.5 + a**2 * below,
        "SELU": SCALE**2 * (0.5 + ALPHA**2 * below),
    }
    if kind in known:
        return known[kind]
    grid = [k / 100 for k in range(-900, 901)]
    weights = [math.exp(-(z**2) / 2) for z in grid]
    squares = (w * SLOPE[kind](z, a) ** 2 for w, z in zip(weights, grid, strict=True))
    return math.fsum(squares) / math.fsum(weights)


class Figure:
    def __init__(self, page, **settings):
        self.page, self.settings = page, settings
        self.spec = json.loads(page.locator(".ifig script").first.text_content())

    def set(self, **values):
        for name, value in values.items():
            control = self.page.locator(f".ifig [name={name}]")
            if isinstance(value, str):
                control.select_option(label=value)
            else:
                [found] = [c for c in self.spec["controls"] if c["name"] == name]
                control.fill(str(found["values"].index(value)))
            self.settings[name] = value

    def read(self, panel, curve=0, log=False):
        """Return the curve as (x, y) values, measured with the ticks of the axes."""
        seen = self.page.evaluate(READ, [panel, curve])
        scale = {}
        for name in "xy":
            convert = math.log10 if log and name == "y" else float
            (a, at_a), *_, (b, at_b) = [(convert(v), at) for v, at in seen[name]]
            slope = (b - a) / (at_b - at_a)
            scale[name] = lambda p, a=a, at=at_a, s=slope: a + s * (p - at)
        points = [(scale["x"](x), scale["y"](y)) for x, y in seen["points"]]
        return [(x, 10**y) for x, y in points] if log else points


class Dashboard(Figure):
    def check(self):
        """Compare all curves with the formulas: within a pixel's tenth of what is drawn."""
        kind, alpha = self.settings["kind"], self.settings["alpha"]
        root = math.sqrt(mean_square_slope(kind, alpha))
        for curve, base in enumerate((self.settings["weight"] * root, self.settings["weight"])):
            drawn = self.read(0, curve, log=True)
            assert [round(x) for x, _ in drawn] == list(range(1, self.settings["depth"] + 1))
            for x, y in drawn:
                decades = abs(math.log10(y) - round(x) * math.log10(base))
                assert decades < 0.02, (self.settings, x, y)
        for panel, function in ((1, ACTIVATION[kind]), (2, SLOPE[kind])):
            drawn = self.read(panel)
            assert len(drawn) > 120
            for x, y in drawn:
                if abs(x) > 0.02:
                    assert abs(y - function(x, alpha)) < 0.03, (self.settings, panel, x, y)


@pytest.fixture(scope="module")
def context(contexts):
    return contexts(viewport={"width": 1280, "height": 900}, formulas=False)


@contextlib.contextmanager
def opened(context, path):
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector(".ifig[data-ready]")
    yield page
    page.close()


DASHBOARD = "gallery/propagation/plot_gradient_magnitude.html"
START = {"weight": 0.8, "depth": 5, "alpha": 0.2, "kind": "ReLU"}


@pytest.fixture(scope="module")
def shared(context, site):
    with opened(context, site / DASHBOARD) as page:
        yield Dashboard(page, **START)


@pytest.fixture
def dashboard(shared):
    """One page for all tests, each of which finds the controls where they start."""
    shared.set(kind="ELU")  # which has an alpha to set
    shared.set(**START)
    return shared


def test_starts_as_designed(context, site):
    with opened(context, site / DASHBOARD) as page:
        Dashboard(page, **START).check()
        values = [page.locator(f".ifig [name={n}]").count() for n in START]
        assert values == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", list(ACTIVATION))
def test_every_activation(dashboard, kind):
    dashboard.set(kind=kind)
    dashboard.check()


@pytest.mark.parametrize("weight", [0.1, 1, 1.37, 2])
def test_weight_moves_the_gradient_only(dashboard, weight):
    before = dashboard.read(1), dashboard.read(2)
    dashboard.set(weight=weight)
    assert (dashboard.read(1), dashboard.read(2)) == before
    dashboard.check()


@pytest.mark.parametrize("depth", [1, 2, 20])
def test_layers_move_the_gradient(dashboard, depth):
    dashboard.set(depth=depth)
    dashboard.check()


@pytest.mark.parametrize("alpha", [0.01, 0.33, 0.5])
@pytest.mark.parametrize("kind", ["Leaky ReLU", "ELU"])
def test_alpha_moves_what_has_one(dashboard, kind, alpha):
    dashboard.set(kind=kind)
    before = [dashboard.read(panel) for panel in range(3)]
    dashboard.set(alpha=alpha)
    assert [dashboard.read(panel) for panel in range(3)] != before
    dashboard.check()


@pytest.mark.parametrize("kind", list(ACTIVATION))
def test_alpha_is_grey_where_there_is_none(dashboard, kind):
    dashboard.set(kind=kind)
    assert dashboard.page.locator("[name=alpha]").is_enabled() == (kind in {"Leaky ReLU", "ELU"})


def test_words_for_screen_readers_are_not_seen(dashboard):
    said = dashboard.page.locator(".ifig-said").first
    assert said.text_content()
    box = said.bounding_box()
    assert box["width"] <= 1
    assert box["height"] <= 1


@pytest.mark.parametrize(("weight", "kind"), [(0.1, "sigmoid"), (2, "SELU")])
def test_nothing_is_cut_off(dashboard, weight, kind):
    dashboard.set(weight=weight, depth=20, kind=kind)
    dashboard.check()
    for panel in range(3):
        seen = dashboard.page.evaluate(READ, [panel, 0])
        assert all(9 <= y <= 217 for _, y in seen["points"])


def test_keyboard_moves_a_slider_and_the_words(dashboard):
    slider = dashboard.page.locator(".ifig [name=weight]")
    slider.focus()
    assert slider.get_attribute("aria-valuetext") == "0.8"
    dashboard.page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "0.81"
    dashboard.settings["weight"] = 0.81
    dashboard.check()
    label = dashboard.page.evaluate(READ, [0, 0])["label"]
    assert label.startswith("Gradient magnitude. with slopes 0.5728 at 1, ")
    assert label.endswith("weights alone 0.81 at 1, 0.3487 at 5")


def test_controls_have_names(dashboard):
    for name, role, text in [
        ("weight", "slider", "Weight w"),
        ("depth", "slider", "Layers L"),
        ("alpha", "slider", "α (Leaky ReLU, ELU)"),
        ("kind", "combobox", "Activation"),
    ]:
        control = dashboard.page.get_by_role(role, name=text)
        assert control.get_attribute("name") == name


@pytest.mark.parametrize("width", [390, 1280])
def test_fits_and_is_accessible(context, site, axe, schemes, width):
    with opened(context, site / DASHBOARD) as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(axe)
        for theme in schemes(page):
            box = page.locator(".ifig").bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            found = page.evaluate(
                "async () => (await axe.run('.ifig')).violations.map(v => [v.id, v.nodes[0].html])"
            )
            assert found == [], theme


#: The height of the smallest text of all panels, in pixels of the screen.
SMALLEST = """
() => Math.min(...[...document.querySelectorAll('.ifig svg text')].map(t =>
    parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getScreenCTM().a))
"""


@pytest.mark.parametrize("script", tryit.FIGURES)
def test_text_can_be_read_on_every_screen(context, site, script):
    with opened(context, site / f"gallery/{script}.html") as page:
        for width in (390, 768, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(SMALLEST) >= 9, width


def test_without_scripts_there_is_a_picture(contexts, site):
    page = contexts(java_script_enabled=False).new_page()
    page.goto((site / DASHBOARD).as_uri())
    assert page.locator("img.sphx-glr-single-img").first.is_visible()
    assert not page.locator(".ifig").is_visible()
    page.close()


def test_with_scripts_the_picture_is_gone(dashboard):
    pictures = dashboard.page.locator("img.sphx-glr-single-img")
    assert pictures.count() > 0
    assert not any(picture.is_visible() for picture in pictures.all())


class TestRotation:
    @pytest.fixture
    def figure(self, context, site):
        with opened(context, site / "gallery/positions/plot_rotary.html") as page:
            yield Figure(page, position=40, pair=4, base="10000")

    @pytest.mark.parametrize(
        "moved", [{}, {"position": 64}, {"position": 1}, {"pair": 31}, {"base": "100"}]
    )
    def test_channels_are_cosine_and_sine(self, figure, moved):
        before = figure.read(0), figure.read(0, 1), figure.read(1), figure.read(1, 1)
        figure.set(**moved)
        frequency = float(figure.settings["base"]) ** (-2 * figure.settings["pair"] / 64)
        for curve, f in enumerate((math.cos, math.sin)):
            drawn = figure.read(0, curve)
            assert [round(x) for x, _ in drawn] == list(range(figure.settings["position"] + 1))
            assert all(abs(y - f(round(x) * frequency)) < 0.02 for x, y in drawn)
        after = figure.read(0), figure.read(0, 1), figure.read(1), figure.read(1, 1)
        assert (after == before) == (not moved)
        assert (after[2:] == before[2:]) == ("base" not in moved)

    def test_the_score_of_equal_vectors_is_symmetric(self, figure):
        for base in ("100", "10000", "500000"):
            figure.set(base=base)
            values = [y for _, y in figure.read(1, 1)]
            assert all(abs(a - b) < 0.5 for a, b in zip(values, values[::-1], strict=True))
            other = [y for _, y in figure.read(1, 0)]
            assert max(abs(a - b) for a, b in zip(other, other[::-1], strict=True)) > 5


def moves(fig, control):
    """Tell whether a slider changes the drawing, for some option of the lists beside it."""
    lists = fig.locator("select").all()
    options = [(s, k) for s in lists for k in range(s.locator("option").count())] or [(None, 0)]
    for choice, index in options:
        if choice:
            choice.select_option(index=index)
        if control.is_disabled():
            continue
        seen = set()
        for value in ("0", control.get_attribute("max")):
            control.fill(value)
            seen.add(fig.locator("svg").evaluate_all("all => all.map(s => s.innerHTML).join()"))
        if len(seen) == 2:
            return True
    return False


def chooses(fig, control):
    """Tell whether each option of a list gives a drawing of its own."""
    seen, count = set(), control.locator("option").count()
    for index in range(count):
        control.select_option(index=index)
        seen.add(fig.locator("svg").evaluate_all("all => all.map(s => s.innerHTML).join()"))
    return len(seen) == count


def test_every_control_of_every_figure_moves_something(context, site):
    pages = [p for p in site.glob("gallery/*/*.html") if 'class="ifig"' in p.read_text()]
    assert len(pages) >= 6
    for path in pages:
        with opened(context, path) as page:
            for fig in page.locator(".ifig").all():
                for control in fig.locator("select").all():
                    assert chooses(fig, control), (path.name, control.get_attribute("name"))
                for control in fig.locator("input[type=range]").all():
                    assert moves(fig, control), (path.name, control.get_attribute("name"))


#: Read a map: for each cell what it says, its row and column by place, and its color.
READ_MAP = """
panel => {
  const box = document.querySelectorAll('.ifig-panel')[panel];
  const cells = [...box.querySelectorAll('.ifig-curve-0 > rect:has(title)')];
  const bounds = e => e.getBoundingClientRect();
  const frame = bounds(box.querySelector('.ifig-frame'));
  return {
    cells: cells.map(c => ({
      text: c.querySelector('title').textContent,
      x: bounds(c).left - frame.left, y: bounds(c).top - frame.top,
      width: bounds(c).width, height: bounds(c).height, opacity: +c.getAttribute('fill-opacity'),
    })),
    frame: [frame.width, frame.height],
    texts: [...box.querySelectorAll('svg > g[aria-hidden] > text')].map(t => t.textContent),
    bar: box.querySelectorAll('.ifig-bar > rect').length,
  };
}
"""


def read_map(page, panel=0):
    """Return a map as rows of numbers, top row first, and what is drawn beside it."""
    seen = page.evaluate(READ_MAP, panel)
    ys, xs = (sorted({round(c[axis], 1) for c in seen["cells"]}) for axis in "yx")
    rows = [[None] * len(xs) for _ in ys]
    for cell in seen["cells"]:
        where, _, value = cell["text"].rpartition(": ")
        i, j = ys.index(round(cell["y"], 1)), xs.index(round(cell["x"], 1))
        rows[i][j] = float(value)
        cell["at"], cell["words"] = (i, j), where.split(" → ")
    return rows, seen


MAPS = {
    "attention/plot_statistics": ("sentence", 0.5),
    "transformer/plot_language_model": ("sentence", 1),
    "transformer/plot_tasks": ("text", 1),
    "transformer/plot_words": ("text", 1),
}


def as_read(script, text):
    """Return what stands on the axes: a model of words reads marks, and does not know all words."""
    plain = text.replace(" ", "").strip().lower()
    if script != "transformer/plot_words":
        return plain.strip(".")
    return "<end>" + plain.replace("wombat", "<unk>")


@pytest.mark.parametrize("script", MAPS)
def test_a_map_is_drawn_as_a_matrix_is_written(context, site, script):
    """Row 0 on top, a cell for each element and its word, colors as on the bar."""
    name, most = MAPS[script]
    with opened(context, site / f"gallery/{script}.html") as page:
        for index in range(page.locator(f".ifig [name={name}] option").count()):
            choice = page.locator(f".ifig [name={name}]")
            choice.select_option(index=index)
            text = choice.locator("option").nth(index).text_content()
            rows, seen = read_map(page)
            assert seen["bar"] > 10
            for cell in seen["cells"]:
                i, j = cell["at"]
                # words label their own row and column; every word stands twice, on both axes
                assert seen["texts"][2 * i] == cell["words"][0]
                assert seen["texts"][2 * j + 1] == cell["words"][1]
                assert abs(cell["opacity"] - min(1, rows[i][j] / most)) < 1e-3
            words = seen["texts"][: 2 * len(rows) : 2]
            joined = "".join(words).replace(" ", "").lower()
            assert joined == as_read(script, text)
            for row in rows:  # weights of attention
                assert abs(sum(row) - 1) < 2e-3
            first, last = (
                next(c for c in seen["cells"] if c["at"] == (k, k)) for k in (0, len(rows) - 1)
            )
            assert abs(first["x"]) < 1 > abs(first["y"])  # no half cell is cut off
            assert last["x"] + last["width"] < seen["frame"][0] + 1
            assert last["y"] + last["height"] < seen["frame"][1] + 1


@pytest.mark.parametrize("script", [name for name in MAPS if name.startswith("transformer")])
def test_a_causal_map_lies_below_the_diagonal(context, site, script):
    with opened(context, site / f"gallery/{script}.html") as page:
        rows, _ = read_map(page)
    above = [rows[i][j] for i in range(len(rows)) for j in range(i + 1, len(rows))]
    below = [rows[i][j] for i in range(len(rows)) for j in range(i)]
    assert max(above) == 0 < max(below)


def some(control):
    """Return values of a control: all of a list, of a slider some from end to end."""
    values = control["values"]
    return values if control["kind"] == "select" else values[:: max(1, len(values) // 8)]


def settings(controls):
    """Yield what to set: all combinations, or if there are many each control from the start on."""
    start = {c["name"]: c["values"][c["start"]] for c in controls}
    ways = [[(c["name"], value) for value in some(c)] for c in controls]
    if math.prod(map(len, ways)) <= 60:
        yield from map(dict, itertools.product(*ways))
        return
    for control, way in zip(controls, ways, strict=True):
        when = control["when"] or {"name": control["name"], "values": [None]}
        for used, (name, value) in itertools.product(when["values"], way):
            yield start | {when["name"]: used} | {name: value}
    yield from (dict(way[k] for way in ways) for k in (0, -1))


def off(figure, panel, curve, expected):
    """Return by how many pixels at most a curve is off."""
    spec = figure.spec["panels"][panel]
    seen = figure.page.evaluate(READ, [panel, curve])
    xs, ys = zip(*seen["points"], strict=True)
    assert len(xs) == len(expected)
    worst = []
    for axis, drawn, values in (("x", xs, spec["x"][: len(xs)]), ("y", ys, expected)):
        scale = np.log10 if spec["log"] and axis == "y" else np.asarray
        ticks, at = zip(*seen[axis], strict=True)
        low, high = scale(ticks[0]), scale(ticks[-1])
        wanted = at[0] + (scale(values) - low) * (at[-1] - at[0]) / (high - low)
        worst.append(np.max(abs(wanted - drawn)))
    return max(worst)


@pytest.fixture(scope="module")
def model(site):
    """Return a function that finds what a page offers: the parameters it trained."""

    def find(name):
        [file] = site.glob(f"_downloads/*/{name}")
        return file

    return find


@pytest.mark.parametrize("script", tryit.FIGURES)
def test_each_control_moves_the_figure_to_what_dlref_computes(context, site, model, script):
    compute, file = tryit.FIGURES[script]
    expected = compute(model(file)) if file else compute()
    with opened(context, site / f"gallery/{script}.html") as page:
        figure = Figure(page)
        controls = figure.spec["controls"]
        assert {c["name"] for c in controls} == set(inspect.signature(expected).parameters)
        shown = []
        for chosen in settings(controls):
            figure.set(**{c["name"]: chosen[c["name"]] for c in controls if not c["when"]})
            for control in (c for c in controls if c["when"]):
                if page.locator(f".ifig [name={control['name']}]").is_enabled():
                    figure.set(**{control["name"]: chosen[control["name"]]})
            panels = expected(**chosen)
            assert len(panels) == len(figure.spec["panels"])
            for panel, values in enumerate(panels):
                if figure.spec["panels"][panel]["y"]:
                    rows, _ = read_map(page, panel)
                    np.testing.assert_allclose(rows, values, rtol=6e-4, atol=5e-6)
                    shown.append(rows)
                else:
                    assert len(values) == len(figure.spec["panels"][panel]["names"])
                    worst = [off(figure, panel, k, curve) for k, curve in enumerate(values)]
                    assert max(worst) < 0.3, (chosen, panel, worst)
        assert len(shown) == len({str(rows) for rows in shown})  # no two maps are one


def test_each_figure_is_compared(site):
    pages = {p for p in site.glob("gallery/*/*.html") if 'class="ifig"' in p.read_text()}
    assert pages == {site / f"gallery/{script}.html" for script in tryit.FIGURES}

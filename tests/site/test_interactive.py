"""The dashboard: each control moves the right curves to the right values.

The expected values are computed here, from formulas written out, without dlref: this test runs
against the built pages alone.
"""

import contextlib
import json
import math

import pytest

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

    def set(self, **values):
        for name, value in values.items():
            control = self.page.locator(f".ifig [name={name}]")
            if isinstance(value, str):
                control.select_option(label=value)
            else:
                spec = json.loads(self.page.locator(".ifig script").text_content())
                [found] = [c for c in spec["controls"] if c["name"] == name]
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
def context(browser):
    with browser.new_context(offline=True, viewport={"width": 1280, "height": 900}) as context:
        yield context


@contextlib.contextmanager
def opened(context, path):
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector(".ifig[data-ready]")
    yield page
    page.close()


@pytest.fixture
def dashboard(context, site):
    with opened(context, site / "gallery/propagation/plot_gradient_magnitude.html") as page:
        yield Dashboard(page, weight=0.8, depth=5, alpha=0.2, kind="ReLU")


def test_starts_as_designed(dashboard):
    dashboard.check()
    values = [dashboard.page.locator(f".ifig [name={n}]").count() for n in dashboard.settings]
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
@pytest.mark.parametrize("kind", ["Leaky ReLU", "ELU", "SELU"])
def test_alpha_moves_what_has_one(dashboard, kind, alpha):
    dashboard.set(kind=kind)
    before = [dashboard.read(panel) for panel in range(3)]
    dashboard.set(alpha=alpha)
    changed = [dashboard.read(panel) for panel in range(3)] != before
    assert changed == (kind != "SELU")
    dashboard.check()


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


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_fits_and_is_accessible(dashboard, axe, theme, width):
    page = dashboard.page
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}' }}")
    page.evaluate("() => document.getAnimations().forEach(a => a.finish())")
    box = page.locator(".ifig").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    page.evaluate(axe)
    found = page.evaluate(
        "async () => (await axe.run('.ifig')).violations.map(v => [v.id, v.nodes[0].html])"
    )
    assert found == []


def test_without_scripts_there_is_a_picture(browser, site):
    page_path = site / "gallery/propagation/plot_gradient_magnitude.html"
    with browser.new_context(offline=True, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(page_path.as_uri())
        assert page.locator("img.sphx-glr-single-img").first.is_visible()
        assert not page.locator(".ifig").is_visible()


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
        seen = set()
        for value in ("0", control.get_attribute("max")):
            control.fill(value)
            seen.add(fig.locator("svg").evaluate_all("all => all.map(s => s.innerHTML).join()"))
        if len(seen) == 2:
            return True
    return False


def test_every_slider_of_every_figure_moves_a_curve(context, site):
    pages = [p for p in site.glob("gallery/*/*.html") if 'class="ifig"' in p.read_text()]
    assert len(pages) >= 2
    for path in pages:
        with opened(context, path) as page:
            for fig in page.locator(".ifig").all():
                for control in fig.locator("input[type=range]").all():
                    assert moves(fig, control), (path.name, control.get_attribute("name"))

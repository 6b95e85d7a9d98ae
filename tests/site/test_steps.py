"""Backpropagation step by step: each number on the screen, against formulas written out here."""

import math
import re

import pytest

PAGES = {"losses/cross_entropy": 9, "recurrent/rnn": 18}


@pytest.fixture
def opened(browser, site):
    pages, complaints = [], []

    def go(topic, **options):
        context = browser.new_context(offline=True, **options)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((site / "reference" / f"{topic}.html").as_uri())
        page.locator(".steps[data-ready]").wait_for()
        pages.append(context)
        return page

    yield go
    for context in pages:
        context.close()
    assert complaints == []


def numbers(page):
    """Return the numbers that the step on the screen prints."""
    printed = page.locator(".step:visible .go").all_inner_texts()
    return [float(n) for n in re.findall(r"-?\d+\.\d*", " ".join(printed))]


def walk(page):
    """Go through all steps with Next; return what each shows by its name."""
    shown = {}
    for _ in range(page.locator(".steps .step").count()):
        assert page.locator(".step:visible").count() == 1
        shown[page.locator(".step:visible strong").first.inner_text()] = numbers(page)
        page.get_by_role("button", name="Next", exact=True).click(force=True)
    return shown


def test_cross_entropy(opened):
    shown = walk(opened("losses/cross_entropy"))
    z = [0.0, 0.0, math.log(2)]
    s = [math.exp(v) / sum(map(math.exp, z)) for v in z]
    dz = [s[0], s[1], s[2] - 1]
    expected = {
        "z, forward": z, "s, forward": s, "L, forward": [-math.log(s[2])],
        "s, backward": [0, 0, -1 / s[2]], "z, backward": dz, "b, backward": dz,
        "W, backward": [d * v for d in dz for v in (1, 2)],
        "x, backward": [math.log(2) * dz[2], 0],
    }  # fmt: skip
    for name, values in expected.items():
        assert shown[name] == pytest.approx(values, abs=1e-4), name


def test_rnn(opened):
    shown = walk(opened("recurrent/rnn"))

    def states(w, x):
        h = [0.0]
        for value in x:
            h.append(math.tanh(w * h[-1] + value))
        return h

    w, x, step = 0.5, [1.0, 0.0, 0.0, 0.0], 1e-6
    h = states(w, x)
    for t in range(1, 5):
        assert shown[f"h{t}, forward"] == pytest.approx([h[t]], abs=1e-4)
        moved = [[v + d * (k == t - 1) for k, v in enumerate(x)] for d in (step, -step)]
        slope = (states(w, moved[0])[4] - states(w, moved[1])[4]) / (2 * step)
        assert shown[f"z{t}, backward"] == pytest.approx([slope], abs=1e-4)
    slope = (states(w + step, x)[4] - states(w - step, x)[4]) / (2 * step)
    assert shown["w, step 1"] == pytest.approx([slope], abs=1e-4)


@pytest.mark.parametrize("topic", PAGES)
def test_every_way_to_a_step_shows_its_numbers(opened, topic):
    """Back, and the chip of each step, lead to what Next led to."""
    page = opened(topic)
    shown = walk(page)
    assert len(shown) == PAGES[topic]
    heading = page.locator(".step:visible strong").first
    for name in reversed(shown):
        assert (heading.inner_text(), numbers(page)) == (name, shown[name])
        page.get_by_role("button", name="Back", exact=True).click(force=True)
    for name, printed in shown.items():
        page.locator(".steps-path").get_by_role("button", name=name, exact=True).click()
        assert (heading.inner_text(), numbers(page)) == (name, printed)


@pytest.mark.parametrize("topic", PAGES)
def test_keyboard_and_chips(opened, topic):
    page = opened(topic)
    said = page.locator(".steps [role=status]")
    last = PAGES[topic]
    page.get_by_role("button", name="Next", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert said.inner_text() == f"Step 3 of {last}"
    page.keyboard.press("ArrowLeft")
    assert said.inner_text() == f"Step 2 of {last}"
    page.locator(".steps-path button").last.click()
    assert said.inner_text() == f"Step {last} of {last}"
    page.get_by_role("button", name="Next", exact=True).click(force=True)
    assert said.inner_text() == f"Step {last} of {last}"
    assert page.locator("[aria-current=step]").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("topic", PAGES)
def test_accessible_and_narrow(opened, axe, topic, theme):
    page = opened(topic, viewport={"width": 390, "height": 800}, has_touch=True)
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}' }}")
    page.evaluate("() => document.getAnimations().forEach(a => a.finish())")
    page.locator(".steps-path button").nth(4).tap()
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run('.steps')).violations.map(v => v.id)")
    assert found == []
    for width in (390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0

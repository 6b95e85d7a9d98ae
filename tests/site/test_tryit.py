"""The figures to try: each control is moved, each number compared with dlref's."""

import json
import math
from pathlib import Path

import pytest

VALUES = json.loads(Path(__file__).with_name("tryit.json").read_text())
PAGES = {"positions/rotary": ".rope-dials", "attention/scaled_dot_product": ".attention-workbench"}


@pytest.fixture
def opened(browser, site):
    contexts, complaints = [], []

    def go(topic, **options):
        context = browser.new_context(offline=True, **options)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else 0
        )
        page.goto((site / "reference" / f"{topic}.html").as_uri())
        page.locator(f"{PAGES[topic]}[data-ready]").wait_for()
        contexts.append(context)
        return page

    yield go
    for context in contexts:
        context.close()
    assert complaints == []


def put(page, label, value):
    """Move a control, found by what its label says."""
    control = page.get_by_label(label, exact=False).first
    if control.evaluate("e => e.tagName") == "SELECT":
        control.select_option(str(value))
    else:
        control.fill(str(value))


def test_rope_dials(opened):
    page = opened("positions/rotary")
    labels = ["query position m", "key position n", "base", "pairing of the query"]
    matching = set()
    for settings, (now, later) in VALUES["rope"]:
        for label, value in zip([*labels, "pairing of the key"], settings, strict=True):
            put(page, label, value)
        shown = page.locator(".rope-dials [data-score]")
        assert float(shown.get_attribute("data-score")) == pytest.approx(now, abs=1e-12)
        assert shown.inner_text() == f"{now:.3f}"
        shown = page.locator(".rope-dials [data-later]")
        assert float(shown.get_attribute("data-later")) == pytest.approx(later, abs=1e-12)
        equal = "Equal" in page.locator(".rope-dials [role=status]").inner_text()
        assert equal == (abs(now - later) < 1e-9)
        matching.add((settings[3] == settings[4], equal))
    assert matching == {(True, True), (False, False)}


def test_rope_dials_by_keyboard(opened):
    page = opened("positions/rotary")
    arrow = page.locator("line.dial-q").first
    before = arrow.get_attribute("x2")
    page.get_by_label("query position m").focus()
    page.keyboard.press("ArrowRight")
    assert arrow.get_attribute("x2") != before
    assert "n - m = 1." in page.locator(".rope-dials [role=status]").inner_text()


@pytest.mark.parametrize("touch", [False, True])
def test_rope_dials_by_dragging_an_arrow(opened, touch):
    """From m = 3 through 4 rad of pair 0, at 1 rad per token, to m = 7; n stays 5."""
    page = opened("positions/rotary", has_touch=touch)
    page.locator(".rope-dials svg").first.scroll_into_view_if_needed()
    face = page.locator(".rope-dials svg").first.bounding_box()
    tip = page.locator(".rope-dials circle.dial-tip").first
    x, y, unit = face["x"] + face["width"] / 2, face["y"] + face["height"] / 2, face["width"] / 3
    start = math.atan2(-float(tip.get_attribute("cy")), float(tip.get_attribute("cx")))
    length = math.hypot(*(float(tip.get_attribute(c)) for c in ("cx", "cy")))
    path = [
        [x + unit * length * math.cos(start + a / 10), y - unit * length * math.sin(start + a / 10)]
        for a in range(41)
    ]
    if touch:
        fingers = page.context.new_cdp_session(page)
        for kind, points in [
            ("touchStart", [path[0]]), *(("touchMove", [p]) for p in path), ("touchEnd", [])
        ]:  # fmt: skip
            fingers.send(
                "Input.dispatchTouchEvent",
                {"type": kind, "touchPoints": [{"x": px, "y": py} for px, py in points]},
            )
    else:
        page.mouse.move(*path[0])
        page.mouse.down()
        for point in path:
            page.mouse.move(*point)
        page.mouse.up()
        page.mouse.move(x, y)  # no longer held
    assert page.get_by_label("query position m").input_value() == "7"
    assert page.get_by_label("key position n").input_value() == "5"
    want = next(v for s, v in VALUES["rope"] if s == [7, 5, 100, "interleaved", "interleaved"])
    shown = page.locator(".rope-dials [data-score]").get_attribute("data-score")
    assert float(shown) == pytest.approx(want[0], abs=1e-12)


def numbers(page, kind):
    return page.locator(f".tryit-{kind}").evaluate_all("es => es.map(e => +e.dataset.value)")


def test_attention_workbench(opened):
    page = opened("attention/scaled_dot_product")
    put(page, "sentence", "a b c")
    for name, row in zip("abc", VALUES["scores"], strict=True):
        for key, score in zip("abc", row, strict=True):
            put(page, f"score of query {name} and key {key}", score)
    identity = {}
    for settings, expected in VALUES["attention"]:
        labels = ["mask", "offset of the first query", "scale", "ALiBi slope"]
        for label, value in zip(labels, settings, strict=True):
            put(page, label, value)
        weights = numbers(page, "weights")
        assert weights == pytest.approx([w for row in expected for w in row], abs=1e-12)
        # One key left: its value is the output, for whatever query.
        for row, output in zip(expected, range(3), strict=True):
            if 1.0 in row:
                found = tuple(numbers(page, "output")[4 * output : 4 * output + 4])
                assert identity.setdefault(row.index(1.0), found) == pytest.approx(found)
    assert len(identity) >= 1
    put(page, "mask", "hide all keys of the first query")
    assert (
        'query "a" sees no key' in page.locator(".attention-workbench [role=status]").inner_text()
    )
    assert numbers(page, "output")[:4] == [0, 0, 0, 0]
    assert page.locator(".tryit-weights").all_inner_texts()[:3] == ["masked"] * 3


def test_a_sentence_of_ones_own(opened):
    page = opened("attention/scaled_dot_product")
    put(page, "sentence", "rows of weights sum to one")
    heads = page.locator(".attention-workbench tbody").nth(1).locator("th").all_inner_texts()
    assert heads == ["rows", "of", "weights", "sum", "to", "one"]
    weights = numbers(page, "weights")
    assert [sum(weights[i : i + 6]) for i in range(0, 36, 6)] == pytest.approx([1.0] * 6)
    put(page, "sentence", " ")
    assert numbers(page, "weights") == [1.0]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("topic", PAGES)
def test_accessible_and_narrow(opened, axe, topic, theme):
    page = opened(topic, viewport={"width": 390, "height": 800}, has_touch=True)
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}' }}")
    page.evaluate("() => document.getAnimations().forEach(a => a.finish())")
    page.evaluate(axe)
    found = page.evaluate(
        f"async () => (await axe.run('{PAGES[topic]}', {{preload: false}}))"
        ".violations.map(v => v.id)"
    )
    assert found == []
    for width in (390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0

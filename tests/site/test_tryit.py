"""The figures to try: each control is moved, each number compared with dlref's."""

import math

import numpy as np
import pytest
import tryit

PAGES = {"positions/rotary": ".rope-dials", "attention/scaled_dot_product": ".attention-workbench"}


@pytest.fixture
def opened(contexts, site):
    pages, complaints = [], []

    def go(topic, *, formulas=False, **options):
        page = contexts(formulas=formulas, **options).new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else 0
        )
        page.goto((site / "reference" / f"{topic}.html").as_uri())
        page.locator(f"{PAGES[topic]}[data-ready]").wait_for()
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.close()
    assert complaints == []


def put(page, label, value):
    """Move a control, found by what its label says."""
    figure = page.locator("[data-ready]")
    control = figure.get_by_label(label, exact=False).first.element_handle()  # found once
    if control.evaluate("e => e.tagName") == "SELECT":
        control.select_option(str(value))
    else:
        control.fill(str(value))


def test_rope_dials(opened):
    page = opened("positions/rotary")
    labels = ["query position m", "key position n", "base", "pairing of the query"]
    matching = set()
    for settings, (now, later) in tryit.rope():
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


def test_rope_dials_draw_what_dlref_rotates(opened):
    """The tips of both arrows of all four pairs."""
    page = opened("positions/rotary")
    for m, n, base, of_q, of_k in [(9, 2, 10000, True, False), (50, 31, 100, False, True)]:
        pairings = ["interleaved" if of else "half-split" for of in (of_q, of_k)]
        labels = ["query position m", "key position n", "base", "pairing of the query"]
        for label, value in zip(
            [*labels, "pairing of the key"], [m, n, base, *pairings], strict=True
        ):
            put(page, label, value)
        rotated = tryit.rope_rotated(m, n, base, of_q, of_k)
        for kind, x, interleaved in zip("qk", rotated, (of_q, of_k), strict=True):
            pairs = x.reshape(4, 2) if interleaved else x.reshape(2, 4).T
            drawn = page.locator(f"line.dial-{kind}").evaluate_all(
                "all => all.map(l => [+l.getAttribute('x2'), -l.getAttribute('y2')])"
            )
            np.testing.assert_allclose(drawn, pairs, rtol=0, atol=1e-12)


def test_rope_dials_by_keyboard(opened):
    page = opened("positions/rotary")
    arrow = page.locator("line.dial-q").first
    before = arrow.get_attribute("x2")
    page.get_by_label("query position m").focus()
    page.keyboard.press("ArrowRight")
    assert arrow.get_attribute("x2") != before
    assert "n - m = 1." in page.locator(".rope-dials [role=status]").inner_text()


#: An arrow, how far it is dragged in radians, and the positions that it moves from and to.
DRAGS = {"query": (0, 0, 4, "m", 3, 7), "key": (1, 1, 1, "n", 5, 8)}


@pytest.mark.parametrize("touch", [False, pytest.param(True, marks=pytest.mark.broad)])
@pytest.mark.parametrize("arrow", DRAGS)
def test_rope_dials_by_dragging_an_arrow(opened, arrow, touch):
    """The query through 4 rad at 1 rad per token, the key through 1 rad at 0.32 rad."""
    page = opened("positions/rotary", has_touch=touch)
    pair, of, angle, letter, start, end = DRAGS[arrow]
    position = page.get_by_label(f"{arrow} position {letter}")
    assert position.input_value() == str(start)
    face = page.locator(".rope-dials svg").nth(pair)
    face.scroll_into_view_if_needed()
    tip = face.locator("circle.dial-tip").nth(of)
    face = face.bounding_box()
    x, y, unit = face["x"] + face["width"] / 2, face["y"] + face["height"] / 2, face["width"] / 3
    first = math.atan2(-float(tip.get_attribute("cy")), float(tip.get_attribute("cx")))
    length = unit * math.hypot(*(float(tip.get_attribute(c)) for c in ("cx", "cy")))
    path = [
        [x + length * math.cos(first + a / 40), y - length * math.sin(first + a / 40)]
        for a in range(40 * angle + 1)
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
    assert position.input_value() == str(end)
    m, n = (int(page.get_by_label(f"position {p}").input_value()) for p in "mn")
    assert (m, n) == {"m": (end, 5), "n": (3, end)}[letter]
    score, _ = tryit.rope_scores(m, n, 100)
    shown = page.locator(".rope-dials [data-score]").get_attribute("data-score")
    assert float(shown) == pytest.approx(score, abs=1e-12)


def numbers(page, kind):
    return page.locator(f".tryit-{kind}").evaluate_all("es => es.map(e => +e.dataset.value)")


def typed(page, scores, cached=0):
    """Type a score into each cell of the table."""
    for i, (name, row) in enumerate(zip("abc"[cached:], scores, strict=True), 1):
        for j, (key, score) in enumerate(zip("abc", row, strict=True), 1):
            put(page, f"score of query {i}, {name}, and key {j}, {key}", score)


@pytest.mark.parametrize("cached", [0, 1, pytest.param(2, marks=pytest.mark.broad)])
def test_attention_workbench(opened, cached):
    """The queries after a cache, with masks, windows, biases and sinks."""
    page = opened("attention/scaled_dot_product")
    put(page, "sentence", "a b c")
    put(page, "tokens in the cache", cached)
    values = page.locator("[data-part=V]").evaluate_all("es => es.map(e => +e.dataset.value)")
    values = np.reshape(values, (3, 4))
    assert len({*values.ravel()}) > 9
    scores = tryit.SCORES[cached:]
    typed(page, scores, cached)
    shown = {}
    for settings, weights, output in tryit.attention(scores, values, cached):
        labels = ["mask", "window", "scale", "ALiBi slope", "sink"]
        for label, value in zip(labels, settings, strict=True):
            if shown.get(label) != value:
                put(page, label, value)
                shown[label] = value
        assert numbers(page, "weights") == pytest.approx(weights.ravel(), abs=1e-12)
        assert numbers(page, "output") == pytest.approx(output.ravel(), abs=1e-12)
        assert page.locator(".tryit-weights").count() == 3 * (3 - cached)


def test_a_row_without_keys_and_a_row_written_out(opened):
    page = opened("attention/scaled_dot_product")
    put(page, "sentence", "a b c")
    typed(page, tryit.SCORES)
    put(page, "mask", "hide all keys of the first query")
    status = page.locator(".attention-workbench [role=status]")
    assert 'query "a" sees no key' in status.inner_text()
    assert numbers(page, "output")[:4] == [0, 0, 0, 0]
    assert page.locator(".tryit-weights").all_inner_texts()[:3] == ["masked"] * 3
    put(page, "Written out", 1)
    put(page, "scale", 1)
    weights = np.exp(tryit.SCORES[1]) / np.exp(tryit.SCORES[1]).sum()
    text = page.locator(".tryit-row").inner_text()
    assert all(f"e^{s:.2f} = {np.exp(s):.3f}" in text for s in tryit.SCORES[1])
    assert ", ".join(f"{w:.3f}" for w in weights) in text
    assert page.locator("tr.chosen th").all_inner_texts() == ["b"]


def test_queries_and_keys_are_shown(opened):
    """The scores are their products, to the two digits of the fields."""
    page = opened("attention/scaled_dot_product")
    put(page, "sentence", "a b c")
    put(page, "tokens in the cache", 1)
    q, k = (
        np.reshape(
            page.locator(f"[data-part={part}]").evaluate_all("es => es.map(e => +e.dataset.value)"),
            (-1, 4),
        )
        for part in "QK"
    )
    fields = page.locator(".attention-workbench td input").evaluate_all(
        "es => es.map(e => +e.value)"
    )
    assert (q.shape, k.shape) == ((2, 4), (3, 4))
    np.testing.assert_allclose(np.ravel(q @ k.T), fields, rtol=0, atol=0.0051)


def test_the_classifier_of_the_start_page(contexts, site):
    page = contexts().new_page()
    page.goto((site / "index.html").as_uri())
    page.locator(".classifier-play[data-ready]").wait_for()
    names = ["cat", "dog", "owl"]
    for z, true, *expected in tryit.classifier():
        for name, score in zip(names, z, strict=True):
            put(page, f"score of {name}", score)
        put(page, "the picture shows a", names[true])
        for kind, values in zip(("probability", "gradient", "loss"), expected, strict=True):
            shown = page.locator(f".classifier-play [data-{kind}]")
            got = shown.evaluate_all(f"es => es.map(e => +e.dataset.{kind})")
            np.testing.assert_allclose(got, np.ravel(values), rtol=0, atol=1e-12)
    page.close()


def test_a_sentence_of_ones_own(opened):
    page = opened("attention/scaled_dot_product")
    put(page, "sentence", "rows of weights sum to one")
    heads = page.locator(".attention-workbench tbody").nth(4).locator("th").all_inner_texts()
    assert heads == ["rows", "of", "weights", "sum", "to", "one"]
    weights = numbers(page, "weights")
    assert [sum(weights[i : i + 6]) for i in range(0, 36, 6)] == pytest.approx([1.0] * 6)
    put(page, "sentence", " ")
    assert numbers(page, "weights") == [1.0]


@pytest.mark.parametrize("topic", PAGES)
def test_accessible_and_narrow(opened, axe, schemes, topic):
    page = opened(topic, formulas=True, viewport={"width": 390, "height": 800}, has_touch=True)
    page.evaluate(axe)
    for theme in schemes(page):
        found = page.evaluate(
            f"async () => (await axe.run('{PAGES[topic]}', {{preload: false}}))"
            ".violations.map(v => v.id)"
        )
        assert found == [], theme
    for width in (390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0

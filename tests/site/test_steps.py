"""Derivations step by step: every value on the screen, against dlref's."""

import json
import re

import numpy as np
import pytest

from dlref.activations import relu, relu_vjp, softmax, softmax_vjp
from dlref.attention import (
    attention_scores,
    attention_weights,
    scaled_dot_product_attention,
    scaled_dot_product_attention_vjp,
)
from dlref.losses import cross_entropy, cross_entropy_grad, squared_error, squared_error_grad
from dlref.neurons import linear, linear_vjp
from dlref.normalization import layer_norm, layer_norm_vjp
from dlref.recurrent import lstm_cell, lstm_cell_vjp, lstm_gates, rnn, rnn_vjp

BAR = "\u0304"
PAGES = {
    "losses/cross_entropy": "cross-entropy",
    "normalization/layer_norm": "layer-norm",
    "neurons/mlp": "mlp",
    "recurrent/rnn": "rnn",
    "recurrent/lstm": "lstm",
    "attention/scaled_dot_product": "attention",
}


@pytest.fixture
def opened(contexts, site):
    pages, complaints = [], []

    def go(topic, *, formulas=False, **options):
        page = contexts(formulas=formulas, **options).new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((site / "reference" / f"{topic}.html").as_uri())
        page.locator(".graph-steps[data-ready]").wait_for()
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.close()
    assert complaints == []


#: Go through all steps with Next; return the values that each shows, by its name.
WALK = """
() => {
    const steps = document.querySelector('.graph-steps'), shown = {}
    const next = [...steps.querySelectorAll('button')].find(e => e.textContent.trim() === 'Next')
    steps.querySelector('.steps-path button').click()
    for (const _ of steps.querySelectorAll('.step')) {
        const name = steps.querySelector('.steps-chip[aria-current]').dataset.name
        const values = [...steps.querySelectorAll('.step.shown .graph-result')]
        shown[name] = values.map(e => e.dataset.value)
        next.click()
    }
    return shown
}
"""


def walk(page):
    shown = {}
    for name, values in page.evaluate(WALK).items():
        [value] = values  # of one card
        shown[name] = np.array(json.loads(value))
    return shown


def bars(**values):
    """Return gradients under the names that the page gives them."""
    return {f"{name}{BAR}": value for name, value in values.items()}


def of_cross_entropy(x, W, b, y):
    z = linear(x, W, b)
    s, loss = softmax(z), cross_entropy(z[None], y[None])
    ds = np.where(y > 0, -y / s, 0.0)
    dz = cross_entropy_grad(z[None], y[None])[0]
    dx, dw, db = linear_vjp(dz, x, W, b)
    np.testing.assert_allclose(softmax_vjp(ds, z), dz, atol=1e-14)
    return {"z": z, "s": s, "L": loss, **bars(s=ds, z=dz, b=db, W=dw, x=dx)}


def of_layer_norm(x, w, b, u):
    dx, dw, db = layer_norm_vjp(u, x, w, b, eps=0)
    y, n = layer_norm(x, w, b, eps=0), layer_norm(x, eps=0)
    dn = w * u
    return {"m": x.mean(), "d": x - x.mean(), "σ": x.std(), "n": n, "y": y,
            **bars(b=db, w=dw, n=dn, σ=-(dn @ n) / x.std(), x=dx)}  # fmt: skip


def of_mlp(x, W1, b1, W2, b2, t):
    z = linear(x, W1, b1)
    h = relu(z)
    y = linear(h, W2, b2)
    dy = squared_error_grad(y, t)
    dh, dw2, db2 = linear_vjp(dy, h, W2, b2)
    dz = relu_vjp(dh, z)
    dx, dw1, db1 = linear_vjp(dz, x, W1, b1)
    return {"z": z, "h": h, "y": y, "L": squared_error(y, t),
            **bars(y=dy, b2=db2, W2=dw2, h=dh, z=dz, b1=db1, W1=dw1, x=dx)}  # fmt: skip


def of_rnn(w, x):
    args = (x[:, None], np.zeros(1), np.ones((1, 1)), np.array([[w]]))
    h = rnn(*args)[:, 0]
    u = np.zeros((4, 1))
    u[-1] = 1
    dx, _, _, dw = rnn_vjp(u, *args)[:4]
    states = {f"h{t}": h[t - 1] for t in range(1, 5)}
    return {
        **states,
        "L": h[-1],
        **bars(w=dw[0, 0], **{f"z{t}": dx[t - 1, 0] for t in range(1, 5)}),
    }


def of_lstm(x, h, c, wx, wh, b, uh, uc):
    one = [np.array([v]) for v in (x, h, c)]
    args = (*one, wx[:, None], wh[:, None], b)
    gates = lstm_gates(one[0][None], *args[1:])
    new_h, new_c = lstm_cell(*args)
    dx, dh, dc, _, dwh, db = lstm_cell_vjp(([uh], [uc]), *args)
    np.testing.assert_allclose(dwh[:, 0], db * h, atol=1e-14)
    names = {name: getattr(gates, name)[0, 0] for name in "ifgo"}
    return {**names, "h′": new_h[0], "c′": new_c[0], **bars(x=dx[0], h=dh[0], c=dc[0], b=db, z=db)}


def of_attention(Q, K, V, U):
    dq, dk, dv = scaled_dot_product_attention_vjp(U, Q, K, V)
    out = scaled_dot_product_attention(Q, K, V)
    p = attention_weights(Q, K)
    ds = softmax_vjp(U @ V.T, attention_scores(Q, K))
    return {"S": attention_scores(Q, K), "P": p, "O": out, "D": (U * out).sum(1),
            **bars(V=dv, P=U @ V.T, S=ds, Q=dq, K=dk)}  # fmt: skip


EXPECTED = {
    "losses/cross_entropy": of_cross_entropy,
    "normalization/layer_norm": of_layer_norm,
    "neurons/mlp": of_mlp,
    "recurrent/rnn": of_rnn,
    "recurrent/lstm": of_lstm,
    "attention/scaled_dot_product": of_attention,
}


def inputs_of(page):
    """Return the inputs as the fields have them now."""
    found = {}
    for field in page.locator(".graph-input input").all():
        name, *place = field.get_attribute("aria-label").split(" ", 1)
        found.setdefault(name, []).append((place, float(field.input_value())))
    out = {}
    for name, entries in found.items():
        values = [value for _, value in entries]
        if not entries[0][0]:
            out[name] = values[0]
        elif "row" in entries[0][0][0]:
            rows = len({place[0].split()[1] for place, _ in entries})
            out[name] = np.array(values).reshape(rows, -1)
        else:
            out[name] = np.array(values)
    return out


def as_matrices(topic, inputs):
    """A matrix of one row looks like a row."""
    if topic == "neurons/mlp":
        inputs["W2"] = inputs["W2"].reshape(1, -1)
        inputs["t"], inputs["b2"] = np.atleast_1d(inputs["t"]), np.atleast_1d(inputs["b2"])
    return inputs


@pytest.mark.parametrize("topic", PAGES)
def test_every_value_is_that_of_dlref(opened, topic):
    """With the numbers of the page, and with others that are typed in."""
    page = opened(topic)
    page.locator(".graph-inputs summary").click()
    fields = page.locator(".graph-input input").all()
    for draw in range(3):
        if draw:
            for k, field in enumerate(fields):
                if (field.get_attribute("aria-label") or "").startswith("y "):
                    continue  # the right class stays one-hot
                field.fill(f"{np.random.default_rng([draw, k]).normal():.3f}")
        expected = EXPECTED[topic](**as_matrices(topic, inputs_of(page)))
        shown = walk(page)
        assert expected.keys() <= shown.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(
                shown[name].ravel(), np.ravel(value), rtol=1e-10, atol=1e-12, err_msg=name
            )
        given = {"u", "U", "uh", "uc", "y", "t", "wx", "wh"}  # and an LSTM has one unit
        own = {f"{name}{BAR}" for name in inputs_of(page).keys() - given}
        assert own <= shown.keys() | ({f"x{BAR}"} if topic == "recurrent/rnn" else set())


#: Go through all steps by the chips; return what each shows and lights, and the height of all.
CHIPS = """
() => {
    const steps = document.querySelector('.graph-steps')
    const count = what => steps.querySelectorAll(what).length
    const text = what => steps.querySelector(`.step.shown ${what}`).innerText
    return [...steps.querySelectorAll('.steps-path button')].map(chip => {
        chip.click()
        return {name: chip.dataset.name, current: count('.graph-node.current'),
                lit: count('.graph-edge.lit'), formula: text('.graph-formula'),
                why: text('.graph-why'), shown: count('.step.shown'),
                height: Math.round(steps.getBoundingClientRect().height)}
    })
}
"""


@pytest.mark.parametrize("topic", PAGES)
def test_the_graph_lights_the_edges_of_the_step(opened, topic):
    """Each step has a node, at least one lit edge, a formula and a sentence of why; none jumps."""
    steps = opened(topic, viewport={"width": 1280, "height": 800}).evaluate(CHIPS)
    for step in steps:
        assert step["current"] == step["shown"] == 1, step
        assert step["lit"] >= 1, step
        assert step["formula"], step
        assert step["why"].endswith("."), step
    assert len({step["height"] for step in steps}) == 1


@pytest.mark.parametrize("topic", PAGES)
def test_a_guess_comes_before_the_formula(opened, topic):
    """Of two formulas one is right; until it is chosen, neither it nor its value is shown."""
    page = opened(topic)
    page.get_by_label("guess first").check()
    for _ in range(3):
        card = page.locator(".graph-steps .step.shown")
        answer = card.locator(".graph-formula, .graph-why, .graph-result")
        assert not any(part.is_visible() for part in answer.all())
        known = page.locator(".graph-node .graph-number").all_text_contents()
        card.locator("[data-right=false]").click()
        assert "Not this one" in card.locator("[role=status]").inner_text()
        assert not any(part.is_visible() for part in answer.all())
        card.locator("[data-right=true]").click()
        assert all(part.is_visible() for part in answer.all())
        assert page.locator(".graph-node .graph-number").all_text_contents() != known
        page.get_by_role("button", name="Next", exact=True).click()
    card = page.locator(".graph-steps .step.shown")
    card.get_by_role("button", name="Show").click()
    assert card.locator(".graph-result").is_visible()


@pytest.mark.parametrize("topic", PAGES)
def test_wrong_formulas_differ_from_the_right_ones(opened, topic):
    derivation = opened(topic).evaluate(f"dlrefDerivations['{PAGES[topic]}'].steps")
    for _, _, right, wrong, *_ in derivation:
        assert right != wrong
        assert right.partition("=")[0] == wrong.partition("=")[0] or "adds" in right


@pytest.mark.parametrize("topic", PAGES)
def test_every_step_has_an_address(opened, topic):
    page = opened(topic)
    page.locator(".steps-path button").nth(3).click()
    assert page.evaluate("location.hash") == f"#step-{PAGES[topic]}-4"
    page.reload()
    page.locator(".graph-steps[data-ready]").wait_for()
    said = page.locator(".steps-bar [role=status]").text_content()
    assert said.startswith("Step 4 of ")
    assert " = " in said  # the value, for those who listen


@pytest.mark.parametrize("topic", PAGES)
def test_formulas_are_set_and_nodes_show_their_values(opened, topic):
    page = opened(topic, formulas=True)
    count = page.locator(".steps-path button").count()
    page.wait_for_function(
        f"document.querySelectorAll('.graph-formula mjx-container').length == {count}"
    )
    page.locator(".steps-path button").last.click()
    nodes = page.locator(".graph-node").all()
    assert all(node.locator(".graph-number").first.text_content() for node in nodes)


@pytest.mark.parametrize("topic", PAGES)
def test_words_of_a_step_use_the_letters_of_the_page(opened, topic):
    """Not the names of the program, where the two differ."""
    page = opened(topic)
    chips = page.locator(".steps-chip[data-name]")
    names = chips.evaluate_all("all => all.map(chip => [chip.dataset.name, chip.textContent])")
    renamed = [name for name, letter in names if letter != name and BAR not in name]
    for words in page.locator(".graph-why").all_text_contents():
        for name in renamed:
            assert not re.search(rf"(?<![\w’']){re.escape(name)}(?!\w)", words), words


@pytest.mark.parametrize("topic", PAGES)
def test_keyboard_and_chips(opened, topic):
    page = opened(topic)
    said = page.locator(".steps-bar [role=status]")
    last = page.locator(".steps-path button").count()
    page.get_by_role("button", name="Next", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert said.inner_text().startswith(f"Step 3 of {last}")
    page.keyboard.press("ArrowLeft")
    assert said.inner_text().startswith(f"Step 2 of {last}")
    page.locator(".steps-path button").last.click()
    assert said.inner_text().startswith(f"Step {last} of {last}")
    page.get_by_role("button", name="Next", exact=True).click(force=True)
    assert said.inner_text().startswith(f"Step {last} of {last}")
    assert page.locator("[aria-current=step]").count() == 1


@pytest.mark.parametrize("topic", PAGES)
def test_accessible_and_narrow(opened, axe, schemes, topic):
    page = opened(topic, formulas=True, viewport={"width": 390, "height": 800}, has_touch=True)
    assert len({step["height"] for step in page.evaluate(CHIPS)}) == 1
    page.locator(".steps-path button").nth(4).tap()
    page.locator(".graph-inputs summary").click()
    page.evaluate(axe)
    for theme in schemes(page):
        found = page.evaluate(
            "async () => (await axe.run('.graph-steps')).violations.map(v => v.id)"
        )
        assert found == [], theme
    for width in (390, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0


@pytest.mark.parametrize("topic", PAGES)
def test_without_scripts_the_derivation_is_text(contexts, site, topic):
    page = contexts(java_script_enabled=False).new_page()
    page.goto((site / "reference" / f"{topic}.html").as_uri())
    assert page.locator(".graph-steps .gp").first.is_visible()
    page.close()

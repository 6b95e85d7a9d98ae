"""The measured comparison: its models have the right gradients, the file shows what is said."""

import csv

import numpy as np
import position_table
import positions_measured as measured
import pytest
import rope_scalings
import trees

import dlref.positions as P
from dlref.transformer import language_model

BUILT = {name: scheme for name, scheme in measured.SCHEMES.items() if not isinstance(scheme, str)}
PAGE = position_table.RESULTS.parent / "positions_compared.rst"


@pytest.fixture(scope="module")
def rows():
    with measured.FILE.open(newline="") as file:
        return {row.pop("scheme"): row for row in csv.DictReader(file)}


def test_every_scheme_is_measured(rows):
    names = [position_table.key(row[0]) for row in position_table.SCHEMES]
    assert list(rows) == list(measured.SCHEMES) == names
    assert set(names) - {"none"} <= set(P.__all__)
    assert ["scheme", *rows["none"]] == measured.HEADER


def test_the_model_is_the_language_model(rng):
    config = measured.configuration(9, "none")
    scheme = measured.Scheme()
    params, extras = measured.init(scheme, config, 0, np.float64)
    tokens = rng.integers(0, 9, (2, 7))
    got = measured.run(tokens, params, extras, scheme)[0]
    np.testing.assert_allclose(got, language_model(tokens, params, config), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", BUILT)
def test_gradients(rng, name):
    scheme, config = BUILT[name], measured.configuration(9, "none")
    both = measured.init(scheme, config, 0, np.float64)
    both = trees.mapped(lambda a: a + 0.05 * rng.normal(size=np.shape(a)), both)
    tokens = rng.integers(0, 9, (1, 6))
    _, grads = measured.value_and_grad(tokens, both, scheme)
    move = trees.mapped(lambda a: rng.normal(size=np.shape(a)), both)
    ends = []
    for h in (1e-5, -1e-5):
        pairs = zip(trees.leaves(both), trees.leaves(move), strict=True)
        moved = trees.filled(both, [p + h * d for p, d in pairs])
        ends.append(measured.value_and_grad(tokens, moved, scheme)[0])
    want = sum(np.sum(g * d) for g, d in zip(trees.leaves(grads), trees.leaves(move), strict=True))
    assert float(ends[0] - ends[1]) / 2e-5 == pytest.approx(float(want), rel=1e-6)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", measured.SCHEMES)
def test_what_is_timed_runs(name, backward):
    getattr(measured.Attention(8, 2, 4, backward=backward), name)()


def test_only_the_context_differs():
    """A model that looks at the last character alone has the same loss at each length."""
    held = np.arange(400) % 7
    table = np.random.default_rng(0).normal(size=(7, 7))
    found = measured.losses(lambda ids: table[ids], held)
    np.testing.assert_allclose(found, found[0], rtol=1e-14)


def test_the_text_says_what_was_measured(rows):
    at = {name: [float(row[f"loss at {n}"]) for n in (32, 64, 128)] for name, row in rows.items()}
    spread = max(float(row["spread"]) for row in rows.values())
    said = " ".join(PAGE.read_text(encoding="utf-8").split())
    rise = {name: losses[2] - losses[0] for name, losses in at.items()}
    # without positions the model is last at the trained length, and bears more context
    assert max(at, key=lambda name: at[name][0]) == "none"
    # those that go on as before
    steady = {"apply_xpos", "alibi_bias", "kerple_bias", "shaw_scores", "transformer_xl_scores"}
    steady.add("disentangled_scores")
    assert max(rise[name] for name in steady) <= 0.03
    # those that do not
    assert min(rise[name] for name in set(at) - steady - {"none"}) > max(
        rise[name] for name in steady
    )
    assert max(rise, key=rise.get) == "apply_rope"
    assert min(rise["learned_positions"], rise["sinusoidal"]) > 0.1
    assert at["apply_rope"][0] < at["learned_positions"][0] - 0.05
    assert sorted(at, key=lambda name: at[name][0])[-2:] == ["learned_positions", "none"]
    assert rise["apply_rope"] > 1
    rope = f"from {at['apply_rope'][0]:.2f} to {at['apply_rope'][2]:.2f}"
    assert rope in said
    assert f"differ by up to {spread:.2f}" in said
    assert f"CoPE costs {rows['cope']['cost']} times" in said
    for name in ("fire_bias", "shaw_scores"):
        assert 9 < float(rows[name]["cost"]) < 11
    for name in ("fire_bias", "shaw_scores", "transformer_xl_scores", "cope"):
        assert float(rows[name]["backward"]) < float(rows[name]["cost"])


def test_the_text_says_what_scalings_give():
    with rope_scalings.FILE.open(newline="") as file:
        header, *table = csv.reader(file)
    assert header == rope_scalings.HEADER
    at = {row[0]: [float(cell) for cell in row[1:4]] for row in table}
    assert list(at) == list(rope_scalings.SCALINGS)
    fails = at["none"][2] - at["none"][0]
    assert fails > 1
    # linear hurts everywhere
    assert at["linear"][0] - at["none"][0] == pytest.approx(0.7, abs=0.05)
    assert at["linear"][2] > max(at[name][2] for name in ("ntk", "dynamic", "yarn", "llama3"))
    # NTK costs little, and removes two thirds
    assert at["ntk"][0] - at["none"][0] < 0.05
    assert at["none"][2] - at["ntk"][2] == pytest.approx(2 / 3 * fails, rel=0.1)
    assert at["dynamic"] == [at["none"][0], at["dynamic"][1], at["ntk"][2]]
    # YaRN and llama3 are flat, from a worse start
    for name in ("yarn", "llama3"):
        assert at[name][0] > at["ntk"][0] + 0.1
        assert at[name][2] - at[name][0] < 0.15


def test_pairs_that_turn_within_the_trained_length():
    turns = measured.T * P.rope_frequencies(measured.E) / (2 * np.pi)
    assert (len(turns), np.sum(turns > 1)) == (6, 2)

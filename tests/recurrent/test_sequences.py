"""Both directions, and the configurations, over all cells."""

import numpy as np
import peers
import pytest
from trees import leaves

from dlref import recurrent as rec
from dlref.neurons import linear

CELLS = [
    pytest.param("rnn", {"activation": "sigmoid"}, id="rnn"),
    pytest.param("lstm", {}, id="lstm"),
    pytest.param("gru", {"reset_after": False}, id="gru"),
]
ORDERS = [{}, {"reverse": True}, {"lengths": [2, 0]}, {"lengths": [3, 1], "reverse": True}]
count = {"rnn": 1, "lstm": 2, "gru": 1}


def moved(rng, value):
    """Draw tangents for a nested tuple."""
    if isinstance(value, tuple):
        return tuple(moved(rng, v) for v in value)
    return None if value is None else rng.normal(size=np.shape(value))


def check_derivatives(rng, f, primals, **options):
    """Adjointness, and the jvp against a difference quotient, of a function of rec."""
    cell, name = f
    function = getattr(rec, name)
    tangents = moved(rng, primals)
    out = function(cell, *primals, **options)
    v = getattr(rec, f"{name}_jvp")(cell, primals, tangents, **options)
    outs, vs = (list(y) if isinstance(y, tuple) else [y] for y in (out, v))
    u = [rng.normal(size=o.shape) for o in outs]
    dout = tuple(u) if isinstance(out, tuple) else u[0]
    grads = getattr(rec, f"{name}_vjp")(dout, cell, *primals, **options)
    pulled = sum((g * t).sum() for g, t in zip(leaves(grads), leaves(tangents), strict=True))
    assert pulled == pytest.approx(
        sum((a * b).sum() for a, b in zip(u, vs, strict=True)), rel=1e-12
    )
    for g, p in zip(leaves(grads), leaves(primals), strict=True):
        assert g.shape == p.shape

    def at(h, point, direction):
        if isinstance(point, tuple):
            return tuple(at(h, p, d) for p, d in zip(point, direction, strict=True))
        return None if point is None else point + h * direction

    h = 1e-4
    sides = [function(cell, *at(s, primals, tangents), **options) for s in (-2 * h, -h, h, 2 * h)]
    for k, got in enumerate(vs):
        a, b, c, d = (y[k] if isinstance(y, tuple) else y for y in sides)
        want = (8 * (c - b) - (d - a)) / (12 * h)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "cell_options"), CELLS)
class TestConfigurations:
    def parts(self, rng, draw, kind):
        values = draw(rng, kind, 3, (2,), 2, 3)
        return values[0], tuple(values[1:]), (rng.normal(size=(4, 3)), rng.normal(size=4))

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("name", ["sequence_to_sequence", "sequence_to_vector"])
    def test_derivatives(self, rng, draw, kind, cell_options, order, name):
        x, weights, layer = self.parts(rng, draw, kind)
        f = getattr(rec, kind), name
        check_derivatives(rng, f, (x, weights, *layer), **order, **cell_options)
        bare = (None,) * count[kind] + weights[count[kind] : -2]
        check_derivatives(rng, f, (x, bare, None, None), **order, **cell_options)

    @pytest.mark.parametrize("order", [{}, {"lengths": [2, 0]}])
    def test_bidirectional(self, rng, draw, kind, cell_options, order):
        x, weights, _ = self.parts(rng, draw, kind)
        other = tuple(draw(rng, kind, 3, (2,), 2, 5)[1:-1])
        f = getattr(rec, kind), "bidirectional"
        check_derivatives(rng, f, (x, weights, other), **order, **cell_options)

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("feed", ["repeat", "first"])
    def test_vector_to_sequence(self, rng, draw, kind, cell_options, feed, order):
        x, weights, layer = self.parts(rng, draw, kind)
        f, options = (getattr(rec, kind), "vector_to_sequence"), {**order, **cell_options}
        check_derivatives(rng, f, (x[:, 0], weights, *layer), steps=3, feed=feed, **options)
        wide = x[:, :1] * (np.ones((3, 1)) if feed == "repeat" else np.eye(3)[:, :1])
        many = rec.sequence_to_sequence(f[0], wide, weights, *layer, **options)
        one = rec.vector_to_sequence(f[0], x[:, 0], weights, *layer, steps=3, feed=feed, **options)
        np.testing.assert_array_equal(one, many)
        ends = order.get("lengths", [3, 3])
        assert [int(np.any(row, -1).sum()) for row in one] == ends

    @pytest.mark.parametrize("order", ORDERS)
    def test_encoder_decoder(self, rng, draw, kind, cell_options, order):
        x, weights, layer = self.parts(rng, draw, kind)
        y, *rest = draw(rng, kind, 4, (2,), 5, 3)
        f = getattr(rec, kind), "encoder_decoder"
        decoder = tuple(rest[count[kind] :])
        check_derivatives(rng, f, (x, y, weights, decoder, *layer), **order, **cell_options)

    def test_are_what_they_say(self, rng, assert_close, draw, kind, cell_options):
        x, weights, layer = self.parts(rng, draw, kind)
        f = getattr(rec, kind)
        h = f(x, *weights, **cell_options)
        h = h[0] if kind == "lstm" else h
        out = rec.sequence_to_sequence(f, x, weights, *layer, **cell_options)
        assert_close(out, linear(h, *layer))
        assert_close(rec.sequence_to_vector(f, x, weights, *layer, **cell_options), out[:, -1])
        back = f(x, *weights, **cell_options, reverse=True)
        back = back[0] if kind == "lstm" else back
        got = rec.sequence_to_vector(f, x, weights, **cell_options, reverse=True)
        assert_close(got, back[:, 0])

    def test_lengths(self, rng, assert_close, draw, kind, cell_options):
        x, weights, layer = self.parts(rng, draw, kind)
        f, options = getattr(rec, kind), {**cell_options, "lengths": [2, 0]}
        out = rec.sequence_to_sequence(f, x, weights, *layer, **options)
        assert not out[0, 2:].any()
        assert not out[1].any()
        last = rec.sequence_to_vector(f, x, weights, *layer, **options)
        assert_close(last[0], out[0, 1])
        assert_close(last[1], linear(weights[0][1], *layer))


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("bidirectional", {}),
        ("sequence_to_sequence", {"lengths": [2, 1]}),
        ("sequence_to_vector", {"reverse": True}),
        ("vector_to_sequence", {"steps": 3}),
        ("encoder_decoder", {}),
    ],
)
def test_peephole_weights(rng, draw, name, steps):
    """Networks share them; the gradient is the last one of each network's."""
    x, *weights = draw(rng, "lstm", 3, (2,), 2, 3)
    weights, w_p, move = tuple(weights), *rng.normal(size=(2, 9))
    primals = {
        "bidirectional": (x, weights, weights),
        "encoder_decoder": (x, x, weights, weights[2:], None, None),
        "vector_to_sequence": (x[:, 0], weights, None, None),
    }.get(name, (x, weights, None, None))
    function, vjp, jvp = (getattr(rec, name + form) for form in ("", "_vjp", "_jvp"))
    out = function(rec.lstm, *primals, w_p=w_p, **steps)
    u = tuple(rng.normal(size=o.shape) for o in leaves(out))
    grads = vjp(u if isinstance(out, tuple) else u[0], rec.lstm, *primals, w_p=w_p, **steps)
    of_networks = [one for one in grads if isinstance(one, tuple)]
    assert len(of_networks) == (2 if name in ("bidirectional", "encoder_decoder") else 1)
    options = {"w_p": w_p, "w_p_tangent": move, **steps}
    pushed = leaves(jvp(rec.lstm, primals, (None,) * len(primals), **options))
    total = sum(np.sum(a * b) for a, b in zip(u, pushed, strict=True))
    assert sum(np.sum(one[-1] * move) for one in of_networks) == pytest.approx(total, rel=1e-12)
    h = 1e-4
    sides = (function(rec.lstm, *primals, w_p=w_p + s * h * move, **steps) for s in (-2, -1, 1, 2))
    for (a, b, c, d), got in zip(zip(*map(leaves, sides), strict=True), pushed, strict=True):
        np.testing.assert_allclose(got, (8 * (c - b) - (d - a)) / (12 * h), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_bidirectional_against_pytorch(rng, assert_close, draw, kind):
    torch = peers.torch
    x, *first = draw(rng, kind, 5, (3,), 2, 4)
    _, *second = draw(rng, kind, 5, (3,), 2, 4)
    n = count[kind]
    layer = getattr(torch.nn, kind.upper())(
        2, 4, batch_first=True, bidirectional=True, dtype=torch.float64
    )
    values = (torch.tensor(v) for v in (*first[n:], *second[n:]))
    weights = dict(zip(dict(layer.named_parameters()), values, strict=True))
    states = [torch.tensor(np.stack(pair)) for pair in zip(first[:n], second[:n], strict=True)]
    h0 = tuple(states) if kind == "lstm" else states[0]
    want, _ = torch.func.functional_call(layer, weights, (torch.tensor(x), h0))
    got = rec.bidirectional(getattr(rec, kind), x, tuple(first), tuple(second))
    assert_close(got[0] if kind == "lstm" else got, want.detach().numpy())


def test_missing_cotangent_of_one_output_is_zero(rng, draw):
    x, *weights = draw(rng, "lstm", 3, (2,), 2, 3)
    both = (tuple(weights), tuple(weights))
    u = rng.normal(size=(2, 3, 6))
    some = rec.bidirectional_vjp((u, None), rec.lstm, x, *both)
    full = rec.bidirectional_vjp((u, 0 * u), rec.lstm, x, *both)
    for a, b in zip(leaves(some), leaves(full), strict=True):
        np.testing.assert_array_equal(a, b)


ONE = (None, [[1.0]], [[1.0]])


class TestErrors:
    @pytest.mark.parametrize("f", [np.tanh, "lstm?", 3])
    def test_cell(self, f):
        with pytest.raises(ValueError, match="'f' must be 'rnn', 'lstm' or 'gru', not"):
            rec.sequence_to_sequence(f, [[1.0]], ONE)

    def test_arguments(self):
        with pytest.raises(ValueError, match="'arguments' must be a tuple of 5 arrays, not of 2"):
            rec.sequence_to_vector(rec.rnn, [[1.0]], ONE[1:])
        with pytest.raises(TypeError, match="'backward' must be a tuple of 5 arrays, not float"):
            rec.bidirectional(rec.rnn, [[1.0]], ONE, 1.0)

    def test_output_layer(self):
        with pytest.raises(ValueError, match=r"'w_out' must have shape \(K, H\) with H = 1, not"):
            rec.sequence_to_vector(rec.rnn, [[1.0]], ONE, np.ones((2, 2)))
        with pytest.raises(ValueError, match=r"'b_out' must have shape \(K,\) = \(2,\), not"):
            rec.sequence_to_vector(rec.rnn, [[1.0]], ONE, np.ones((2, 1)), [1.0])

    @pytest.mark.parametrize(
        ("name", "symbols"),
        [("sequence_to_sequence", r"\(..., T, K\)"), ("sequence_to_vector", r"\(..., K\)")],
    )
    def test_dout(self, name, symbols):
        with pytest.raises(ValueError, match=f"'dout' must have shape {symbols}"):
            getattr(rec, f"{name}_vjp")(np.ones((3, 3, 3)), rec.rnn, [[1.0]], ONE)

    def test_dout_of_two_directions(self):
        with pytest.raises(ValueError, match=r"'dout' must have shape \(..., T, 2 H\) = \(1, 2\)"):
            rec.bidirectional_vjp(np.ones((1, 1)), rec.rnn, [[1.0]], ONE, ONE)

    def test_inputs_of_the_decoder(self):
        with pytest.raises(ValueError, match=r"'y' must have shape \(..., U, D\) with batch axes"):
            rec.encoder_decoder(rec.rnn, [[1.0]], np.ones((2, 1, 1)), ONE, ONE[1:])

    def test_vector(self):
        with pytest.raises(ValueError, match=r"'x' must have shape \(..., D\), not \(\)"):
            rec.vector_to_sequence(rec.rnn, 1.0, ONE, steps=2)
        with pytest.raises(ValueError, match="'steps' must be at least 1, not 0"):
            rec.vector_to_sequence(rec.rnn, [1.0], ONE, steps=0)
        with pytest.raises(ValueError, match="'feed' must be 'repeat' or 'first', not 'once'"):
            rec.vector_to_sequence(rec.rnn, [1.0], ONE, steps=1, feed="once")
        with pytest.raises(TypeError, match="'steps' must be an integer"):
            rec.vector_to_sequence(rec.rnn, [1.0], ONE, steps=1.5)

    def test_two_directions_take_no_direction(self):
        x, u = [[1.0], [2.0]], np.ones((2, 2))
        calls = [
            lambda **o: rec.bidirectional(rec.rnn, x, ONE, ONE, **o),
            lambda **o: rec.bidirectional_vjp(u, rec.rnn, x, ONE, ONE, **o),
            lambda **o: rec.bidirectional_jvp(rec.rnn, (x, ONE, ONE), (None, None, None), **o),
        ]
        for call in calls:
            call()
            with pytest.raises(TypeError, match="'reverse' must be left out"):
                call(reverse=True)

    def test_an_option_that_the_network_does_not_take(self):
        with pytest.raises(
            TypeError, match=r"^rnn\(\) got an unexpected keyword argument 'reset_af"
        ):
            rec.sequence_to_sequence(rec.rnn, [[1.0]], ONE, reset_after=True)
        with pytest.raises(TypeError, match="unexpected keyword argument 'truncate'"):
            rec.bidirectional_vjp([[1.0, 1.0]], rec.rnn, [[1.0]], ONE, ONE, truncate=1)


def test_an_output_layer_may_lack_its_bias_and_a_tangent(rng):
    x, w_ih, w_hh, w_out = (rng.normal(size=s) for s in ((2, 4, 3), (5, 3), (5, 5), (2, 5)))
    arguments = (None, w_ih, w_hh)
    plain = rec.sequence_to_sequence(rec.rnn, x, arguments)
    got = rec.sequence_to_sequence(rec.rnn, x, arguments, w_out)
    np.testing.assert_allclose(got, plain @ w_out.T, rtol=0, atol=1e-14)
    dx, primals = rng.normal(size=x.shape), (x, arguments, w_out, None)
    zeros = (None, np.zeros_like(w_ih), np.zeros_like(w_hh))
    left_out, zero = (
        rec.sequence_to_sequence_jvp(rec.rnn, primals, (dx, moved, None, None))
        for moved in (None, zeros)
    )
    np.testing.assert_array_equal(left_out, zero)


def test_a_vector_that_does_not_move_has_no_part_in_the_tangent():
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=2), (None, rng.normal(size=(3, 2)), rng.normal(size=(3, 3)))
    w_out = rng.normal(size=(1, 3))
    primals = (x, weights, w_out, None)
    still, moving = ((dx, None, np.ones((1, 3)), None) for dx in (None, np.zeros(2)))
    one, other = (
        rec.vector_to_sequence_jvp(rec.rnn, primals, tangents, steps=4)
        for tangents in (still, moving)
    )
    np.testing.assert_array_equal(one, other)
    assert one.any()

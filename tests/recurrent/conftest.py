"""Recurrent layers of PyTorch as an oracle, and weights to give them."""

import numpy as np
import peers
import pytest

GATES = {"rnn": 1, "lstm": 4, "gru": 3}
STATES = {"rnn": 1, "lstm": 2, "gru": 1}


def arguments(rng, kind, T, batch, D, H, dtype=np.float64):
    """Draw x, the states, the weights and the biases."""
    gates, bound = GATES[kind], H**-0.5
    shapes = [(gates * H, D), (gates * H, H), (gates * H,), (gates * H,)]
    return [
        rng.normal(size=(*batch, T, D)).astype(dtype),
        *(rng.normal(size=(*batch, H)).astype(dtype) for _ in range(STATES[kind])),
        *(rng.uniform(-bound, bound, size=shape).astype(dtype) for shape in shapes),
    ]


def by_torch(kind, values, douts, **options):
    """Return all states h, the last cell state c, and all gradients, in float64."""
    torch = peers.torch
    x, *rest = (torch.tensor(np.asarray(v, np.float64), requires_grad=True) for v in values)
    states, weights = rest[: STATES[kind]], rest[STATES[kind] :]
    hidden = weights[1].shape[1]
    layer = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](
        x.shape[-1], hidden, batch_first=True, dtype=torch.float64, **options
    )
    names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    flat = [s.reshape(1, -1, hidden) for s in states]
    first = tuple(flat) if kind == "lstm" else flat[0]
    out, last = torch.func.functional_call(
        layer, dict(zip(names, weights, strict=True)), (x.reshape(-1, *x.shape[-2:]), first)
    )
    out = out.reshape(*x.shape[:-1], hidden)
    ends = [last[1].reshape(states[0].shape)] if kind == "lstm" else []
    loss = sum((o * torch.tensor(u)).sum() for o, u in zip([out, *ends], douts, strict=True))
    grads = torch.autograd.grad(loss, [x, *states, *weights])
    return [o.detach().numpy() for o in (out, *ends)], tuple(g.numpy() for g in grads)


@pytest.fixture
def draw():
    return arguments


@pytest.fixture
def oracle():
    return by_torch

"""Decoders with learned positions: against themselves in NumPy, and against transformers."""

import json
import warnings

import numpy as np
import peers
import pytest
from interop import learned
from interop_models import drawn
from wide import in_float64

from dlref.check import first_difference, trace
from dlref.interop import from_state_dict, to_state_dict, trace_checkpoint
from dlref.transformer import language_model, language_model_vjp

CASES = [(kind, i) for kind, every in learned.LEARNED.items() for i in range(len(every))]


def model(kind, i, **entries):
    state = drawn(learned.shapes_of(kind, i))
    return state, *from_state_dict(state, config=learned.settings_of(kind, i) | entries)


@pytest.mark.parametrize(("kind", "i"), CASES)
def test_written_out(kind, i):
    state, params, config = model(kind, i)
    ids = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    want = learned.run(kind, i, state, ids)
    np.testing.assert_allclose(language_model(ids, params, config), want, rtol=1e-12, atol=1e-12)
    back = to_state_dict(params, kind, config)
    assert back.keys() == state.keys()
    for name, array in back.items():
        np.testing.assert_array_equal(array, state[name])


@pytest.mark.parametrize("kind", learned.LEARNED)
def test_layer_by_layer(kind, tmp_path):
    save = pytest.importorskip("safetensors.numpy").save_file
    state, params, config = model(kind, 0)
    save(
        {name: np.ascontiguousarray(a) for name, a in state.items()}, tmp_path / "model.safetensors"
    )
    (tmp_path / "config.json").write_text(json.dumps(learned.settings_of(kind, 0)))
    ids = [3, 1, 4, 1, 5]
    steps = trace_checkpoint(tmp_path, ids)
    assert first_difference(trace(language_model, ids, params, config), steps) is None


@pytest.mark.parametrize(
    ("kind", "entries", "message"),
    [
        ("gpt_bigcode", {"add_cross_attention": True}, "'add_cross_attention' must be False"),
        ("gpt_bigcode", {"num_key_value_heads": 2}, "'num_key_value_heads' must be 1"),
        ("gpt_neo", {"attention_types": [[["global"], 1]]}, "'attention_types' must be periods"),
        ("gpt_neo", {"attention_types": [[["near"], 4]]}, "'attention_types' must be periods"),
        ("gpt_neo", {"attention_types": [[["local"], 10**30]]}, "'attention_types' must be"),
        ("gpt_neo", {"attention_types": "local"}, "'attention_types' must be periods"),
        ("gpt_neo", {"attention_layers": ["global"] * 4}, "'attention_layers' must be"),
        ("opt", {"do_layer_norm_before": False}, "dlref lacks norms after the sums"),
        ("opt", {"word_embed_proj_dim": 8}, "'word_embed_proj_dim' must be 16, not 8"),
        ("opt", {"enable_bias": False}, "'enable_bias' must be True"),
    ],
)
def test_entries_that_are_refused(kind, entries, message):
    with pytest.raises(ValueError, match=message):
        model(kind, 0, **entries)


@pytest.mark.parametrize(("kind", "i"), CASES)
def test_against_transformers(kind, i):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip(
            "transformers", reason="see the dependency group 'ports'"
        )
    torch = peers.torch
    torch.manual_seed(0)
    name = {"gpt_bigcode": "GPTBigCode", "gpt_neo": "GPTNeo", "opt": "OPT"}[kind]
    entries = {k: v for k, v in learned.settings_of(kind, i).items() if k != "model_type"}
    if kind == "gpt_neo" and "attention_types" not in entries:
        entries["attention_types"] = [[["global", "local"], 2]]
    if kind == "opt":
        entries["word_embed_proj_dim"] = learned.D
    ids = np.random.default_rng(3).integers(3, learned.V, (2, 12))
    with in_float64(kind):
        config = getattr(transformers, f"{name}Config")(**entries)
        config._attn_implementation = "eager"
        peer = getattr(transformers, f"{name}ForCausalLM")(config).double().eval()
        with torch.no_grad():
            for p in peer.parameters():
                p.add_(torch.randn_like(p), alpha=0.3)
        logits = peer(torch.tensor(ids)).logits
        cotangent = torch.randn_like(logits)
        (logits * cotangent).sum().backward()
    own = json.loads(json.dumps(config.to_dict()))
    params, options = from_state_dict(peer.state_dict(), config=own)
    got, want = language_model(ids, params, options), logits.detach().numpy()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * np.abs(want).max())
    grads = language_model_vjp(cotangent.numpy(), ids, params, options)
    named = dict(peer.named_parameters())
    for key, array in to_state_dict(grads, kind, options).items():
        if key in named:
            grad = named[key].grad.numpy()
            np.testing.assert_allclose(array, grad, rtol=0, atol=1e-12 * max(1, np.abs(grad).max()))

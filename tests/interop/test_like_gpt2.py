"""Decoders that resemble GPT-2: against themselves in NumPy, and against transformers."""

import json
import warnings

import numpy as np
import peers
import pytest
from interop import like_gpt2
from interop_models import drawn
from wide import in_float64

from dlref.check import first_difference, trace
from dlref.interop import from_state_dict, to_state_dict, trace_checkpoint
from dlref.transformer import language_model, language_model_vjp

CASES = [(kind, i) for kind, every in like_gpt2.MODELS.items() for i in range(len(every))]


def model(kind, i, **entries):
    state = drawn(like_gpt2.shapes_of(kind, i))
    return state, *from_state_dict(state, config=like_gpt2.settings_of(kind, i) | entries)


@pytest.mark.parametrize(("kind", "i"), CASES)
def test_written_out(kind, i):
    state, params, config = model(kind, i)
    ids = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    want = like_gpt2.run(kind, i, state, ids)
    np.testing.assert_allclose(language_model(ids, params, config), want, rtol=1e-12, atol=1e-12)
    back = to_state_dict(params, kind, config)
    assert back.keys() == state.keys()
    for name, array in back.items():
        np.testing.assert_array_equal(array, state[name])


#: Entries of published files besides the sizes that other families do not have.
PUBLISHED = {
    "falcon": {
        "alibi": False, "apply_residual_connection_post_layernorm": False, "bias": False,
        "architectures": ["FalconForCausalLM"], "attention_dropout": 0.0, "hidden_dropout": 0.0,
        "multi_query": True, "parallel_attn": True, "torch_dtype": "bfloat16",
    },
    "gpt_bigcode": {
        "architectures": ["GPTBigCodeForCausalLM"], "attention_softmax_in_fp32": True,
        "inference_runner": 0, "max_batch_size": None, "max_sequence_length": None,
        "multi_query": True, "pad_key_length": True, "pre_allocate_kv_cache": False,
        "scale_attention_softmax_in_fp32": True, "scale_attn_weights": True,
        "validate_runner_input": True, "summary_type": "cls_index",
    },
    "gpt_neo": {
        "architectures": ["GPTNeoForCausalLM"], "attention_dropout": 0, "embed_dropout": 0,
        "attention_layers": ["global", "local"] * 2, "resid_dropout": 0,
        "attention_types": [[["global", "local"], 2]], "gradient_checkpointing": False,
    },
    "mpt": {
        "architectures": ["MPTForCausalLM"], "emb_pdrop": 0, "embedding_fraction": 1.0,
        "attn_config": {
            "alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0,
            "attn_type": "multihead_attention", "attn_uses_sequence_id": False, "clip_qkv": None,
            "prefix_lm": False, "qk_ln": False, "softmax_scale": None,
        },
        "expansion_ratio": 4, "init_config": {"fan_mode": "fan_in", "name": "kaiming_normal_"},
        "init_device": "cpu", "learned_pos_emb": True, "logit_scale": None, "max_seq_len": 2048,
        "no_bias": True, "norm_type": "low_precision_layernorm", "resid_pdrop": 0, "verbose": 0,
        "tokenizer_name": "EleutherAI/gpt-neox-20b", "auto_map": {"AutoConfig": "configuration"},
    },
    "opt": {
        "_remove_final_layer_norm": False, "activation_dropout": 0.0, "layerdrop": 0.0,
        "architectures": ["OPTForCausalLM"], "do_layer_norm_before": True, "dropout": 0.1,
        "enable_bias": True, "init_std": 0.02, "layer_norm_elementwise_affine": True,
        "pad_token_id": 1, "prefix": "</s>",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", like_gpt2.MODELS)
def test_entries_of_published_files(kind):
    _, _, plain = model(kind, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(kind, 0, **PUBLISHED[kind])[-1] == plain


@pytest.mark.parametrize(("kind", "i"), CASES)
def test_layer_by_layer(kind, i, tmp_path):
    save = pytest.importorskip("safetensors.numpy").save_file
    state, params, config = model(kind, i)
    save(
        {name: np.ascontiguousarray(a) for name, a in state.items()}, tmp_path / "model.safetensors"
    )
    (tmp_path / "config.json").write_text(json.dumps(like_gpt2.settings_of(kind, i)))
    ids = [3, 1, 4, 1, 5]
    steps = trace_checkpoint(tmp_path, ids)
    assert first_difference(trace(language_model, ids, params, config), steps) is None


@pytest.mark.parametrize(
    ("kind", "entries", "message"),
    [
        ("falcon", {"new_decoder_architecture": False, "multi_query": False}, "must be 4 without"),
        ("falcon", {"num_ln_in_parallel_attn": 3}, "'num_ln_in_parallel_attn' must be 2 at most"),
        ("falcon", {"num_ln_in_parallel_attn": 1}, r"ln_mlp\.weight' is there"),
        ("falcon", {"parallel_attn": False}, "'parallel_attn' must be True beside"),
        ("falcon", {"num_kv_heads": 3}, "'num_kv_heads' must divide 4, not be 3"),
        ("falcon", {"alibi": True}, "'alibi' must be False, not True: dlref lacks ALiBi's bias"),
        ("mpt", {"attn_config": {"clip_qkv": -6.0}}, "'config.clip_qkv' must be from 0"),
        ("mpt", {"attn_config": {"alibi_bias_max": 0}}, "'alibi_exponent' must be greater than 0"),
        ("mpt", {"attn_config": None, "no_bias": False}, "'no_bias' must be True"),
        ("mpt", {"attn_config": [1]}, "'attn_config' must be a dictionary"),
        ("gpt_bigcode", {"add_cross_attention": True}, "'add_cross_attention' must be False"),
        ("gpt_bigcode", {"num_key_value_heads": 2}, "'num_key_value_heads' must be 1"),
        ("gpt_neo", {"attention_types": [[["global"], 1]]}, "'attention_types' must be periods"),
        ("gpt_neo", {"attention_types": [[["near"], 4]]}, "'attention_types' must be periods"),
        ("gpt_neo", {"attention_types": [[["local"], 10**30]]}, "'attention_types' must be"),
        ("gpt_neo", {"attention_types": "local"}, "'attention_types' must be periods"),
        ("gpt_neo", {"attention_layers": ["global"] * 4}, "'attention_layers' must be"),
        ("opt", {"_remove_final_layer_norm": True}, "'_remove_final_layer_norm' must be False"),
        ("opt", {"layer_norm_elementwise_affine": False}, "'layer_norm_elementwise_affine' must"),
    ],
)
def test_entries_that_are_refused(kind, entries, message):
    with pytest.raises(ValueError, match=message):
        model(kind, 0, **entries)


def test_why_the_alibi_of_the_smallest_falcons_is_refused():
    """At 2048 tokens and heads of 64, its rounding to bfloat16 moves a score by up to 1.1."""
    torch = peers.torch
    slopes, places = 2.0 ** -np.arange(0.25, 8.25, 0.25)[:, None], np.arange(2048)
    rounded = (torch.tensor(slopes).bfloat16() * torch.tensor(places)).double().numpy()
    exact = slopes * places
    assert round(abs(rounded - exact).max() / 64**0.5, 1) == 1.1
    scores = np.random.default_rng(0).normal(size=exact.shape)
    weights = [np.exp(scores + (bias - bias[:, -1:]) / 64**0.5) for bias in (rounded, exact)]
    a, b = (w / w.sum(-1, keepdims=True) for w in weights)
    assert abs(a - b).sum(-1).max() / 2 > 0.1  # of the weights of a row stand elsewhere


@pytest.mark.parametrize(("kind", "i"), CASES)
def test_against_transformers(kind, i):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip(
            "transformers", reason="see the dependency group 'ports'"
        )
    torch = peers.torch
    torch.manual_seed(0)
    names = {"gpt_bigcode": "GPTBigCode", "gpt_neo": "GPTNeo", "opt": "OPT", "falcon": "Falcon"}
    names["mpt"] = "Mpt"
    name = names[kind]
    entries = {k: v for k, v in like_gpt2.settings_of(kind, i).items() if k != "model_type"}
    if kind == "gpt_neo" and "attention_types" not in entries:
        entries["attention_types"] = [[["global", "local"], 2]]
    if kind == "opt":
        entries.setdefault("word_embed_proj_dim", like_gpt2.D)
    ids = np.random.default_rng(3).integers(3, like_gpt2.V, (2, 12))
    with in_float64(kind):
        config = getattr(transformers, f"{name}Config")(**entries)
        config._attn_implementation = "eager"
        peer = getattr(transformers, f"{name}ForCausalLM")(config).double().eval()
        if kind == "mpt":  # whose entry of slopes the package ignores
            build, most = peer.transformer.build_mpt_alibi_tensor, config.attn_config.alibi_bias_max
            peer.transformer.build_mpt_alibi_tensor = lambda *sizes, device: build(
                *sizes, most, device
            )
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

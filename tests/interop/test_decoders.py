"""Families of decoders: modules of the package transformers, with random numbers, and dlref."""

import csv
import os
import pathlib
import warnings

import numpy as np
import peers
import pytest
import trees
from decoders import EXPERTS, FAMILIES, PACKAGES, TYPES, T, V, made
from wide import in_float64

from dlref.check import first_difference, trace
from dlref.interop import from_state_dict, to_state_dict
from dlref.transformer import (
    LanguageModelConfig,
    generate,
    init_language_model,
    language_model,
    language_model_vjp,
)

os.environ["HF_HUB_OFFLINE"] = "1"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers", reason="see the dependency group 'ports'")

CASES = [
    pytest.param(kind, name, settings, id=f"{kind}-{i}")
    for kind, (name, every) in FAMILIES.items()
    for i, settings in enumerate(every)
]

FIRST = [pytest.param(kind, name, every[0], id=kind) for kind, (name, every) in FAMILIES.items()]


def tokens(rng, *shape):
    return rng.integers(3, V, shape)


@pytest.mark.parametrize(("kind", "name", "settings"), CASES)
class TestFamilies:
    def test_logits_gradients_and_the_state(self, rng, kind, name, settings):
        """To 1e-13 and 1e-12 where norms and rotations, too, are in float64."""
        torch = peers.torch
        ids, u = tokens(rng, 2, T), rng.normal(size=(2, T, V))
        with in_float64(PACKAGES.get(kind, kind)):
            model, config = made(name, settings, torch.float64)
            logits = model(torch.tensor(ids)).logits
            logits.backward(torch.tensor(u))
        params, own = from_state_dict(model.state_dict(), kind, config)
        want = logits.detach().numpy()
        assert want.dtype == np.float64
        got = language_model(ids, params, own)
        assert abs(got - want).max() <= 1e-13 * abs(want).max()
        grads = to_state_dict(language_model_vjp(u, ids, params, own), kind, own)
        named = {key: p for key, p in model.named_parameters() if p.requires_grad}
        corrections = {key for key in grads if key.endswith(("correction_bias", "expert_bias"))}
        assert not any(grads.pop(key).any() for key in corrections)
        assert grads.keys() == named.keys()
        for key, parameter in named.items():
            want = parameter.grad.numpy()
            assert abs(grads[key] - want).max() <= 1e-12 * abs(want).max() + 1e-13, key
        back = to_state_dict(params, kind, own)
        for key, array in back.items():
            np.testing.assert_array_equal(array, model.state_dict()[key].numpy())

    def test_kind_is_that_of_the_configuration(self, kind, name, settings):
        model, config = made(name, settings, peers.torch.float32)
        params, own = from_state_dict(model.state_dict(), config=config)
        again, same = from_state_dict(model.state_dict(), kind, config)
        assert own == same
        np.testing.assert_array_equal(params.embedding, again.embedding)

    def test_decoding_with_a_cache_and_a_trace(self, rng, kind, name, settings):
        model, config = made(name, settings, peers.torch.float64)
        params, own = from_state_dict(model.state_dict(), kind, config)
        ids = tokens(rng, 1, 8)
        with peers.torch.no_grad():  # whose norms and rotations are in float32
            shipped = model(peers.torch.tensor(ids)).logits.numpy()
        assert abs(language_model(ids, params, own) - shipped).max() <= 2e-6 * abs(shipped).max()
        text = generate(ids, params, own, steps=4, temperature=0)
        want = language_model(text[:, :-1], params, own)[:, -4:]
        np.testing.assert_array_equal(text[:, -4:], want.argmax(-1))
        steps = trace(language_model, ids, params, own)
        logits = language_model(ids, params, own)
        np.testing.assert_allclose(steps["logits"], logits, atol=1e-12 * abs(logits).max())
        assert first_difference(steps, dict(steps)) is None


class TestOtherFamilies:
    """What would be another model in silence is an error that says what differs."""

    def state(self, name="Llama", **settings):
        model, config = made(name, settings, peers.torch.float32)
        return model.state_dict(), config

    @pytest.mark.parametrize("name", ["Gemma", "Mistral", "Granite", "Qwen2", "Cohere", "SmolLM3"])
    def test_another_configuration(self, name):
        state, _ = self.state()
        _, other = self.state(name)
        with pytest.raises(ValueError, match=r"'model_type' must be 'llama', not '\w+', which has"):
            from_state_dict(state, "llama", other)

    @pytest.mark.parametrize("changed", [{}, {"model_type": "llama"}])
    def test_architectures_tell(self, changed):
        state, config = self.state()
        config = {k: v for k, v in config.items() if k != "model_type"} | changed
        words = r"'architectures' must be of Llama, but 'GemmaForCausalLM' is 'gemma', which has"
        with pytest.raises(ValueError, match=words):
            from_state_dict(state, "llama", config | {"architectures": ["GemmaForCausalLM"]})
        with pytest.raises(ValueError, match=r"'XLNetForCausalLM' is of another family"):
            from_state_dict(state, "llama", config | {"architectures": ["XLNetForCausalLM"]})
        from_state_dict(state, "llama", config | {"architectures": ["LlamaForCausalLM"]})

    @pytest.mark.parametrize(
        ("entry", "value"),
        [
            ("sliding_window", 4),
            ("residual_multiplier", 0.5),
            ("logits_scaling", 8.0),
            ("final_logit_softcapping", 30.0),
            ("attn_logit_softcapping", 50.0),
            ("query_pre_attn_scalar", 256),
            ("no_rope_layers", [1, 0, 1]),
            ("layer_types", TYPES),
            ("num_local_experts", 8),
            ("use_qk_norm", True),
            ("logit_scale", 0.0625),
        ],
    )
    def test_entries_that_change_numbers(self, entry, value):
        state, config = self.state()
        with pytest.raises(ValueError, match=f"does not have: '{entry}' is"):
            from_state_dict(state, "llama", config | {entry: value})

    @pytest.mark.parametrize(
        ("entry", "value"),
        [
            ("sliding_window", None),
            ("residual_multiplier", 1.0),
            ("logits_scaling", 1),
            ("layer_types", ["full_attention"] * 3),
            ("no_rope_layers", [1, 1, 1]),
            ("use_qk_norm", False),
        ],
    )
    def test_neutral_entries(self, entry, value):
        state, config = self.state()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            from_state_dict(state, "llama", config | {entry: value})

    def test_another_state(self):
        state, _ = self.state("Qwen3", head_dim=8)
        _, config = self.state()
        with pytest.raises(ValueError, match=r"q_norm.weight' is not one of them"):
            from_state_dict(state, "llama", config)
        state, _ = self.state()
        _, config = self.state("Olmo2")
        with pytest.raises(ValueError, match=r"q_norm.weight' is missing"):
            from_state_dict(state, "olmo2", config)

    def test_no_kind(self):
        state, config = self.state()
        with pytest.raises(
            ValueError, match=r"'kind' must be given, unless config has 'model_type'"
        ):
            from_state_dict(state)
        with pytest.raises(ValueError, match=r"'kind' must be .*'llama'.*, not 'something'"):
            from_state_dict(state, config=config | {"model_type": "something"})

    @pytest.mark.parametrize(
        ("kind", "name", "settings", "words"),
        [
            ("cohere", "Cohere", {"use_qk_norm": True}, r"self_attn.q_norm.weight' is missing"),
            ("stablelm", "StableLm", {"qk_layernorm": True}, r"q_layernorm.weight' is missing"),
            ("smollm3", "SmolLM3", {"no_rope_layers": [1]}, "'no_rope_layers' must have 3"),
            ("qwen2", "Qwen2", {"layer_types": ["x"] * 3}, "'layer_types' must be a list of 3"),
            ("mistral", "Mistral", {"num_key_value_heads": 3}, "'num_key_value_heads' must divide"),
            ("gemma2", "Gemma2", {"use_bidirectional_attention": True}, "'use_bidirectional_att"),
            ("gemma3_text", "Gemma3Text", {"use_bidirectional_attention": True}, "'use_bidirec"),
            ("phi3", "Phi3", {"partial_rotary_factor": 0.4}, "must be even"),
        ],
    )
    def test_what_dlref_cannot_express(self, kind, name, settings, words):
        state, config = self.state(name)
        with pytest.raises(ValueError, match=words):
            from_state_dict(state, kind, config | {"rope_parameters": None} | settings)

    def test_rotations_of_near_layers(self):
        state, config = self.state("Gemma3Text", head_dim=8)
        config["rope_parameters"]["sliding_attention"]["rope_type"] = "linear"
        with pytest.raises(ValueError, match="rope type of sliding layers must be 'default'"):
            from_state_dict(state, "gemma3", config)


class TestSpellings:
    def test_null_and_older_names(self, rng):
        model, config = made("Mistral", {"sliding_window": None}, peers.torch.float32)
        old = config | {"head_dim": None, "rope_theta": 1e4, "rope_parameters": None}
        _, own = from_state_dict(model.state_dict(), "mistral", old)
        _, same = from_state_dict(model.state_dict(), "mistral", config)
        assert own == same
        assert own.blocks == {"rope_interleaved": False}

    def test_fewer_heads_by_default(self):
        model, config = made("Mistral", {"num_key_value_heads": 4}, peers.torch.float32)
        _, own = from_state_dict(
            model.state_dict(), "mistral", config | {"num_key_value_heads": None}
        )
        assert own.num_kv_heads == own.num_heads

    @pytest.mark.parametrize(
        "names",
        [
            ("model.language_model.", "lm_head."),
            ("language_model.model.", "language_model.lm_head."),
        ],
    )
    def test_the_text_model_of_a_multimodal_one(self, rng, names):
        model, config = made("Gemma3Text", {"head_dim": 8}, peers.torch.float64)
        state = model.state_dict()
        inside = {
            key.replace("model.", names[0], 1).replace("lm_head.", names[1]): value
            for key, value in state.items()
        }
        inside["vision_tower.weight"] = np.ones(3)
        whole = {"model_type": "gemma3", "text_config": config, "architectures": ["Gemma3For"]}
        params, own = from_state_dict(inside, "gemma3", whole)
        ids = tokens(rng, 1, 5)
        want, same = from_state_dict(state, "gemma3_text", config)
        assert own == same
        np.testing.assert_array_equal(
            language_model(ids, params, own), language_model(ids, want, same)
        )

    def test_the_old_head_of_neox(self):
        model, config = made("GPTNeoX", {}, peers.torch.float32)
        state = {k.replace("lm_head.", "embed_out."): v for k, v in model.state_dict().items()}
        params, _ = from_state_dict(state, "gpt_neox", config)
        np.testing.assert_array_equal(params.head, state["embed_out.weight"].numpy())

    @pytest.mark.parametrize("names", [("w1", "w3", "w2"), ("gate_proj", "up_proj", "down_proj")])
    def test_one_matrix_an_expert(self, names):
        model, config = made("Mixtral", EXPERTS, peers.torch.float32)
        state, published = model.state_dict(), {}
        for key, value in state.items():
            layer = key.split("mlp.")[0]
            if key.endswith("gate_up_proj"):
                for e, both in enumerate(value):
                    for name, part in zip(names, both.chunk(2), strict=False):
                        inner = f"{layer}block_sparse_moe.experts.{e}.{name}.weight"
                        published[inner] = part
            elif key.endswith("down_proj"):
                for e, down in enumerate(value):
                    inner = f"{layer}block_sparse_moe.experts.{e}.{names[2]}.weight"
                    published[inner] = down
            else:
                published[key.replace("mlp.gate.", "block_sparse_moe.gate.")] = value
        got, own = from_state_dict(published, "mixtral", config)
        want, same = from_state_dict(state, "mixtral", config)
        assert own == same
        trees.assert_close(got, want, 0)
        gone = next(key for key in published if "experts.1" in key)
        del published[gone]
        with pytest.raises(ValueError, match="must hold gate, up and down of each expert"):
            from_state_dict(published, "mixtral", config)

    def test_more_experts_than_there_are(self):
        model, config = made("Mixtral", EXPERTS, peers.torch.float32)
        with pytest.raises(ValueError, match="'num_experts_per_tok' must be at most 4, not 5"):
            from_state_dict(model.state_dict(), "mixtral", config | {"num_experts_per_tok": 5})

    def test_parts_of_a_fused_matrix_must_fit(self):
        model, config = made("Phi3", {"sliding_window": 4}, peers.torch.float32)
        params, own = from_state_dict(model.state_dict(), "phi3", config)
        block = params.blocks[0]
        wrong = block.attention._replace(w_k=np.ones((15, 32)), w_v=np.ones((17, 32)))
        params = params._replace(blocks=(block._replace(attention=wrong), *params.blocks[1:]))
        with pytest.raises(ValueError, match=r"the parts of .*qkv_proj.weight' must be"):
            to_state_dict(params, "phi3", own)

    def test_a_configuration_of_another_family_is_not_written(self):
        config = LanguageModelConfig(V, 8, 2, num_layers=1)
        params = init_language_model(np.random.default_rng(0), config)
        with pytest.raises(ValueError, match=r"family qwen3: 'positions' must be 'rope'"):
            to_state_dict(params, "qwen3", config)


TABLE = pathlib.Path(__file__).parents[2] / "docs/results/anatomy_options.csv"
ROUNDING = {
    row["family"].strip("`"): row["rounding"]
    for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())
}


def first_norm(model):
    """Return the first norm with a weight of a model; None if it has none."""
    norms = (m for m in model.modules() if type(m).__name__.endswith("Norm"))
    return next((m for m in norms if getattr(m, "weight", None) is not None), None)


@pytest.mark.parametrize(("kind", "name", "settings"), FIRST)
def test_where_a_norm_rounds_to_16_bits(kind, name, settings):
    """The column of the table, measured: a norm in bfloat16 is one of two, in every bit."""
    torch = peers.torch
    norm = first_norm(made(name, settings, torch.bfloat16)[0])
    if norm is None:
        pytest.skip("its norms have no weights, or compute in float32")
    x = (
        3 * torch.randn(256, len(norm.weight), generator=torch.Generator().manual_seed(0))
    ).bfloat16()
    h, bias = x.float(), getattr(norm, "bias", None)
    if "LayerNorm" in type(norm).__name__:
        h = h - h.mean(-1, keepdim=True)
    eps = next(getattr(norm, a) for a in ("variance_epsilon", "eps") if hasattr(norm, a))
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    shift = 0 if bias is None else bias
    rounded = set()
    for offset in (0, 1):
        if torch.equal(norm(x), h.bfloat16() * (norm.weight + offset) + shift):
            rounded.add("before the weight")
        if torch.equal(norm(x), (h * (norm.weight.float() + offset) + shift).bfloat16()):
            rounded.add("after the weight")
    assert rounded == {ROUNDING[kind]}

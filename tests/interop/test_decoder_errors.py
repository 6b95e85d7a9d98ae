"""What configurations and states of decoders are refused for, in words."""

import numpy as np
import pytest
from decoders import EXPERTS, FAMILIES, SIZES
from interop_states import configured, state_of
from published import small
from published_more import MORE

from dlref.interop import from_state_dict, to_state_dict
from dlref.interop._settings import family_of

SOME = {"a": np.ones(2)}


@pytest.mark.parametrize(
    ("kind", "entries", "words"),
    [
        ("qwen2", {"num_key_value_heads": 3}, "'num_key_value_heads' must divide 4, not be 3"),
        ("qwen2", {"hidden_size": 30}, "'num_attention_heads' must divide 30, not be 4"),
        ("ministral", {"layer_types": ["full_attention"]}, "'layer_types' must be a list of 3"),
        ("smollm3", {"no_rope_layers": [1]}, "'no_rope_layers' must have 3 entries, not 1"),
        ("gemma", {"use_bidirectional_attention": True}, "'use_bidirectional_attention' must be"),
        ("mixtral", EXPERTS | {"num_experts_per_tok": 9}, "'num_experts_per_tok' must be at most"),
        ("llama", {"model_type": "gemma"}, "not 'gemma', which has"),
        ("llama", {"model_type": "something"}, "'model_type' must be 'llama', not 'something'"),
        ("llama", {"model_type": None}, "'model_type' must be there: many families have its"),
        ("llama", {"architectures": ["GemmaForCausalLM"]}, "'GemmaForCausalLM' is 'gemma', which"),
        ("llama", {"architectures": ["OtherForCausalLM"]}, "is of another family"),
        ("llama", {"sliding_window": [1, 5]}, "sliding_window"),
        ("deepseek_v2", {"num_experts_per_tok": None}, "'num_experts_per_tok' must be there"),
        ("deepseek_v2", {"num_experts_per_tok": 2, "topk_method": "noaux_tc"},
         "'topk_method' must be greedy or group_limited_greedy"),
        ("granite_swa", {"layer_rope_theta": [1e4]}, "'layer_rope_theta' must be a list of 3, not"),
        (
            "dots1",
            EXPERTS | {"n_routed_experts": 4, "n_shared_experts": 1, "scoring_func": "softmax"},
            "'scoring_func' must be 'sigmoid' or 'noaux_tc'",
        ),
        ("qwen3_next", {"linear_num_key_heads": 3}, "'linear_num_key_heads' must divide 32"),
        ("qwen3_next", {"layer_types": ["x"]}, "'layer_types' must be a list of 3 known types"),
        ("glm4_moe_lite", {"mlp_layer_types": ["dense"]}, "'mlp_layer_types' must be "),
        ("glm4_moe_lite", {"first_k_dense_replace": 0}, "'first_k_dense_replace' must be as"),
        (
            "llama",
            {"rope_parameters": {"full_attention": {}, "sliding_attention": {"factor": 2.0}}},
            "must not be one for each kind of layer",
        ),
        (
            "gemma3_text",
            {"rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
            }},
            "the rope type of sliding layers must be 'default'",
        ),
        ("mellum", {"rope_theta": 1e4}, r"'rope_theta' must be None, not 10000\.0"),
        ("cohere_compass_text", {}, r"'rope_parameters' must have \['full_attention'\]"),
        ("olmo", {"clip_qkv": 0}, "'config.clip_qkv' must be greater than 0, not 0"),
        ("qwen3", {"use_qk_norm": False}, "'use_qk_norm' must be True, not False"),
        ("qwen2", {"num_heads": 3}, "'num_heads' must be 4, not 3"),
        ("dbrx", {"d_model": 16}, "'hidden_size' must be 16, not 32"),
        (
            "dbrx",
            {"attn_config": {"kv_n_heads": 2, "rope_theta": 5e5}, "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e4}, "intermediate_size": 3584},
            r"'rope_parameters' must have the 'rope_theta' of 'attn_config', 500000\.0",
        ),
        ("dbrx", {"attn_config": {"kv_n_heads": 3}}, "'kv_n_heads' must divide 4, not be 3"),
        ("ernie4_5_moe", {"moe_k": 99}, "'moe_k' must be at most"),
        ("ernie4_5_moe", {"moe_k": 0}, "'config.moe_k' must be at least 1, not 0"),
        ("dbrx", {"num_key_value_heads": 2}, "'num_key_value_heads' must be 1, not 2"),
        (
            "dbrx",
            {"ffn_config": {"moe_normalize_expert_weights": 2, "ffn_hidden_size": 24},
             "attn_config": {"kv_n_heads": 2}},
            "'moe_normalize_expert_weights' must be 1, not 2",
        ),
        ("axk1", {"mlp_layer_types": ["sparse"]}, "'mlp_layer_types' must be 3 of 'dense' and"),
        ("roformer", {"num_attention_heads": 32}, "'hidden_size' must be an even number for each"),
    ],
)  # fmt: skip
def test_of_configurations(kind, entries, words):
    with pytest.raises(ValueError, match=words):
        from_state_dict(SOME, kind, {"model_type": kind, **SIZES, **entries})


def test_a_kind_that_nobody_says():
    with pytest.raises(ValueError, match="'kind' must be given, unless config has 'model_type'"):
        from_state_dict(SOME, config={})


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model."])
def test_the_text_model_of_a_multimodal_one(prefix, rng):
    config = configured("qwen2", {})
    state = state_of("qwen2", config, rng)
    named = {
        name.replace("model.", prefix, 1) if name.startswith("model.") else name: array
        for name, array in state.items()
    }
    whole = {"model_type": "llava", "image_token_index": 7, "text_config": config}
    params, _ = from_state_dict(named, config=whole)
    np.testing.assert_array_equal(params.embedding, state["model.embed_tokens.weight"])


def apart(state):
    """Return a state as files have it: three matrices for each expert."""
    named = {}
    for name, array in state.items():
        if name.endswith("experts.gate_up_proj"):
            for e, both in enumerate(array):
                for part, half in zip(("gate_proj", "up_proj"), np.split(both, 2), strict=True):
                    named[name.replace("gate_up_proj", f"{e}.{part}.weight")] = half
        elif name.endswith("experts.down_proj"):
            for e, down in enumerate(array):
                named[name.replace("down_proj", f"{e}.down_proj.weight")] = down
        else:
            named[name] = array
    return named


def test_fused_matrices_of_another_size(rng):
    config = configured("qwen3_next", FAMILIES["qwen3_next"][1][0])
    state = state_of("qwen3_next", config, rng)
    name = next(name for name in state if name.endswith("linear_attn.in_proj_ba.weight"))
    state[name] = state[name][:-1]
    with pytest.raises(ValueError, match="must fit 2 heads of keys in the layer"):
        from_state_dict(state, "qwen3_next", config)


def test_no_configuration_names_no_family():
    assert family_of(None) is None
    assert family_of({"model_type": "llama"}) == "llama"


def test_experts_one_by_one(rng):
    config = configured("olmoe", EXPERTS)
    state = state_of("olmoe", config, rng)
    whole, _ = from_state_dict(state, config=config)
    named = apart(state)
    params, _ = from_state_dict(named, config=config)
    one, other = params.blocks[0].feed_forward.experts, whole.blocks[0].feed_forward.experts
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    del named[next(name for name in named if "experts.2.up_proj" in name)]
    with pytest.raises(ValueError, match="must hold gate, up and down of each expert"):
        from_state_dict(named, config=config)


def test_the_rows_of_dbrxs_experts(rng):
    """They are one matrix, whose base of rotations is 10000 where no entry has it."""
    ffn = {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2}
    config = {"model_type": "dbrx", "d_model": 32, "n_heads": 4, "n_layers": 1, "vocab_size": 23}
    config |= {"attn_config": {"kv_n_heads": 2}, "ffn_config": ffn}
    state = state_of("dbrx", config, rng)
    params, own = from_state_dict(state, config=config)
    assert own.rope_base == 10000
    name = "transformer.blocks.0.ffn.experts.mlp.w2"
    w2 = params.blocks[0].feed_forward.experts.w_down
    np.testing.assert_array_equal(w2[2], state[name][48:72].T)
    for wrong in (state[name][:-1], state[name][None]):
        with pytest.raises(ValueError, match=r"w2' must have shape \(n F, D\) = \(96, 32\), not"):
            from_state_dict(state | {name: wrong}, config=config)


def test_the_names_in_files_of_minimax(rng):
    config = configured("minimax_m2", EXPERTS | {"head_dim": 8})
    state = state_of("minimax_m2", config, rng)
    names = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
    named = {}
    for name, array in apart(state).items():
        for ours, theirs in names.items():
            name = name.replace(f".{ours}.weight", f".{theirs}.weight")  # noqa: PLW2901
        named[name.replace(".mlp.", ".block_sparse_moe.")] = array
    assert "model.layers.0.block_sparse_moe.experts.1.w3.weight" in named
    params, own = from_state_dict(named, config=config)
    again = to_state_dict(params, "minimax_m2", own)
    assert again.keys() == state.keys()
    for name, array in again.items():
        np.testing.assert_array_equal(array, state[name])


def test_the_last_layer_of_glm_predicts_later_tokens(rng):
    config = configured("glm4_moe", FAMILIES["glm4_moe"][1][0])
    state = state_of("glm4_moe", config, rng)
    last, more = "model.layers.2.", {"model.layers.3.eh_proj.weight": np.ones((32, 64))}
    more |= {
        name.replace(last, "model.layers.3."): array
        for name, array in state.items()
        if name.startswith(last)
    }
    params, own = from_state_dict(state | more, config=config)
    assert to_state_dict(params, "glm4_moe", own).keys() == state.keys()


class TestPredictionLayers:
    """DeepSeek's layers for the tokens after the next one, which follow the last layer."""

    def state(self, rng):
        config = configured("deepseek_v3", FAMILIES["deepseek_v3"][1][0])
        state = state_of("deepseek_v3", config, rng)
        last, start = "model.layers.2.", "model.layers.3."
        copies = {
            name.replace(last, start): array
            for name, array in state.items()
            if name.startswith(last)
        }
        more = {"eh_proj": (32, 64), "enorm": (32,), "hnorm": (32,), "embed_tokens": (23, 32)}
        more |= {"shared_head.norm": (32,), "shared_head.head": (23, 32)}
        extra = {f"{start}{name}.weight": rng.normal(size=shape) for name, shape in more.items()}
        return config | {"num_nextn_predict_layers": 1}, state, copies | extra

    def test_they_are_passed_over(self, rng):
        config, state, more = self.state(rng)
        params, own = from_state_dict(state | more, config=config)
        assert own.num_layers == 3
        assert to_state_dict(params, "deepseek_v3", own).keys() == state.keys()

    def test_a_layer_too_many_without_a_projection_is_refused(self, rng):
        config, state, more = self.state(rng)
        del more["model.layers.3.eh_proj.weight"]
        with pytest.raises(ValueError, match=r"'model\.layers\.3\..*' is not one of them"):
            from_state_dict(state | more, config=config)

    def test_a_layer_below_the_last_is_never_one(self, rng):
        config, state, _ = self.state(rng)
        state["model.layers.1.eh_proj.weight"] = np.ones((32, 64))
        with pytest.raises(ValueError, match=r"'model\.layers\.1\.eh_proj.*' is not one of them"):
            from_state_dict(state, config=config)


def test_a_norm_of_a_head_that_is_missing(rng):
    settings = configured("stablelm", {"qk_layernorm": True})
    state = state_of("stablelm", settings, rng)
    del state["model.layers.1.self_attn.q_layernorm.norms.1.weight"]
    words = "must hold 'model.layers.1.self_attn.q_layernorm.weight' of each head"
    with pytest.raises(ValueError, match=words):
        from_state_dict(state, config=settings)


def test_corrections_of_ernie_have_two_axes(rng):
    config = configured("ernie4_5_moe", FAMILIES["ernie4_5_moe"][1][0])
    state = state_of("ernie4_5_moe", config, rng)
    name = next(name for name in state if name.endswith("e_score_correction_bias"))
    assert state[name].ndim == 2
    state[name] = state[name][0]
    with pytest.raises(ValueError, match=r"must have shape \(1, n\), not \(4,\)"):
        from_state_dict(state, config=config)


def test_experts_for_all_tokens_in_each_layer_with_experts(rng):
    config = configured("ernie4_5_moe", FAMILIES["ernie4_5_moe"][1][0])
    state = state_of("ernie4_5_moe", config, rng)
    lost = {k: v for k, v in state.items() if not k.startswith("model.layers.2.mlp.shared")}
    with pytest.raises(ValueError, match=r"mlp\.shared_experts\.gate_proj\.weight' is missing"):
        from_state_dict(lost, config=config)
    with pytest.raises(ValueError, match=r"mlp\.shared_experts\.gate_proj\.weight' is there"):
        from_state_dict(state, config=config | {"moe_num_shared_experts": 0})


@pytest.mark.parametrize(
    ("kind", "today", "published"),
    [
        ("axk1", ".mlp.post_mlp_layernorm.", ".post_mlp_layernorm."),
        ("ernie4_5_moe", ".mlp.gate.moe_statics.", ".mlp.moe_statics."),
        ("exaone_moe", ".mlp.gate.e_score_correction_bias", ".mlp.e_score_correction_bias"),
        ("hy_v3", ".mlp.shared_experts.", ".mlp.shared_mlp."),
        ("flint", ".self_attn.sinks", ".self_attn.softmax_offset"),
        ("aria_text", ".experts.gate_up_proj", ".experts.fc1.weight"),
        ("aria_text", ".experts.down_proj", ".experts.fc2.weight"),
    ],
)
def test_names_of_tensors_as_published(kind, today, published, rng):
    config = configured(kind, FAMILIES[kind][1][0])
    state = state_of(kind, config, rng)
    other = {name.replace(today, published): array for name, array in state.items()}
    assert other.keys() != state.keys()
    params, own = from_state_dict(other, config=config)
    assert to_state_dict(params, kind, own).keys() == state.keys()


def test_embeddings_of_biogpt_without_a_scale(rng):
    config = small(MORE["microsoft/biogpt"]) | {"scale_embedding": False}
    state = state_of("biogpt", config, rng)
    assert from_state_dict(state, config=config)[1].embedding_scale == 1.0

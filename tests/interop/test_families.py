"""Families of models: layouts against the models written out in NumPy, and configurations."""

import zipfile
from dataclasses import replace

import numpy as np
import pytest
from interop_models import (
    BERT,
    GPT2,
    HEAD,
    LLAMA,
    T5,
    D,
    F,
    H,
    L,
    T,
    V,
    bert_shapes,
    close,
    drawn,
    gpt2_shapes,
    llama_shapes,
    run_bert,
    run_gpt2,
    run_llama,
    run_t5,
    t5_shapes,
)

from dlref.interop import (
    BertParams,
    T5EncoderParams,
    from_state_dict,
    read_state_dict,
    to_state_dict,
)
from dlref.neurons import LinearParams
from dlref.normalization import layer_norm
from dlref.positions import t5_bias
from dlref.transformer import (
    GatedFeedForwardParams,
    LanguageModelConfig,
    encoder,
    language_model,
)

#: Entries of published config.json files besides the sizes.
PUBLISHED = {
    "gpt2": {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "resid_pdrop": 0.1,
        "summary_activation": None, "summary_first_dropout": 0.1, "summary_type": "cls_index",
        "summary_proj_to_labels": True, "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    },
    "llama": {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 128000, "eos_token_id": [128001, 128008], "hidden_act": "silu",
        "initializer_range": 0.02, "max_position_embeddings": 131072, "mlp_bias": False,
        "model_type": "llama", "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192, "rope_type": "llama3",
        },
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
        "transformers_version": "4.43.0",
    },
    "bert": {
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
        "gradient_checkpointing": False, "hidden_dropout_prob": 0.1, "initializer_range": 0.02,
        "layer_norm_eps": 1e-12, "model_type": "bert", "pad_token_id": 0, "type_vocab_size": 2,
        "position_embedding_type": "absolute", "transformers_version": "4.6.0", "use_cache": True,
        "directionality": "bidi", "pooler_fc_size": 768, "pooler_type": "first_token_transform",
    },
    "t5": {
        "architectures": ["T5ForConditionalGeneration"], "decoder_start_token_id": 0,
        "dropout_rate": 0.1, "eos_token_id": 1, "initializer_factor": 1.0, "pad_token_id": 0,
        "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06, "model_type": "t5",
        "n_positions": 512, "output_past": True, "relative_attention_num_buckets": 32,
        "num_decoder_layers": 2, "task_specific_params": {}, "tie_word_embeddings": False,
    },
}  # fmt: skip
CASES = {
    "gpt2": ("gpt2", GPT2, gpt2_shapes()),
    "gpt2 with a head": ("gpt2", GPT2 | {"tie_word_embeddings": False}, gpt2_shapes() | HEAD),
    "llama": ("llama", LLAMA, llama_shapes() | HEAD),
    "llama, tied": ("llama", LLAMA | {"tie_word_embeddings": True}, llama_shapes()),
    "llama with biases": (
        "llama",
        LLAMA | {"attention_bias": True, "num_key_value_heads": 2},
        llama_shapes(kv=2, bias=True) | HEAD,
    ),
    "bert": ("bert", BERT, bert_shapes()),
    "bert without pooler": ("bert", BERT, bert_shapes(pooler=False)),
    "t5": ("t5", T5, t5_shapes(False)),
    "t5, gated": ("t5", T5 | {"feed_forward_proj": "gated-gelu"}, t5_shapes(True)),
}


def ported(name, **settings):
    kind, config, shapes = CASES[name]
    state = drawn(shapes)
    return state, *from_state_dict(state, kind, config | settings)


@pytest.fixture
def ids(rng):
    return rng.integers(0, V, T)


class TestOutputs:
    @pytest.mark.parametrize("name", ["gpt2", "gpt2 with a head"])
    def test_gpt2(self, name, ids):
        state, params, config = ported(name)
        close(language_model(ids, params, config), run_gpt2(state, ids))

    @pytest.mark.parametrize("name", ["llama", "llama, tied", "llama with biases"])
    def test_llama(self, name, ids):
        state, params, config = ported(name)
        want = run_llama(state, ids, kv=config.num_kv_heads)
        close(language_model(ids, params, config), want)

    @pytest.mark.parametrize(
        "settings",
        [
            {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 50.0},
            {"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_theta": 50.0},
            {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0}},
        ],
    )
    def test_spellings_of_the_rotation(self, settings, ids):
        state, params, config = ported("llama", **settings)
        want = run_llama(state, ids, theta=50.0, divisor=4.0)
        close(language_model(ids, params, config), want)

    def test_bert(self, ids, rng):
        state, params, options = ported("bert")
        types = rng.integers(0, 2, T)
        x = params.embedding[ids] + params.positions[:T] + params.types[types]
        x = layer_norm(x, *params.norm, eps=options["eps"])
        got = encoder(x, params.blocks, **options)
        close(got, run_bert(state, ids, types))

    @pytest.mark.parametrize("name", ["t5", "t5, gated"])
    def test_t5(self, name, ids):
        state, params, options = ported(name)
        bias = t5_bias(params.positions, T, T)
        got = encoder(params.embedding[ids], params.blocks, params.norm, bias=bias, **options)
        close(got, run_t5(state, ids, bias, "gated" in name))


class TestRoundTrip:
    @pytest.mark.parametrize("name", CASES)
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    @pytest.mark.parametrize("prefix", ["", "net."])
    def test_same_names_and_bits(self, name, dtype, prefix):
        kind, settings, shapes = CASES[name]
        state = {prefix + key: a.astype(dtype) for key, a in drawn(shapes).items()}
        more = {"other": 1} if prefix else {}
        params, config = from_state_dict(state | more, kind, settings, prefix=prefix)
        again = to_state_dict(params, kind, config, prefix=prefix)
        assert again.keys() == state.keys()
        for key, array in state.items():
            assert again[key].dtype == dtype
            np.testing.assert_array_equal(again[key], array)

    @pytest.mark.parametrize("name", ["gpt2", "llama, tied"])
    def test_names_of_a_model_without_head(self, name):
        kind, settings, shapes = CASES[name]
        state = drawn(shapes)
        bare = {key.split(".", 1)[1]: array for key, array in state.items()}
        params, config = from_state_dict(bare, kind, settings)
        assert to_state_dict(params, kind, config).keys() == state.keys()

    def test_names_of_a_bert_with_head(self):
        _, settings, shapes = CASES["bert"]
        state = {f"bert.{key}": array for key, array in drawn(shapes).items()}
        heads = {"cls.predictions.bias": np.ones(V), "classifier.weight": np.ones((2, D))}
        params, _ = from_state_dict(state | heads, "bert", settings)
        assert type(params) is BertParams
        assert type(params.pooler) is LinearParams
        assert to_state_dict(params, "bert", prefix="bert.").keys() == state.keys()

    def test_old_names_of_norms(self):
        _, settings, shapes = CASES["bert"]
        state = drawn(shapes)
        old = {
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): array
            for key, array in state.items()
        }
        assert old.keys() != state.keys()
        params, _ = from_state_dict(old, "bert", settings)
        np.testing.assert_array_equal(params.norm.bias, state["embeddings.LayerNorm.bias"])

    def test_embeddings_of_t5_by_their_other_name(self):
        kind, settings, shapes = CASES["t5"]
        state = drawn(shapes)
        state["encoder.embed_tokens.weight"] = state.pop("shared.weight")
        params, _ = from_state_dict(state, kind, settings)
        assert type(params) is T5EncoderParams
        np.testing.assert_array_equal(params.embedding, state["encoder.embed_tokens.weight"])

    def test_buffers_are_left_out(self):
        state = drawn(gpt2_shapes())
        state |= {"transformer.h.0.attn.bias": np.tri(L), "transformer.h.1.attn.masked_bias": -1e4}
        from_state_dict(state, "gpt2", GPT2)
        state = drawn(llama_shapes() | HEAD)
        state["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(2)
        from_state_dict(state, "llama", LLAMA)
        state = drawn(bert_shapes()) | {"embeddings.token_type_ids": np.zeros((1, L), int)}
        from_state_dict(state, "bert", BERT)

    def test_heads_of_t5_are_left_out(self):
        names = ("lm_head.weight", "qa_outputs.bias", "classification_head.dense.weight")
        state = drawn(t5_shapes(False)) | {name: np.ones(2) for name in names}
        from_state_dict(state, "t5", T5)

    def test_rows_of_the_rotation(self):
        """Row 1 of a head is turned with row 0 here, and with row E/2 + 1 there."""
        state = drawn(llama_shapes() | HEAD)
        params, _ = from_state_dict(state, "llama", LLAMA)
        stored = state["model.layers.0.self_attn.q_proj.weight"]
        want = stored[[0, 2, 1, 3, 4, 6, 5, 7]]
        np.testing.assert_array_equal(params.blocks[0].attention.w_q, want)


class TestConfigurations:
    def test_defaults_are_those_of_hugging_face(self):
        for kind, shape, more in (
            ("gpt2", (50257, 768), "'transformer.wpe.weight' is missing"),
            ("llama", (32000, 4096), "'model.layers.31.mlp.down_proj.weight'|and 2[0-9][0-9] more"),
            ("bert", (30522, 768), "'embeddings.position_embeddings.weight' is missing"),
            ("t5", (32128, 512), "more"),
        ):
            name = {"gpt2": "transformer.wte", "llama": "model.embed_tokens"}.get(kind, "shared")
            name = "embeddings.word_embeddings" if kind == "bert" else name
            want = rf"shape \(V, D\) = \({shape[0]}, {shape[1]}\), not \(2, 2\).*{more}"
            with pytest.raises(ValueError, match=want):
                from_state_dict({f"{name}.weight": np.ones((2, 2))}, kind)

    def test_what_it_says(self):
        _, _, config = ported("gpt2", activation_function="relu", layer_norm_epsilon=0.5)
        want = LanguageModelConfig(
            V, D, H, num_layers=2, d_ff=F, activation="relu", length=L, eps=0.5
        )
        assert config == want
        _, _, config = ported("llama", hidden_act="gelu_pytorch_tanh", rms_norm_eps=0.5)
        assert (config.activation, config.eps, config.tied) == ("geglu_tanh", 0.5, False)
        assert (config.num_kv_heads, config.d_ff, config.biases) == (1, F, False)
        _, _, options = ported("bert", layer_norm_eps=0.5)
        assert options == {"num_heads": H, "norm": "layer", "activation": "relu", "eps": 0.5}
        _, params, options = ported("t5, gated")
        assert options == {
            "num_heads": H, "norm_first": True, "norm": "rms", "activation": "gelu_tanh",
            "scale": 1.0, "eps": 1e-6,
        }  # fmt: skip
        assert type(params.blocks[1].feed_forward) is GatedFeedForwardParams

    def test_other_spellings_of_sizes(self):
        state = drawn(gpt2_shapes())
        settings = {"hidden_size": D, "num_attention_heads": H, "num_hidden_layers": 2}
        settings |= {"vocab_size": V, "max_position_embeddings": L, "n_inner": F}
        assert from_state_dict(state, "gpt2", settings)[1].num_heads == H

    def test_yarn_has_its_length_from_elsewhere(self):
        _, _, config = ported(
            "llama", rope_scaling={"rope_type": "yarn", "factor": 4.0}, max_position_embeddings=64
        )
        assert config.rope_scaling["original_max_position_embeddings"] == 64
        scaling = {"rope_type": "yarn", "original_max_position_embeddings": 16, "factor": None}
        _, _, config = ported("llama", rope_scaling=scaling, max_position_embeddings=64)
        assert config.rope_scaling["factor"] == 4.0

    def test_where_the_length_of_the_training_stands(self):
        """Hugging Face takes it from beside the scaling first, then from it, then the longest."""
        name, more = "original_max_position_embeddings", {"max_position_embeddings": 64}
        three = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        for scaling in ({"type": "yarn", "factor": 4.0}, {"rope_type": "llama3"} | three):
            for inside, beside, want in ((None, None, 64), (16, None, 16), (16, 32, 32)):
                settings = more | {"rope_scaling": scaling | {name: inside}, name: beside}
                _, _, config = ported("llama", **settings)
                assert config.rope_scaling[name] == want

    def test_the_older_spelling_goes_before_the_newer(self):
        """As in Hugging Face; an empty one says nothing."""
        newer = {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0}
        for older, want in (({"type": "linear", "factor": 2.0}, (1e4, 2.0)), ({}, (50.0, 4.0))):
            _, _, config = ported("llama", rope_scaling=older, rope_parameters=newer)
            assert (config.rope_base, config.rope_scaling["factor"]) == want

    def test_activations(self):
        for name, want in (
            ("gelu_accurate", "gelu_tanh"),
            ("gelu_python_tanh", "gelu_tanh"),
            ("hardswish", "hard_swish"),
            ("leaky_relu", "leaky_relu"),
        ):
            assert ported("gpt2", activation_function=name)[2].activation == want

    def test_what_t5_makes_of_its_network_goes_before_the_name(self):
        more = {"feed_forward_proj": "relu", "is_gated_act": True, "dense_act_fn": "gelu_new"}
        _, params, options = ported("t5, gated", **more)
        assert type(params.blocks[0].feed_forward) is GatedFeedForwardParams
        assert options["activation"] == "gelu_tanh"

    def test_the_farthest_distance_of_t5(self, ids):
        want = r"'relative_attention_max_distance' = 40, which is .* t5_bias as max_distance=40\.$"
        with pytest.warns(UserWarning, match=want) as seen:
            ported("t5", relative_attention_max_distance=40)
        assert seen[0].filename == __file__
        ported("t5", relative_attention_max_distance=128)

    @pytest.mark.parametrize("name", CASES)
    def test_what_does_not_matter_is_passed_over(self, name):
        """Warnings are errors in these tests."""
        kind = CASES[name][0]
        more = {"architectures": ["X"], "torch_dtype": "float16", "transformers_version": "4"}
        more |= {"bos_token_id": 1, "use_cache": True, "initializer_range": 0.1, "model_type": kind}
        more |= {"attn_pdrop": 0.1, "hidden_dropout_prob": 0.1, "task_specific_params": {}}
        more |= {"_name_or_path": "a/b", "pretraining_tp": 1, "cache_implementation": "hybrid"}
        ported(name, **more)

    @pytest.mark.parametrize("name", PUBLISHED)
    def test_published_files_raise_no_warning(self, name):
        ported(name, **PUBLISHED[name])

    def test_what_lets_tokens_see_later_ones_as_they_do(self):
        """Warnings are errors in these tests."""
        ported("llama", is_causal=True)
        ported("bert", is_causal=False)

    def test_what_is_unknown_is_an_error(self):
        want = r"does not have: 'query_scale' is 3; 'key_scale' is False\.$"
        with pytest.raises(ValueError, match=want):
            ported("llama", query_scale=3, key_scale=False, value_scale=None)

    @pytest.mark.parametrize(
        ("name", "settings", "match"),
        [
            ("gpt2", {"scale_attn_weights": 2}, "'scale_attn_weights' must be True or False"),
            ("gpt2", {"n_layer": 2, "num_hidden_layers": 3}, "'num_hidden_layers' must be 2"),
            ("gpt2", {"is_causal": False}, "'is_causal' is False"),
            ("llama", {"is_causal": False}, "'is_causal' is False"),
            ("bert", {"is_causal": True}, "'is_causal' is True"),
            ("t5", {"is_causal": True}, "'is_causal' is True"),
            ("t5", {"is_causal": False}, "'is_causal' is False"),
            ("gpt2", {"activation_function": "snake"}, "'activation_function' must be one of"),
            ("gpt2", {"activation_function": 3}, "'activation_function' must be one of"),
            ("gpt2", {"n_head": 3}, "'n_head' must divide 8, not be 3"),
            ("gpt2", {"tie_word_embeddings": "no"}, "must be True or False, not 'no'"),
            ("llama", {"model_type": "gemma"}, "'model_type' must be 'llama', not 'gemma'"),
            ("llama", {"head_dim": 3}, "must be even and from 2 to .*, not 3"),
            ("llama", {"sliding_window": 4096}, "'sliding_window' is 4096"),
            ("llama", {"mlp_bias": True}, r"\.\.\.'mlp\.gate_proj\.bias' is missing"),
            ("llama", {"hidden_act": "mish"}, "'hidden_act' must not be 'mish' for a gate"),
            ("llama", {"partial_rotary_factor": 0.5}, "'partial_rotary_factor' must be 1"),
            ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "not be 'dynamic'"),
            (
                "llama",
                {"rope_scaling": {"type": "linear"}},
                "'rope_scaling' does not fit: .*factor",
            ),
            ("llama", {"rope_scaling": {"type": "spiral"}}, "'rope_scaling' .*'spiral'"),
            (
                "llama",
                {"rope_parameters": {"type": "linear", "factor": "2"}},
                "'rope_parameters' do",
            ),
            (
                "llama",
                {"rope_parameters": {"full_attention": {"rope_type": "default"}}},
                "each kind",
            ),
            ("llama", {"num_attention_heads": 3}, "'num_attention_heads' must divide 8, not be 3"),
            ("llama", {"num_attention_heads": 8}, "must be even and from 2 to .*, not 1"),
            ("llama", {"num_key_value_heads": 3}, "'num_key_value_heads' must divide 2, not be 3"),
            ("bert", {"position_embedding_type": "relative_key"}, "must be 'absolute'"),
            ("bert", {"num_attention_heads": 3}, "'num_attention_heads' must divide 8, not be 3"),
            ("bert", {"is_decoder": True}, "'is_decoder' must be False"),
            ("t5", {"feed_forward_proj": "twice-relu"}, "must not be 'twice-relu'"),
            ("t5", {"feed_forward_proj": "gated-cube"}, "'feed_forward_proj' must be one of"),
            ("t5", {"dense_act_fn": "cube"}, "'dense_act_fn' must be one of"),
            ("t5", {"is_gated_act": 1}, "'is_gated_act' must be True or False"),
        ],
    )
    def test_what_cannot_be_expressed(self, name, settings, match):
        with pytest.raises(ValueError, match=match):
            ported(name, **settings)

    def test_all_problems_at_once(self):
        want = "'n_head' must .*; 'scale_attn_weights' must be .*; 'add_cross_attention' must be"
        with pytest.raises(ValueError, match=want):
            ported("gpt2", n_head=3, scale_attn_weights=2, add_cross_attention=True)
        want = (
            "'num_attention_heads' must .*; 'mlp_bias' must be True or .*; the rope type must not"
        )
        scaling = {"type": "dynamic", "factor": 2.0}
        with pytest.raises(ValueError, match=want):
            ported("llama", num_attention_heads=3, mlp_bias="no", rope_scaling=scaling)
        scaling = {"type": "linear"}  # whether it fits depends on the width of a head
        with pytest.raises(ValueError, match=r"'num_attention_heads' must divide 8, not be 3\.$"):
            ported(
                "llama",
                num_attention_heads=3,
                num_key_value_heads=3,
                head_dim=2,
                rope_scaling=scaling,
            )

    def test_types(self):
        with pytest.raises(
            TypeError, match=r"^Argument 'config' must be a dictionary, not 'llama'"
        ):
            from_state_dict(drawn(llama_shapes()), "llama", "llama")
        with pytest.raises(TypeError, match=r"^Argument 'config\.n_layer' must be an integer"):
            ported("gpt2", n_layer="two")
        with pytest.raises(TypeError, match=r"'config\.rope_scaling' must be a dictionary"):
            ported("llama", rope_scaling="linear")
        with pytest.raises(ValueError, match=r"^Argument 'config' must be None for a module"):
            from_state_dict({"weight": np.ones((2, 2))}, "Linear", {})


class TestErrors:
    def test_tensors_that_do_not_fit_are_named_at_once(self):
        state = drawn(llama_shapes() | HEAD)
        del state["model.norm.weight"]
        state["model.layers.1.self_attn.k_proj.weight"] = np.ones((D, D))
        state["model.layers.2.mlp.up_proj.weight"] = np.ones((F, D))
        with pytest.raises(ValueError, match=r"^Argument 'state' .* of llama: ") as error:
            from_state_dict(state, "llama", LLAMA)
        for part in (
            "'model.norm.weight' is missing",
            "k_proj.weight' must have shape (K, D) = (4, 8), not (8, 8)",
            "'model.layers.2.mlp.up_proj.weight' is not one of them",
        ):
            assert part in str(error.value)

    def test_a_tied_head_must_be_the_embeddings(self):
        state = drawn(gpt2_shapes())
        same = state | {"lm_head.weight": state["transformer.wte.weight"].copy()}
        from_state_dict(same, "gpt2", GPT2)
        other = state | {"lm_head.weight": np.ones((V, D))}
        want = r"'lm_head\.weight' must equal 'transformer.wte.weight', as embeddings are tied"
        with pytest.raises(ValueError, match=want):
            from_state_dict(other, "gpt2", GPT2)

    def test_a_model_of_nan_is_tied_to_itself(self):
        state = {key: np.full_like(array, np.nan) for key, array in drawn(gpt2_shapes()).items()}
        state["lm_head.weight"] = state["transformer.wte.weight"].copy()
        params, _ = from_state_dict(state, "gpt2", GPT2)
        assert np.isnan(params.embedding).all()

    def test_a_tied_head_that_is_no_array(self):
        state = drawn(gpt2_shapes()) | {"lm_head.weight": None}
        with pytest.raises(TypeError, match=r"^Argument 'lm_head\.weight' must be float16"):
            from_state_dict(state, "gpt2", GPT2)

    def test_a_norm_by_its_old_name_and_its_new_one(self):
        state = drawn(bert_shapes()) | {"embeddings.LayerNorm.gamma": np.ones(D)}
        want = r"once: 'embeddings\.LayerNorm\.gamma' is 'embeddings\.LayerNorm\.weight' once more"
        with pytest.raises(ValueError, match=want):
            from_state_dict(state, "bert", BERT)

    @pytest.mark.parametrize("prefix", ["module.", "module._orig_mod.", "transformer.", "model."])
    @pytest.mark.parametrize("name", CASES)
    def test_a_prefix_that_was_not_given_is_named(self, name, prefix):
        kind, settings, shapes = CASES[name]
        state = {prefix + key: array for key, array in drawn(shapes).items()}
        want = rf"of {kind} \(perhaps with prefix='{prefix}'\): .* is missing; .* is not one of"
        with pytest.raises(ValueError, match=want):
            from_state_dict(state, kind, settings)
        with pytest.raises(ValueError, match=rf"perhaps with prefix='{prefix}'"):
            from_state_dict(state, kind, settings, prefix=prefix[:-1])
        from_state_dict(state, kind, settings, prefix=prefix)

    def test_what_is_before_few_names_is_no_prefix(self):
        state = {f"encoder.{key}": array for key, array in drawn(t5_shapes(False)).items()}
        state["encoder.embed_tokens.weight"] = np.ones((V, D))
        with pytest.raises(ValueError, match=r"of llama: 'embed_tokens\.weight' is missing"):
            from_state_dict(state, "llama", LLAMA)

    def test_what_is_there_instead_is_named_beside_what_is_missing(self):
        with pytest.raises(
            ValueError, match=r"gpt2: 'wte\.weight' is missing; .*'model' is not one"
        ):
            from_state_dict({"model": np.ones(2)}, "gpt2", GPT2)

    def test_names_in_messages_are_those_of_the_state_dict(self):
        state = {f"net.{key}": array for key, array in drawn(llama_shapes()).items()}
        with pytest.raises(ValueError, match=r"'net\.lm_head\.weight' is missing"):
            from_state_dict(state, "llama", LLAMA, prefix="net.")

    def test_a_missing_head(self):
        with pytest.raises(ValueError, match=r"'lm_head\.weight' is missing"):
            from_state_dict(drawn(llama_shapes()), "llama", LLAMA)

    @pytest.mark.parametrize(
        ("name", "field", "value"),
        [
            ("gpt2", "norm_first", False),
            ("gpt2", "positions", "rope"),
            ("gpt2", "norm", "rms"),
            ("gpt2", "biases", False),
            ("llama", "norm_first", False),
            ("llama", "positions", "alibi"),
            ("llama", "scale_embeddings", True),
        ],
    )
    def test_models_that_a_family_does_not_have_are_not_written(self, name, field, value):
        """Their tensors could have the same names."""
        _, params, config = ported(name)
        config = replace(config, **{field: value})
        want = f"of the family {name}: {field!r} must be .*, not {value!r}"
        with pytest.raises(ValueError, match=want):
            to_state_dict(params, name, config)

    def test_writing(self):
        _, params, config = ported("llama")
        with pytest.raises(
            TypeError, match=r"^Argument 'config' must be a LanguageModelConfig, not"
        ):
            to_state_dict(params, "llama", LLAMA)
        with pytest.raises(ValueError, match="must have shape"):
            to_state_dict(params._replace(embedding=np.ones((V, 3))), "llama", config)
        w_q = np.ones((3, D))
        block = params.blocks[0]
        block = block._replace(attention=block.attention._replace(w_q=w_q))
        with pytest.raises(ValueError, match="must be equal blocks of 2 heads, not"):
            to_state_dict(params._replace(blocks=(block, params.blocks[1])), "llama", config)
        with pytest.raises(
            ValueError, match=r"'params\.blocks' must be a tuple of 2, not tuple of 1"
        ):
            to_state_dict(params._replace(blocks=params.blocks[:1]), "llama", config)
        with pytest.raises(ValueError, match="'params' must be BertParams, not NoneType"):
            to_state_dict(None, "bert")
        with pytest.raises(TypeError, match=r"^Argument 'config' must be a dictionary"):
            to_state_dict(None, "t5", 3)
        with pytest.raises(ValueError, match=r"^Argument 'config' must be None for a module"):
            to_state_dict(LinearParams(np.ones((2, 2))), "Linear", config)


class TestFiles:
    def test_npz(self, tmp_path, rng):
        state = {"a.weight": rng.normal(size=(3, 2)).astype(np.float32), "b": np.ones(2)}
        np.savez(tmp_path / "x.npz", **state)
        for path in (tmp_path / "x.npz", str(tmp_path / "x.npz")):
            got = read_state_dict(path)
            assert got.keys() == state.keys()
            np.testing.assert_array_equal(got["a.weight"], state["a.weight"])
            assert got["a.weight"].dtype == np.float32

    def test_nothing_is_unpickled(self, tmp_path):
        np.savez(tmp_path / "x.npz", a=np.array([print], object))
        with pytest.raises(ValueError, match=r"^Argument 'path' must be a file of tensors, not "):
            read_state_dict(tmp_path / "x.npz")

    def test_damaged_files(self, tmp_path):
        path = tmp_path / "x.npz"
        path.write_bytes(b"no archive")
        with pytest.raises(ValueError, match=r"^Argument 'path' must be a file of tensors, not "):
            read_state_dict(path)
        np.savez(path, a=np.arange(100.0))
        path.write_bytes(path.read_bytes()[:-60])
        with pytest.raises(ValueError, match=r"^Argument 'path' must be a file of tensors, not "):
            read_state_dict(path)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.npy", b"no array")
        with pytest.raises(ValueError, match=r"^Argument 'path' must be a file of tensors, not "):
            read_state_dict(path)
        np.save(tmp_path / "y.npy", np.ones(2))
        (tmp_path / "y.npy").rename(path)
        with pytest.raises(ValueError, match=r"npz': it is one array, as np\.save writes\.$"):
            read_state_dict(path)

    def test_safetensors(self, tmp_path, rng):
        numpy = pytest.importorskip("safetensors.numpy")
        state = {"a.weight": rng.normal(size=(3, 2)).astype(np.float32), "b": np.ones(2)}
        path = tmp_path / "x.safetensors"
        numpy.save_file(state, path)
        got = read_state_dict(path)
        assert got.keys() == state.keys()
        np.testing.assert_array_equal(got["a.weight"], state["a.weight"])
        path.write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match=r"^Argument 'path' must be a file of tensors, not "):
            read_state_dict(path)

    def test_names(self, tmp_path):
        with pytest.raises(ValueError, match=r"^Argument 'path' must end with '.safetensors', "):
            read_state_dict(tmp_path / "x.bin")
        with pytest.raises(TypeError, match=r"^Argument 'path' must be the name of a file, not 3"):
            read_state_dict(3)
        with pytest.raises(FileNotFoundError):
            read_state_dict(tmp_path / "none.npz")

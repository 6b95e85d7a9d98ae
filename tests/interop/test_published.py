"""Published files config.json, with small sizes: read whole, as the package transformers does."""

import importlib.util
import json
import os
import re
from pathlib import Path

import numpy as np
import peers
import pytest
from interop_states import state_of
from published import ENCODERS as FIRST_ENCODERS
from published import PUBLISHED as FIRST
from published import T, V, small
from published_later import ALL_OF_4_38, LATER, LATER_ENCODERS
from published_more import MORE, MORE_ENCODERS

from dlref.interop import from_state_dict, to_state_dict
from dlref.interop._families import FAMILIES, _entries_of_all
from dlref.interop._missing import MISSING
from dlref.interop._settings import AROUND, IRRELEVANT, OF_IMAGES, OF_OTHERS, family_of
from dlref.neurons import linear
from dlref.normalization import layer_norm
from dlref.transformer import (
    encoder,
    encoder_decoder_model,
    language_model,
    language_model_vjp,
)

PUBLISHED = FIRST | MORE | LATER
ENCODERS = FIRST_ENCODERS | MORE_ENCODERS | LATER_ENCODERS
#: Files of models that dlref cannot express, and words of the reason.
REFUSED = {
    "Alibaba-NLP/gte-Qwen2-1.5B-instruct": "does not have: 'is_causal' is False",
    "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B": "Did you mean 'attention_factor'",
    "internlm/internlm3-8b-instruct": "the rope type must not be 'dynamic'",
    "openbmb/MiniCPM3-4B": "the rope type must not be 'longrope'",
    "tiiuae/falcon-rw-1b": "'alibi' must be False, not True: dlref lacks ALiBi's bias rounded to",
    "microsoft/Phi-3-mini-128k-instruct": "the rope type must not be 'longrope'",
    "microsoft/Phi-4-mini-instruct": "the rope type must not be 'longrope'",
}
#: Classes of the package that files call by another name.
CLASSES = {"MPTForCausalLM": "MptForCausalLM", "Ernie4_5_ForCausalLM": "Ernie4_5ForCausalLM"}
CLASSES |= {
    "IQuestCoderForCausalLM": "LlamaForCausalLM",
    "InternLM3ForCausalLM": "LlamaForCausalLM",
}
CLASSES |= {"ExaoneMoEForCausalLM": "ExaoneMoeForCausalLM"}
#: Packages of families whose name differs.
PACKAGES = {"gemma3_text": "gemma3", "internlm3": "llama", "iquestcoder": "llama"}
PACKAGES |= {"aria_text": "aria", "cohere_compass_text": "cohere_compass"}
PACKAGES |= {"openai-gpt": "openai", "emu3_text_model": "emu3", "data2vec-text": "data2vec"}
PACKAGES |= {"qwen3_5_text": "qwen3_5", "qwen3_5_moe_text": "qwen3_5_moe"}
#: What a file's README asks its reader to change for the package. DBRX's base stands in an entry
#: that the package does not read any more.
OTHER_NAMES = {
    "kimi_k2": {"model_type": "deepseek_v3"},
    "dbrx": {"rope_parameters": {"rope_theta": 500000, "rope_type": "default"}},
}
READ = [name for name in PUBLISHED if name not in REFUSED]


def loaded(name, rng, **entries):
    """Return what dlref makes of a published file, with other entries, and of random tensors."""
    config = small(PUBLISHED[name]) | entries
    inner = config.get("text_config", config)
    state = state_of(family_of(config), inner | {"model_type": family_of(config)}, rng)
    return from_state_dict(state, config=config)


@pytest.mark.parametrize("name", READ)
def test_files_are_read_without_a_warning(name, rng):
    """Warnings are errors in these tests."""
    params, own = loaded(name, rng)
    assert np.isfinite(language_model(rng.integers(3, V, T), params, own)).all()


@pytest.mark.parametrize("name", REFUSED)
def test_files_of_other_models_are_refused(name):
    with pytest.raises(ValueError, match=REFUSED[name]):
        from_state_dict({"a": np.ones(2)}, config=small(PUBLISHED[name]))


class TestFacts:
    """What the files say, in the words of their authors' code."""

    def test_a_window_that_is_switched_off(self, rng):
        for name in ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-0.6B-Base"):
            assert loaded(name, rng)[1].blocks == {"rope_interleaved": False}
            own = loaded(name, rng, use_sliding_window=True, max_window_layers=3)[1]
            assert [options.get("window") for options in own.blocks] == [None] * 3 + [(4, 0)]

    def test_the_first_gemma_says_gelu_and_means_its_tanh_form(self, rng):
        assert loaded("google/gemma-2b", rng)[1].activation == "geglu_tanh"
        with pytest.raises(ValueError, match="'hidden_activation' must be as 'hidden_act', not"):
            loaded("google/gemma-2b", rng, hidden_activation="relu")

    def test_the_rotation_of_gpt_oss_that_no_entry_describes(self, rng):
        found, given = (
            loaded(f"openai/gpt-oss-20b{end}", rng)[1] for end in (", without the rotation", "")
        )
        assert found.rope_base == given.rope_base == 150000
        assert found.rope_scaling["factor"] == 32
        assert found.rope_scaling["original_max_position_embeddings"] == 4096
        assert found.rope_scaling["truncate"] is False

    def test_synonyms_must_agree(self, rng):
        name = "openai/gpt-oss-20b"
        with pytest.raises(ValueError, match="'experts_per_token' must be 3, not 2"):
            loaded(name, rng, experts_per_token=2)
        with pytest.raises(ValueError, match="'num_experts' must be 8, not 4"):
            loaded(name, rng, num_experts=4)

    @pytest.mark.parametrize(
        "name",
        [
            "Qwen/Qwen3-Next-80B-A3B-Instruct",  # whose delta rule has the activation, too
            "openai/gpt-oss-20b",  # whose experts ignore it
            "deepseek-ai/DeepSeek-V3",  # whose experts for all tokens have silu in dlref
            "Qwen/Qwen1.5-MoE-A2.7B",
            "zai-org/GLM-4.5",
        ],
    )
    def test_another_activation(self, rng, name):
        with pytest.raises(ValueError, match="'hidden_act' must be 'silu'"):
            loaded(name, rng, hidden_act="gelu")

    def test_norms_that_the_file_says_are_not_there(self, rng):
        for name, there in (("zai-org/GLM-4.5", True), ("zai-org/GLM-4.5-Air", False)):
            config = small(PUBLISHED[name])
            state = state_of("glm4_moe", config, rng)
            params, _ = from_state_dict(state, config=config)
            assert (params.blocks[0].attention.q_norm is not None) == there
            words = f"q_norm.weight' is {'there' if there else 'missing'}"
            with pytest.raises(ValueError, match=words):
                from_state_dict(state, config=config | {"use_qk_norm": not there})

    def test_a_rotation_that_each_kind_of_layer_has(self, rng):
        name = "allenai/Olmo-3-1025-7B"
        own = loaded(name, rng)[1]
        assert own.rope_scaling["factor"] == 8
        assert own.blocks[0]["rope"] == {"base": 500000.0, "scaling": None}
        assert "rope" not in own.blocks[3]
        with pytest.raises(ValueError, match=r"'rope_theta' must be 500000\.0 unless"):
            loaded(name, rng, rope_theta=10000.0)
        old = {"type": "linear", "factor": 2.0}
        with pytest.raises(ValueError, match="must have 'rope_type': transformers does not"):
            loaded(name, rng, rope_scaling=old)
        with pytest.raises(ValueError, match="'rope_parameters' must be one for each kind"):
            loaded(name, rng, rope_scaling=None, rope_parameters=old | {"rope_theta": 5e5})

    def test_layers_without_a_rotation(self, rng):
        for name in ("LGAI-EXAONE/EXAONE-4.0-32B", "CohereForAI/c4ai-command-r7b-12-2024"):
            own = loaded(name, rng)[1]
            assert [options.get("rope", 0) for options in own.blocks] == [0, 0, 0, None]
            assert [options.get("window") for options in own.blocks] == [(4, 0)] * 3 + [None]
        assert loaded("LGAI-EXAONE/EXAONE-4.0-1.2B", rng)[1].blocks == {"rope_interleaved": False}

    def test_a_factor_of_the_base(self, rng):
        own = loaded("tencent/Hunyuan-7B-Instruct", rng)[1]
        assert own.rope_base == pytest.approx(10000.0 * 1000.0 ** (8 / 6))
        assert own.rope_scaling is None

    def test_scores_by_the_number_of_the_block(self, rng):
        own = loaded("stanford-crfm/alias-gpt2-small-x21", rng)[1]
        assert [options["scale"] for options in own.blocks] == [8**-0.5 / n for n in (1, 2, 3, 4)]
        own = loaded("openai-community/gpt2", rng, scale_attn_weights=False)[1]
        assert own.blocks == ({"scale": 1.0},) * 4

    def test_a_model_for_later_tokens_is_left_out(self, rng):
        config = small(PUBLISHED["Qwen/Qwen3-Next-80B-A3B-Instruct"])
        state = state_of("qwen3_next", config, rng)
        more = {"mtp.fc.weight": np.ones((32, 64)), "mtp.layers.0.mlp.experts.0.up_proj.weight": 1}
        params, own = from_state_dict(state | more, config=config)
        assert to_state_dict(params, "qwen3_next", own).keys() == state.keys()

    def test_quantized_weights(self, rng):
        config = small(PUBLISHED["meta-llama/Llama-3.1-8B"])
        state = state_of("llama", config, rng)
        options = config | {"quantization_config": {"quant_method": "bitsandbytes"}}
        with pytest.raises(ValueError, match="'quantization_config' belongs to quantized weights"):
            from_state_dict(state, config=options)
        name = "model.layers.0.self_attn.q_proj.weight"
        state[name] = state[name].astype(np.int8)
        with pytest.raises(TypeError, match=f"'{name}' must be float16.*, not int8"):
            from_state_dict(state, config=config)


class TestStrayEntries:
    """Entries that no family reads, in files that the package transformers wrote."""

    NAME = "humain-ai/ALLaM-7B-Instruct-preview"  # which has such an entry, `internal_version`

    def test_one_is_passed_over(self, rng):
        assert loaded(self.NAME, rng, author="somebody")[1] == loaded(self.NAME, rng)[1]

    @pytest.mark.parametrize(
        "entries",
        [
            {"transformers_version": None},  # by hand
            {"transformers_version": "5.24.0.dev0"},  # with entries that this version may have
            {"auto_map": {"AutoModel": "modeling_own.Own"}},  # whose code may read it
        ],
    )
    def test_one_in_other_files_is_refused(self, rng, entries):
        with pytest.raises(ValueError, match="'internal_version' is '7b-alpha"):
            loaded(self.NAME, rng, **entries)

    @pytest.mark.parametrize(
        ("entry", "value"),
        [
            ("is_causal", False),
            ("scale_emb", 12.0),  # of MiniCPM3
            ("attn_temperature_tuning", True),  # of Llama 4
            ("per_layer_config", {"0": {"head_dim": 4}}),  # which the package reads for all
        ],
    )
    def test_an_entry_that_has_a_reader_is_refused(self, rng, entry, value):
        with pytest.raises(ValueError, match=f"'{entry}' is"):
            loaded(self.NAME, rng, **{entry: value})

    def test_beside_a_text_model(self, rng):
        name = "llava-hf/llava-1.5-7b-hf"
        assert loaded(name, rng, author="somebody")[1] == loaded(name, rng)[1]
        with pytest.raises(ValueError, match="'author' is 'somebody' beside 'text_config'"):
            loaded(name, rng, author="somebody", transformers_version=None)
        for version, read in (("4.36.0", True), (None, False)):
            config = small(PUBLISHED[name]) | {"transformers_version": version}
            config["text_config"] = config["text_config"] | {"author": "somebody"}
            state = state_of("llama", config["text_config"] | {"model_type": "llama"}, rng)
            if read:
                from_state_dict(state, config=config)
            else:
                with pytest.raises(ValueError, match="does not have: 'author' is 'somebody'"):
                    from_state_dict(state, config=config)

    @pytest.mark.parametrize("name", ["openai-community/gpt2", "google-bert/bert-base-uncased"])
    def test_all_entries_that_the_package_once_wrote(self, rng, name):
        file = small(PUBLISHED[name] if name in PUBLISHED else ENCODERS[name])
        state = state_of(file["model_type"], file, rng)
        from_state_dict(state, config=file | ALL_OF_4_38 | {"is_encoder_decoder": False})

    def test_a_size_by_two_names(self, rng):
        name = "tiiuae/falcon-7b-instruct, as first published"
        with pytest.raises(ValueError, match="does not have: 'n_layer' is 5"):
            loaded(name, rng, n_layer=5)


class TestInsideOthers:
    OUTER = {"model_type": "llava_onevision", "vision_config": {"hidden_size": 8}}  # noqa: RUF012

    def test_of_qwen(self, rng):
        inner = small(PUBLISHED["Qwen/Qwen2.5-7B-Instruct"])
        state = state_of("qwen2", inner, rng)
        params, own = from_state_dict(state, config=self.OUTER | {"text_config": inner})
        assert own == from_state_dict(state, config=inner)[1]
        assert params.head is not None

    @pytest.mark.parametrize("outside", [True, False, None])
    @pytest.mark.parametrize("inside", [True, False, None])
    def test_whether_the_head_is_tied(self, rng, inside, outside):
        """Where nothing says so, or not in one voice, the tensors do."""
        inner = small(PUBLISHED["Qwen/Qwen2.5-7B-Instruct"])
        state = state_of("qwen2", inner | {"tie_word_embeddings": False}, rng)
        options = {k: v for k, v in inner.items() if k != "tie_word_embeddings"}
        options |= {} if inside is None else {"tie_word_embeddings": inside}
        whole = self.OUTER | {"text_config": options}
        whole |= {} if outside is None else {"tie_word_embeddings": outside}
        said = {inside, outside} - {None}
        if said == {True}:
            with pytest.raises(ValueError, match="as embeddings are tied"):
                from_state_dict(state, config=whole)
        else:
            assert not from_state_dict(state, config=whole)[1].tied
        del state["lm_head.weight"]
        if said == {False}:
            with pytest.raises(ValueError, match=r"'lm_head\.weight' is missing"):
                from_state_dict(state, config=whole)
        else:
            assert from_state_dict(state, config=whole)[1].tied

    def test_entries_beside_it(self, rng):
        inner = small(PUBLISHED["Qwen/Qwen2.5-7B-Instruct"])
        for more in ({"is_causal": False}, {"rope_theta": 7.0}, {"model_type": "paligemma"}):
            with pytest.raises(ValueError, match=f"'{next(iter(more))}'"):
                from_state_dict(
                    {"a": np.ones(2)}, "qwen2", self.OUTER | {"text_config": inner} | more
                )


@pytest.fixture
def package(monkeypatch):
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("see the dependency group 'ports'")
    monkeypatch.setitem(os.environ, "HF_HUB_OFFLINE", "1")
    import transformers  # noqa: PLC0415  # slow

    return transformers


def with_slopes(model, most):
    """Give an MPT the slopes of its file, as its authors' code does; the package has the usual."""
    build = type(model.transformer).build_mpt_alibi_tensor
    model.transformer.build_mpt_alibi_tensor = lambda heads, length, device: build(
        None, heads, length, most, device
    )


def made_of(raw, package, folder):
    """Return the package's model of a file, every parameter random."""
    torch = peers.torch
    as_read = raw | OTHER_NAMES.get(raw["model_type"], {})
    (folder / "config.json").write_text(json.dumps(as_read))
    config = package.AutoConfig.from_pretrained(folder, dtype=torch.float64)
    config._attn_implementation = config._experts_implementation = "eager"
    name = raw["architectures"][0]
    model = getattr(package, CLASSES.get(name, name))(config).double().eval()
    if raw["model_type"] == "mpt":
        with_slopes(model, raw["attn_config"]["alibi_bias_max"])
    sines = {"embed_positions.weight"} if raw["model_type"] == "roformer" else set()
    named = model.named_parameters()
    random = [a for key, a in named if not any(key.endswith(end) for end in sines)]
    random += [a for key, a in model.named_buffers() if key.endswith("correction_bias")]
    with torch.no_grad():
        for array in random:
            array.add_(torch.randn_like(array), alpha=0.2)
    return model


@pytest.mark.parametrize("name", ENCODERS)
def test_the_package_reads_the_same_encoder(name, package, rng, tmp_path):
    from wide import in_float64  # noqa: PLC0415  # which imports the package

    raw, torch = small(ENCODERS[name]), peers.torch
    source, target = rng.integers(3, V, (2, T)), rng.integers(3, V, (2, 7))
    whole = raw.get("is_encoder_decoder")
    kind = raw["model_type"]
    with in_float64(PACKAGES.get(kind, kind).replace("-", "_")), torch.no_grad():
        model = made_of(raw, package, tmp_path)
        if whole:
            ids = {"input_ids": torch.tensor(source), "decoder_input_ids": torch.tensor(target)}
            want = model(**ids).logits.numpy()
        else:
            want = model.base_model(torch.tensor(source)).last_hidden_state.numpy()
    params, own = from_state_dict(model.state_dict(), config=raw)
    if whole:
        got = encoder_decoder_model(source, target, params, own)
    else:
        x = params.embedding[source] + params.positions[:T] + params.types[0]
        x = x if params.norm is None else layer_norm(x, *params.norm, eps=own["eps"])
        x = x if params.projection is None else linear(x, *params.projection)
        if "rope" in own:  # of all places, and in float32 in the package
            own |= {"rope": [np.float32(a[:T]).astype(float) for a in own["rope"]]}
        got = encoder(x, params.blocks, params.last_norm, **own)
    assert abs(got - want).max() <= 1e-12 * abs(want).max()


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_are_read_without_a_warning(name, rng):
    """Warnings are errors in these tests."""
    config = small(ENCODERS[name])
    state = state_of(config["model_type"], config, rng)
    params, _ = from_state_dict(state, config=config)
    np.testing.assert_array_equal(params.embedding, next(iter(state.values())))


@pytest.mark.parametrize("name", READ)
def test_the_package_reads_the_same_model(name, package, rng, tmp_path):
    """Logits to 1e-12 and the gradients of all parameters to 1e-10, in float64."""
    from wide import in_float64  # noqa: PLC0415  # which imports the package

    raw = small(PUBLISHED[name])
    kind = family_of(raw | OTHER_NAMES.get(raw["model_type"], {}))
    torch, ids, u = peers.torch, rng.integers(3, 20, (2, T)), rng.normal(size=(2, T, V))
    with in_float64(PACKAGES.get(kind, kind)):
        model = made_of(raw, package, tmp_path)
        logits = model(torch.tensor(ids)).logits
        logits.backward(torch.tensor(u))
    params, own = from_state_dict(model.state_dict(), config=raw)
    want = logits.detach().numpy()
    limit = 3e-12 if raw.get("hidden_act") == "gelu_fast" else 1e-12  # ten digits of a constant
    assert abs(language_model(ids, params, own) - want).max() <= limit * abs(want).max()
    grads = to_state_dict(language_model_vjp(u, ids, params, own), kind, own)
    wanted = {
        re.sub("^model.(language|text)_model.", "model.", key): p.grad.numpy()
        for key, p in model.named_parameters()
        if p.grad is not None
    }
    corrections = ("correction_bias", "expert_bias")  # of routers, which no gradient changes
    assert {key for key in grads if not key.endswith(corrections)} == wanted.keys()
    for key, want in wanted.items():
        assert abs(grads[key] - want).max() <= 1e-10 * abs(want).max() + 1e-12, key


FIRST_OF_EACH = {family_of(PUBLISHED[name]): name for name in reversed(READ)}


@pytest.mark.parametrize("name", FIRST_OF_EACH.values())
def test_tensors_by_the_names_of_published_files(name, package, tmp_path):
    """The package saves tensors by the names that the authors of a family gave them."""
    load = pytest.importorskip("safetensors.numpy").load_file
    raw = small(PUBLISHED[name])
    made_of(raw, package, tmp_path).save_pretrained(tmp_path / "saved")
    saved = load(tmp_path / "saved" / "model.safetensors")
    params, own = from_state_dict(saved, config=raw)
    assert np.isfinite(language_model([3, 4, 5], params, own)).all()


def test_every_family_that_writes_text_is_read_or_has_a_reason():
    """Of the package transformers; GPT-SW3's files say that they are GPT-2's."""
    auto = pytest.importorskip("transformers.models.auto.modeling_auto")
    known = {*FAMILIES, *AROUND, *MISSING, "gpt-sw3"}
    assert {*auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES} <= known


#: Entries of the parts that see, and of DBRX's inner dictionaries, which pass over nothing.
OF_PARTS = {
    "attn_resolutions", "base_channels", "codebook_size", "deepstack_visual_indexes", "depth",
    "double_latent", "embed_dim", "ffn_act_fn", "ffn_hidden_size", "get_text_config",
    "in_channels", "latent_channels", "max_value_projector_patch_to_query_dict", "moe_jitter_eps",
    "num_position_embeddings", "num_res_blocks", "out_channels", "out_hidden_size", "patch_size",
    "projector_patch_to_query_dict", "spatial_merge_size", "temporal_downsample_factor",
    "temporal_patch_size", "text_config",
}  # fmt: skip
FOLDERS = {"kimi_k2": "deepseek_v3", "gemma3": "gemma3"} | PACKAGES


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_entry_that_the_package_reads_is_known(kind, package):
    """An entry that is passed over as stray has no reader in the package's code of the family."""
    folder = Path(package.__file__).parent / "models" / FOLDERS.get(kind, kind).replace("-", "_")
    files = folder.glob("modeling_*text.py" if kind.endswith("-text") else "modeling_*.py")
    code = "".join(file.read_text() for file in files)
    found = re.findall(r"\bconfig\.([a-z]\w+)|\(\s*config, \"(\w+)\"", code)
    names = {a or b for a, b in found} - OF_PARTS - _entries_of_all()
    expected = re.compile(f"{IRRELEVANT.pattern}|{OF_OTHERS.pattern}|{OF_IMAGES.pattern}")
    assert {name for name in names if not expected.fullmatch(name)} == set()


def test_no_family_is_both_read_and_refused():
    assert not FAMILIES.keys() & MISSING.keys()


def test_each_family_has_two_published_files_that_are_read():
    """Gemma 3's text model has two names, of which files have the longer one."""
    counts = dict.fromkeys(FAMILIES.keys() - {"gemma3"}, 0)
    for name, file in (PUBLISHED | ENCODERS).items():
        if name not in REFUSED:
            counts[family_of(file)] += 1
    assert {kind: n for kind, n in counts.items() if n < 2} == {}

"""
Models of the package transformers, randomly initialized, against dlref: ``tox run -e ports``.

Logits agree to 1e-5 in float32, gradients in float64.
"""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import peers
import pytest

from dlref.check import first_difference, trace
from dlref.interop import from_state_dict, read_state_dict, to_interleaved, to_state_dict
from dlref.neurons import linear
from dlref.normalization import layer_norm
from dlref.positions import t5_bias, t5_bias_vjp
from dlref.transformer import (
    encoder,
    encoder_decoder_model,
    encoder_decoder_model_vjp,
    encoder_vjp,
    language_model,
    language_model_vjp,
)

os.environ["HF_HUB_OFFLINE"] = "1"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers", reason="see the dependency group 'ports'")

V, T = 23, 12
GPT2 = {"vocab_size": V, "n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": 20}
LLAMA = {
    "model_type": "llama",
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
BERT = {
    "vocab_size": V,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 20,
}
T5 = {"vocab_size": V, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_heads": 4}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 8}
YARN = {"factor": 4.0, "original_max_position_embeddings": 16}
LANGUAGE_MODELS = {
    "gpt2": ("GPT2", GPT2),
    "gpt2, exact gelu, wider, own head": (
        "GPT2",
        GPT2 | {"activation_function": "gelu", "n_inner": 20, "tie_word_embeddings": False},
    ),
    "gpt2, relu, eps": ("GPT2", GPT2 | {"activation_function": "relu", "layer_norm_epsilon": 0.1}),
    "llama": ("Llama", LLAMA),
    "llama, tied, all heads": (
        "Llama",
        LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": None},
    ),
    "llama, one key, biases, base": (
        "Llama",
        LLAMA | {"num_key_value_heads": 1, "attention_bias": True, "rope_theta": 500.0},
    ),
    "llama 3": ("Llama", LLAMA | {"rope_scaling": {"rope_type": "llama3"} | LLAMA3}),
    "llama, linear, old spelling": (
        "Llama",
        LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.0}},
    ),
    "llama, yarn": ("Llama", LLAMA | {"rope_scaling": {"rope_type": "yarn"} | YARN}),
    "llama, yarn, length beside it": (
        "Llama",
        LLAMA
        | {"rope_scaling": {"type": "yarn", "factor": 4.0}, "original_max_position_embeddings": 16},
    ),
    "llama, both spellings": (
        "Llama",
        LLAMA
        | {
            "rope_scaling": {"type": "linear", "factor": 2.0},
            "rope_parameters": {"rope_type": "default", "rope_theta": 50.0},
        },
    ),
    "llama, geglu": ("Llama", LLAMA | {"hidden_act": "gelu_pytorch_tanh"}),
    **{
        f"gpt2, {name}": ("GPT2", GPT2 | {"activation_function": name})
        for name in ("gelu_accurate", "gelu_python_tanh", "hardswish", "leaky_relu")
    },
}


def made(name, settings, dtype):
    """Return a model whose every parameter is random, in evaluation mode, and its config."""
    torch = peers.torch
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**settings)
    kind = {"Bert": "BertModel", "T5": "T5EncoderModel", "GPT2": "GPT2LMHeadModel"}
    model = getattr(transformers, kind.get(name, "LlamaForCausalLM"))(config).to(dtype).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:  # RoFormer's sines do not
                p.add_(torch.randn_like(p), alpha=0.2)
    return model, json.loads(json.dumps(config.to_dict()))


def of_class(name, kind, settings, own_head=False):
    """Return a float64 model of a class, whose every parameter is random, and its config."""
    torch = peers.torch
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**settings)
    model = getattr(transformers, name)(config).double().eval()
    if own_head:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach() + 1)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:  # RoFormer's sines do not
                p.add_(torch.randn_like(p), alpha=0.2)
    return model, json.loads(json.dumps(config.to_dict()))


def tokens(rng, shape=(3, T)):
    return rng.integers(0, V, shape)


def close(got, want, atol):
    got, want = np.asarray(got), want.detach().numpy()
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=atol * max(1, abs(want).max()))


@pytest.fixture(params=LANGUAGE_MODELS)
def case(request):
    name, settings = LANGUAGE_MODELS[request.param]
    return name, "gpt2" if name == "GPT2" else "llama", settings


class TestLanguageModels:
    def test_logits_in_float32(self, case, rng):
        name, kind, settings = case
        model, config = made(name, settings, peers.torch.float32)
        params, own = from_state_dict(model.state_dict(), kind, config)
        ids = tokens(rng)
        with peers.torch.no_grad():
            want = model(peers.torch.tensor(ids)).logits
        close(language_model(ids, params, own), want, 1e-5)

    def test_old_spelling_of_the_configuration(self, case, rng):
        name, kind, settings = case
        model, config = made(name, settings, peers.torch.float32)
        state = model.state_dict()
        if name == "GPT2":
            state = {key.removeprefix("transformer."): value for key, value in state.items()}
        new = from_state_dict(state, kind, config)[1]
        assert from_state_dict(state, kind, settings)[1] == new or "rope_scaling" in settings
        params, own = from_state_dict(state, kind, settings)
        ids = tokens(rng)
        with peers.torch.no_grad():
            want = model(peers.torch.tensor(ids)).logits
        close(language_model(ids, params, own), want, 1e-5)

    def test_gradients_in_float64(self, case, rng):
        torch = peers.torch
        name, kind, settings = case
        model, config = made(name, settings, torch.float64)
        params, own = from_state_dict(model.state_dict(), kind, config)
        ids, dout = tokens(rng, (2, 5)), rng.normal(size=(2, 5, V))
        model(torch.tensor(ids)).logits.backward(torch.tensor(dout))
        grads = to_state_dict(language_model_vjp(dout, ids, params, own), kind, own)
        wanted = {key: p.grad for key, p in model.named_parameters()}
        assert grads.keys() == wanted.keys()
        for key, want in wanted.items():  # its LLaMA rotates and normalizes in float32
            close(grads[key], want, 1e-12 if kind == "gpt2" else 1e-5)

    def test_round_trip(self, case):
        name, kind, settings = case
        model, config = made(name, settings, peers.torch.float32)
        params, own = from_state_dict(model.state_dict(), kind, config)
        again = to_state_dict(params, kind, own)
        state = dict(model.state_dict())
        if own.tied:
            del state["lm_head.weight"]
        assert again.keys() == state.keys()
        for key, tensor in state.items():
            np.testing.assert_array_equal(again[key], tensor.numpy())


def test_a_saved_checkpoint(tmp_path, rng):
    model, _ = made("Llama", LLAMA | {"tie_word_embeddings": True}, peers.torch.bfloat16)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    state = read_state_dict(tmp_path / "model.safetensors")
    params, own = from_state_dict(state, "llama", config)
    assert params.embedding.dtype.name == "bfloat16"
    assert own.tied
    again = to_state_dict(params, "llama", own)
    assert again.keys() == state.keys()
    for key, array in state.items():
        np.testing.assert_array_equal(again[key].view(np.uint16), array.view(np.uint16))


class TestSteps:
    """Intermediates of the package's LLaMA, by its hooks, beside dlref's."""

    PARTS = (
        ("input_layernorm", "norm1"),
        ("self_attn.q_proj", "attention.q"),
        ("self_attn.k_proj", "attention.k"),
        ("self_attn.v_proj", "attention.v"),
        ("self_attn.o_proj", "attention.out"),
        ("post_attention_layernorm", "norm2"),
        ("mlp.gate_proj", "feed_forward.gate"),
        ("mlp", "feed_forward.out"),
        ("", "out"),
    )

    def steps(self, model, ids):
        seen = {}

        def keep(name):
            return lambda _module, _inputs, output: seen.update({name: output})

        for i, layer in enumerate(model.model.layers):
            for part, name in self.PARTS:
                layer.get_submodule(part).register_forward_hook(keep(f"blocks.{i}.{name}"))
        with peers.torch.no_grad():
            model(peers.torch.tensor(ids))
        return seen

    def test_all_of_them_agree(self, rng):
        model, config = made("Llama", LLAMA, peers.torch.float32)
        ids = tokens(rng)
        params, own = from_state_dict(model.state_dict(), "llama", config)
        right = trace(language_model, ids, params, own)
        assert first_difference(right, self.steps(model, ids)) is None

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    @pytest.mark.parametrize("wide", [False, True])
    def test_16_bits(self, dtype, wide, rng):
        """All agree, in the dtype and after a cast; with another activation they do not."""
        model, config = made("Llama", LLAMA, getattr(peers.torch, dtype))
        ids = tokens(rng)
        params, own = from_state_dict(model.state_dict(), "llama", config)
        seen = self.steps(model, ids)
        seen = {name: a.float() if wide else a for name, a in seen.items()}
        assert first_difference(trace(language_model, ids, params, own), seen) is None
        other = from_state_dict(model.state_dict(), "llama", config | {"hidden_act": "relu"})[1]
        found = first_difference(trace(language_model, ids, params, other), seen)
        assert (found.name, found.cause) == ("blocks.0.feed_forward.out", "the activation is silu")

    def test_a_checkpoint_whose_rotation_is_in_the_wrong_layout(self, rng):
        model, config = made("Llama", LLAMA, peers.torch.float32)
        ids, E = tokens(rng), 8
        params, own = from_state_dict(model.state_dict(), "llama", config)
        right = trace(language_model, ids, params, own)
        for layer in model.model.layers:  # as Meta's own checkpoints have the rows
            for dense in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                rows = dense.weight.data.numpy().reshape(-1, E, 32).swapaxes(1, 2)
                rows = to_interleaved(rows).swapaxes(1, 2).reshape(-1, 32)
                dense.weight.data = peers.torch.tensor(rows)
        found = first_difference(right, self.steps(model, ids))
        assert found.name == "blocks.0.attention.out"
        assert found.cause == (
            "channels are rotated as halves, while the weights have pairs as neighbors"
        )


class TestBert:
    @pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_new"])
    def test_outputs(self, activation, rng):
        torch = peers.torch
        model, config = made("Bert", BERT | {"hidden_act": activation}, torch.float32)
        params, options = from_state_dict(model.state_dict(), "bert", config)
        ids, types = tokens(rng), rng.integers(0, 2, (3, T))
        x = params.embedding[ids] + params.positions[:T] + params.types[types]
        x = layer_norm(x, *params.norm, eps=options["eps"])
        h = encoder(x, params.blocks, **options)
        with torch.no_grad():
            want = model(torch.tensor(ids), token_type_ids=torch.tensor(types))
        close(h, want.last_hidden_state, 1e-5)
        close(np.tanh(linear(h[:, 0], *params.pooler)), want.pooler_output, 1e-5)

    def test_round_trip(self):
        model, config = made("Bert", BERT, peers.torch.float32)
        params, _ = from_state_dict(model.state_dict(), "bert", config)
        again, state = to_state_dict(params, "bert"), model.state_dict()
        assert again.keys() == state.keys()
        for key, tensor in state.items():
            np.testing.assert_array_equal(again[key], tensor.numpy())

    def test_of_a_masked_language_model(self):
        config = transformers.BertConfig(**BERT)
        model = transformers.BertForMaskedLM(config)
        params, _ = from_state_dict(model.state_dict(), "bert", config.to_dict())
        assert params.pooler is None
        again = to_state_dict(params, "bert", prefix="bert.")
        assert again.keys() == {key for key in model.state_dict() if key.startswith("bert.")}


class TestT5:
    @pytest.fixture(params=["relu", "gated-gelu", "gated-silu"])
    def ported(self, request):
        settings = T5 | {"feed_forward_proj": request.param}
        model, config = made("T5", settings, peers.torch.float32)
        return model, *from_state_dict(model.state_dict(), "t5", config)

    def test_outputs(self, ported, rng):
        model, params, options = ported
        ids = tokens(rng, (2, 40))  # past the buckets that hold one distance each
        bias = t5_bias(params.positions, 40, 40)
        h = encoder(params.embedding[ids], params.blocks, params.norm, bias=bias, **options)
        with peers.torch.no_grad():
            close(h, model(peers.torch.tensor(ids)).last_hidden_state, 1e-5)

    def test_gradients(self, ported, rng):
        model, params, options = ported
        ids, dout = tokens(rng, (2, 7)), rng.normal(size=(2, 7, 16)).astype(np.float32)
        model(peers.torch.tensor(ids)).last_hidden_state.backward(peers.torch.tensor(dout))
        bias = t5_bias(params.positions, 7, 7)
        dx, dblocks, dnorm, dbias = encoder_vjp(
            dout, params.embedding[ids], params.blocks, params.norm, bias=bias, **options
        )
        dtable = t5_bias_vjp(dbias, params.positions, 7, 7)
        dembedding = np.zeros_like(params.embedding)
        np.add.at(dembedding, ids, dx)
        grads = params._replace(embedding=dembedding, positions=dtable, blocks=dblocks, norm=dnorm)
        for key, grad in to_state_dict(grads, "t5").items():
            want = model.get_parameter(key).grad
            close(grad, want, 3e-5)

    def test_round_trip(self, ported):
        model, params, options = ported
        again, state = to_state_dict(params, "t5", options), dict(model.state_dict())
        del state["encoder.embed_tokens.weight"]
        assert again.keys() == state.keys()
        for key, tensor in state.items():
            np.testing.assert_array_equal(again[key], tensor.numpy())

    @pytest.mark.parametrize(
        "settings",
        [
            {"feed_forward_proj": "relu", "dense_act_fn": "gelu_new"},
            {"feed_forward_proj": "relu", "is_gated_act": True},
            {"feed_forward_proj": "gated-gelu", "dense_act_fn": "relu", "is_gated_act": True},
        ],
    )
    def test_what_goes_before_the_name_of_the_network(self, settings, rng):
        model, _ = made("T5", T5 | settings, peers.torch.float32)
        self.test_outputs((model, *from_state_dict(model.state_dict(), "t5", T5 | settings)), rng)

    def test_the_farthest_distance(self, rng):
        more = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20}
        model, config = made("T5", T5 | more, peers.torch.float32)
        with pytest.warns(UserWarning, match=r"is to be given to t5_bias as max_distance=20\.$"):
            params, options = from_state_dict(model.state_dict(), "t5", config)
        ids = tokens(rng, (2, 40))
        bias = t5_bias(params.positions, 40, 40, max_distance=20)
        h = encoder(params.embedding[ids], params.blocks, params.norm, bias=bias, **options)
        with peers.torch.no_grad():
            close(h, model(peers.torch.tensor(ids)).last_hidden_state, 1e-5)

    @pytest.mark.parametrize("name", ["QuestionAnswering", "TokenClassification"])
    def test_of_a_model_for_a_task(self, name):
        config = transformers.T5Config(**T5)
        state = getattr(transformers, f"T5For{name}")(config).state_dict()
        prefix = "" if "shared.weight" in state else "transformer."
        params, _ = from_state_dict(state, "t5", config.to_dict(), prefix=prefix)
        np.testing.assert_array_equal(params.embedding, state[f"{prefix}shared.weight"].numpy())


RELATIVES = {
    "roberta": ("Roberta", BERT | {"pad_token_id": 1}),
    "camembert": ("Camembert", BERT | {"pad_token_id": 1}),
    "xlm-roberta": ("XLMRoberta", BERT | {"pad_token_id": 1}),
    "data2vec-text": ("Data2VecText", BERT | {"pad_token_id": 1}),
    "bert-generation": ("BertGeneration", BERT),
    "megatron-bert": ("MegatronBert", BERT),
    "roformer": ("RoFormer", BERT),
    "roformer, narrow embeddings": ("RoFormer", BERT | {"embedding_size": 8}),
    "electra": ("Electra", BERT | {"embedding_size": 8}),
    "rembert": ("RemBert", BERT | {"input_embedding_size": 8, "output_embedding_size": 24}),
    "electra, as wide as the blocks": ("Electra", BERT | {"embedding_size": 16}),
    "roberta-prelayernorm": ("RobertaPreLayerNorm", BERT | {"pad_token_id": 1}),
    "xlm-roberta-xl": ("XLMRobertaXL", BERT | {"pad_token_id": 1}),
    "roberta, other padding": ("Roberta", BERT | {"pad_token_id": 3, "hidden_act": "relu"}),
    "distilbert": ("DistilBert", {"vocab_size": V, "dim": 16, "n_heads": 4, "hidden_dim": 24}),
}


@pytest.mark.parametrize("name", RELATIVES)
def test_relatives_of_bert(name, rng):
    kind, settings = RELATIVES[name]
    cls = "BertGenerationEncoder" if kind == "BertGeneration" else f"{kind}Model"
    model, config = of_class(cls, kind, settings)
    params, options = from_state_dict(model.state_dict(), None, config)
    ids = rng.integers(4, V, (3, T))  # none of them is padding
    x = params.embedding[ids] + params.positions[:T] + params.types[0]
    x = x if params.norm is None else layer_norm(x, *params.norm, eps=options["eps"])
    x = x if params.projection is None else linear(x, *params.projection)
    if kind == "RoFormer":  # whose tables are of all places, and in float32
        assert len(options["rope"][0]) == config["max_position_embeddings"]
        options = options | {"rope": [np.float32(a[:T]).astype(float) for a in options["rope"]]}
    h = encoder(x, params.blocks, params.last_norm, **options)
    with peers.torch.no_grad():
        close(h, model(peers.torch.tensor(ids)).last_hidden_state, 1e-13)
    again, state = to_state_dict(params, config["model_type"], config), model.state_dict()
    state.pop("encoder.embed_positions.weight", None)  # of sines, not of parameters
    assert again.keys() == state.keys()
    for key, tensor in state.items():
        np.testing.assert_array_equal(again[key], tensor.numpy())


WHOLE = {
    "t5": ("T5", {}),
    "t5 1.1": ("T5", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "mt5": ("MT5", {}),
    "mt5, relu": ("MT5", {"feed_forward_proj": "relu"}),
    "t5, a deep decoder": ("T5", {"num_decoder_layers": 3}),
    "mt5, a flat decoder": ("MT5", {"num_decoder_layers": 1}),
}


@pytest.mark.parametrize("own_head", [False, True])
@pytest.mark.parametrize("name", WHOLE)
def test_encoder_and_decoder(name, own_head, rng):
    """Its norms are computed in float32."""
    torch, (kind, settings) = peers.torch, WHOLE[name]
    model, config = of_class(f"{kind}ForConditionalGeneration", kind, T5 | settings, own_head)
    params, own = from_state_dict(model.state_dict(), None, config)
    source, target = tokens(rng, (2, 40)), tokens(rng, (2, 7))
    dout = rng.normal(size=(2, 7, V))
    want = model(input_ids=torch.tensor(source), decoder_input_ids=torch.tensor(target)).logits
    want.backward(torch.tensor(dout))
    close(encoder_decoder_model(source, target, params, own), want, 3e-6)
    grads = to_state_dict(
        encoder_decoder_model_vjp(dout, source, target, params, own), config["model_type"], own
    )
    wanted = dict(model.named_parameters())
    assert grads.keys() == wanted.keys()
    for key, p in wanted.items():
        close(grads[key], p.grad, 3e-5)
    for key, array in to_state_dict(params, config["model_type"], own).items():
        np.testing.assert_array_equal(array, model.state_dict()[key].numpy())


def test_the_recipe_of_the_gallery_for_maps_of_a_model(tmp_path, monkeypatch):
    """The lines in plot_words.py, for a tokenizer and a model that are made here."""
    from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: PLC0415  # comes with the peer

    words = {"<unk>": 0, "the": 1, "cat": 2, "sat": 3}
    core = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    config = transformers.GPT2Config(**GPT2)
    names = {
        "np": np,
        "text": "the cat sat",
        "model": transformers.GPT2LMHeadModel(config).eval(),
        "tokenizer": transformers.PreTrainedTokenizerFast(tokenizer_object=core),
    }
    page = (Path(__file__).parents[2] / "gallery/transformer/plot_words.py").read_text("utf-8")
    recipe = page.partition("returns weights)::\n#\n")[2].partition("#\n# From such")[0]
    monkeypatch.chdir(tmp_path)
    exec(recipe.replace("#    ", ""), names)

    state = {name: a.numpy() for name, a in names["model"].state_dict().items()}
    params, ours = from_state_dict(state, "gpt2", config.to_dict())
    steps = trace(language_model, [1, 2, 3], params, ours)
    with np.load("maps.npz") as kept:
        assert kept["words"].tolist() == ["the", "cat", "sat"]
        for i in range(2):
            want = steps[f"blocks.{i}.attention.weights"]
            np.testing.assert_allclose(kept[f"arr_{i}"], want, atol=1e-6)

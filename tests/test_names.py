"""
What things are called elsewhere; errors that say it.

tests/written.py writes the table of the page *Names in other libraries* with `write`.
"""

import csv
import importlib
from pathlib import Path

import pytest

import dlref
from dlref._core.names import _note, called, suggestion

RESULTS = Path(__file__).parents[1] / "docs" / "results"
HEADS = {
    "names": ["Here", "PyTorch", "JAX", "Other names"],
    "names_nearly": ["Elsewhere", "Here", "Difference"],
}
LIBRARIES = ("torch", "jax")


def same():
    """Yield map, PyTorch's name, JAX's name and other names; none of what differs."""
    for here, every in sorted(called().items()):
        names = [name for name in every if not _note(name.rpartition(".")[2], here)]
        cells = [f":obj:`dlref.{here}`"]
        for library in LIBRARIES:
            own = [f"``{n}``" for n in names if n.partition(".")[0] == library and "." in n]
            cells.append(", ".join(own))
        cells.append(", ".join(n for n in names if "." not in n))
        if names:
            yield cells


def nearly():
    """Yield the names of what differs by one thing, the map, and the difference."""
    found = {}
    for here, every in called().items():
        for name in every:
            if note := _note(name.rpartition(".")[2], here):
                found.setdefault((here, note), []).append(f"``{name}``" if "." in name else name)
    for (here, note), names in sorted(found.items()):
        yield [", ".join(names), f":obj:`~dlref.{here}`", note.replace("`", "``")]


def tables():
    return {"names": list(same()), "names_nearly": list(nearly())}


def write():
    for name, rows in tables().items():
        with (RESULTS / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADS[name], *rows])


def test_names_are_read_as_they_are_written():
    chapters = [path.stem for path in Path(dlref.__file__).parent.glob("_records/[!_]*.py")]
    for chapter in [*chapters, "_check"]:
        names = getattr(importlib.import_module(f"dlref._records.{chapter}"), "NAMES", {})
        for name, others in names.items():
            here = f"{chapter.removeprefix('_')}.{name}"
            assert called()[here] == [other.partition(": ")[0] for other in others], here


@pytest.mark.parametrize("name", HEADS)
def test_the_page_has_the_table(name):
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [HEADS[name], *tables()[name]], "tox run -e written"


@pytest.mark.parametrize("here", called())
def test_every_map_is_here(here):
    chapter, name = here.split(".")
    assert callable(getattr(getattr(dlref, chapter), name))


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_name_of_a_library_is_there(library):
    pytest.importorskip(library)
    for name in (n for names in called().values() for n in names if n.startswith(f"{library}.")):
        parts, found = name.split("."), None
        for k in range(len(parts) - 1, 0, -1):  # the longest path that is a module
            try:
                found = importlib.import_module(".".join(parts[:k]))
            except ImportError:
                continue
            break
        for part in parts[k:]:
            found = getattr(found, part)  # an AttributeError names what is not there


@pytest.mark.parametrize(
    ("chapter", "name", "found"),
    [
        ("", "softmax", "dlref.activations.softmax"),
        ("", "CrossEntropyLoss", "dlref.losses.cross_entropy"),
        ("activations", "swish", "dlref.activations.silu"),
        ("activations", "swish_vjp", "dlref.activations.silu_vjp"),
        ("activations", "sotfmax", "dlref.activations.softmax"),
        ("attention", "sdpa", "dlref.attention.scaled_dot_product_attention"),
        ("attention", "layer_norm", "dlref.normalization.layer_norm"),
        ("losses", "mse_vjp", "dlref.losses.squared_error_vjp"),
        ("recurrent", "LSTMCell", "dlref.recurrent.lstm_cell"),
        ("check", "gradcheck", "dlref.check.check_gradients"),
        ("attention", "KVCache_vjp", "dlref.attention.KVCache"),
        # in no table: found by the words of signatures and docstrings
        ("losses", "grpo_loss", "dlref.losses.policy_loss"),
        ("losses", "ppo_loss", "dlref.losses.policy_loss"),
        ("losses", "contrastive_loss", "dlref.losses.info_nce"),
        ("losses", "label_smoothed_nll_loss", "dlref.losses.cross_entropy"),
        ("attention", "mla", "dlref.attention.latent_attention"),
        ("attention", "merge_state", "dlref.attention.merge_attention"),
        ("attention", "flash_attn_func", "dlref.attention.scaled_dot_product_attention"),
        ("positions", "mrope", "dlref.positions.rope_tables_multi"),
        ("convolution", "causal_conv1d_fn", "dlref.convolution.causal_conv"),
        ("quantization", "mxfp4", "dlref.quantization.quantize_blocks"),
        ("neurons", "lora", "dlref.neurons.lora_linear"),
        ("training", "lion", "dlref.training.lion_step"),
        ("training", "get_cosine_schedule_with_warmup", "dlref.training.cosine_schedule"),
        ("recurrent", "selective_scan_fn_vjp", "dlref.recurrent.selective_scan_vjp"),
        # NumPy has the map, dlref its derivatives
        ("calculus", "log", "dlref.calculus.log_vjp"),
        ("calculus", "absolute", "dlref.calculus.absolute_vjp"),
        ("calculus", "minimum", "dlref.calculus.minimum_vjp"),
        ("calculus", "prod", "dlref.calculus.prod_vjp"),
        ("", "einsum", "dlref.calculus.einsum_vjp"),
        # names of losses, optimizers and mechanisms of 2024 to 2026
        ("losses", "dpo", "dlref.losses.dpo_loss"),
        ("losses", "ipo", "dlref.losses.dpo_loss"),
        ("losses", "kto", "dlref.losses.kto_loss"),
        ("losses", "gspo", "dlref.losses.policy_loss"),
        ("losses", "supcon", "dlref.losses.info_nce"),
        ("losses", "generalized_jsd", "dlref.losses.distillation_loss"),
        ("losses", "svm_loss", "dlref.losses.multi_margin_loss"),
        ("transformer", "min_p", "dlref.transformer.next_token_probabilities"),
        ("transformer", "compressed_keys", "dlref.attention.latent_attention"),
        ("attention", "gated_attention", "dlref.attention.multi_head_attention"),
        ("attention", "indexer", "dlref.attention.indexer_scores"),
        ("attention", "rwkv7", "dlref.attention.recurrent_linear_attention"),
        ("attention", "gated_deltanet", "dlref.attention.recurrent_linear_attention"),
        ("recurrent", "mamba", "dlref.recurrent.selective_scan"),
        ("neurons", "DropPath", "dlref.neurons.dropout"),
        ("normalization", "LayerScale", "dlref.calculus.multiply_vjp"),
        ("training", "qk_clip", "dlref.training.muon_step"),
        ("training", "get_wsd_schedule", "dlref.training.wsd_schedule"),
    ],
)
def test_a_wrong_name_is_told_the_right_one(chapter, name, found):
    module = getattr(dlref, chapter) if chapter else dlref
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'. It may be '{found}'"):
        getattr(module, name)


def test_a_name_of_another_convention_says_so():
    with pytest.raises(
        AttributeError, match=r"l2_norm'. But for one difference: it divides by the"
    ):
        dlref.normalization.normalize  # noqa: B018


@pytest.mark.parametrize(
    ("chapter", "name", "said"),
    [
        ("transformer", "mtp", "losses.cross_entropy'. But .* it is a sum of such losses"),
        ("transformer", "hyper_connections", "normalization.sinkhorn'. But .* it mixes streams"),
        ("attention", "kv_sharing", "scaled_dot_product_attention'. But .* of an earlier layer"),
        ("attention", "cu_seqlens", "attention.document_mask'. But .* the boundaries"),
        ("normalization", "RMSNormGated", "normalization.rms_norm'. But .* of a gate"),
        ("neurons", "dora", "neurons.lora_linear'. But .* a trained length"),
        ("training", "signsgd", r"training.lion_step'. But .* betas=\(0, 0\)"),
        ("transformer", "nope", 'LanguageModelConfig\'. But .* option positions="none"'),
    ],
)
def test_a_name_of_a_composition_says_what_else_there_is(chapter, name, said):
    with pytest.raises(AttributeError, match=said):
        getattr(getattr(dlref, chapter), name)


def test_a_name_in_as_many_words_of_two_chapters_is_of_the_one_that_was_asked():
    for chapter in ("attention", "recurrent"):
        assert suggestion("segment_ids", chapter).startswith(f"dlref.{chapter}.")


def test_a_name_of_nothing_gets_no_suggestion():
    assert suggestion("zzzz") == ""
    with pytest.raises(AttributeError, match=r"has no attribute 'zzzz'\.$"):
        dlref.zzzz  # noqa: B018
    with pytest.raises(AttributeError, match=r"'_private'\.$"):
        dlref.attention._private  # noqa: B018


def test_help_has_an_example_and_every_chapter():
    for chapter in dlref.__all__:
        if not hasattr(getattr(dlref, chapter), "__path__"):
            continue
        assert f"\n{chapter}\n" in dlref.__doc__
    assert ">>> softmax_vjp(" in dlref.__doc__

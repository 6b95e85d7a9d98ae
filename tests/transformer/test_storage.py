"""Files: everything comes back, and nothing else is believed."""

import io
import json
import zipfile
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
import trees

from dlref.transformer import (
    LanguageModelConfig,
    init_encoder_decoder_model,
    init_language_model,
    init_sequence_classifier,
    load_params,
    save_params,
)

CONFIG = LanguageModelConfig(11, 12, 3, rope_scaling={"rope_type": "linear", "factor": 2.0})


def check_same(one, two):
    assert type(one) is type(two)
    if isinstance(one, tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            check_same(a, b)
    elif one is not None:
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "init",
    [
        init_language_model,
        init_encoder_decoder_model,
        lambda rng, config, **options: init_sequence_classifier(rng, config, 4, **options),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_all_comes_back(rng, tmp_path, init, dtype):
    config = LanguageModelConfig(11, 12, 3, activation="swiglu", norm="rms", tied=False)
    params = init(rng, config, dtype=dtype)
    save_params(tmp_path / "model", params, config)
    again, same = load_params(str(tmp_path / "model"))
    check_same(params, again)
    assert same == config
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_configuration_is_optional_and_complete(rng, tmp_path):
    params = init_language_model(rng, CONFIG)
    save_params(tmp_path / "a.npz", params)
    assert load_params(tmp_path / "a.npz")[1] is None
    save_params(tmp_path / "a.npz", params, CONFIG)
    assert load_params(tmp_path / "a.npz")[1] == CONFIG


def test_other_trees(tmp_path):
    tree = (np.arange(3), None, (np.float32(2.0), ()))
    save_params(tmp_path / "t.npz", tree)
    again, _ = load_params(tmp_path / "t.npz")
    assert trees.leaves(again)[0].tolist() == [0, 1, 2]
    assert again[1] is None
    assert again[2][1] == ()


def test_other_programs_can_read_it(rng, tmp_path):
    params = init_language_model(rng, CONFIG)
    save_params(tmp_path / "m.npz", params)
    with np.load(tmp_path / "m.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(
            file["params.blocks.1.feed_forward.w2"], params.blocks[1].feed_forward.w2
        )


class TestRefused:
    class Stranger(NamedTuple):
        x: object

    @pytest.mark.parametrize(
        ("tree", "message"),
        [
            (
                (Stranger(np.ones(2)),),
                "'params.0' must be a tuple or one of AttentionParams, .* not",
            ),
            ((np.ones(2, complex),), "'params.0' must be integer, float16, .* not complex128"),
            ((np.array([{}]),), "'params.0' must be integer, .* not object"),
            ((np.ones(2, ml_dtypes.bfloat16),), "'params.0' must be integer, .* not bfloat16"),
        ],
    )
    def test_to_be_saved(self, tmp_path, tree, message):
        with pytest.raises(TypeError, match=message):
            save_params(tmp_path / "m.npz", tree)
        assert not list(tmp_path.iterdir())

    def test_configuration(self, tmp_path):
        with pytest.raises(TypeError, match=r"'config' must be a LanguageModelConfig"):
            save_params(tmp_path / "m.npz", (), {"width": 3})

    def manifest(self, tmp_path, **change):
        text = {"format": "dlref", "version": 1, "params": None, "config": None, **change}
        np.savez(tmp_path / "m.npz", manifest=np.array(json.dumps(text)))
        return tmp_path / "m.npz"

    def test_newer_version(self, tmp_path):
        with pytest.raises(ValueError, match=r"'path' must be a file of version 1 or older, not 9"):
            load_params(self.manifest(tmp_path, version=9))

    @pytest.mark.parametrize(
        "change",
        [
            {"format": "other"},
            {"params": "missing"},
            {"params": {"kind": "os.system", "entries": []}},
            {"params": {"entries": []}},
            {"params": {"kind": "NormParams", "entries": [None] * 9}},
            {"params": 3},
        ],
    )
    def test_damaged(self, tmp_path, change):
        with pytest.raises(ValueError, match=r"'path' must be a file written by save_params"):
            load_params(self.manifest(tmp_path, **change))

    def test_what_is_no_archive(self, tmp_path):
        for content in (b"", b"text", b"\x80\x04pickle"):
            (tmp_path / "m.npz").write_bytes(content)
            with pytest.raises(ValueError, match=r"'path' must be a file written by save_params"):
                load_params(tmp_path / "m.npz")

    def test_code_does_not_run(self, tmp_path):
        buffer = io.BytesIO()
        np.save(buffer, np.array([print], object), allow_pickle=True)
        with zipfile.ZipFile(tmp_path / "m.npz", "w") as file:
            file.writestr("manifest.npy", buffer.getvalue())
        with pytest.raises(ValueError, match=r"'path' must be a file written by save_params"):
            load_params(tmp_path / "m.npz")

    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            load_params(tmp_path / "m.npz")

"""Files of tensors from strangers: each is read right, or refused with a ValueError."""

import contextlib
import errno
import io
import json
import struct
import sys
import time
import zipfile

import numpy as np
import pytest

from dlref.interop import _safetensors, from_state_dict, read_state_dict

STATE = {"a.weight": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2], np.int32)}


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def archive(path, members, kind=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", kind) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path, save):
    save(tmp_path / "s.npz", **STATE)
    found = read_state_dict(tmp_path / "s.npz")
    assert list(found) == list(STATE)
    for name, array in STATE.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}"


def with_header(text, data=b""):
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("a.npy", npy(np.ones(2))), ("a.npy", npy(np.ones(2)))], "there once, not twice"),
        ([("a.npy", with_header(HEADER.format("<f8", "(1250000000,)")))], "must have shape"),
        ([("a.npy", with_header(HEADER.format("|V0", "(1000000000000,)")))], "the header"),
        ([("a.npy", with_header(HEADER.format("<U0", "(1000000000000,)")))], "must have shape"),
        ([("a.npy", with_header("{'descr': (", b""))], "the header"),
        ([("a.npy", with_header(HEADER.format("|O", "(1,)"), b"\x80\x04N."))], "the header"),
        ([("a.txt", b"text")], "a plain npy file"),
        ([("a.npy", b"")], "the header"),
    ],
)
def test_hostile_members_are_refused(tmp_path, members, words):
    with (
        pytest.warns(UserWarning, match="Duplicate")
        if "once" in words
        else contextlib.nullcontext()
    ):
        path = archive(tmp_path / "s.npz", members)
    with pytest.raises(ValueError, match=rf"^Argument 'path' must be a file of tensors.*{words}"):
        read_state_dict(path)


def test_a_bomb_is_refused_before_it_takes_memory(tmp_path):
    """Two gigabytes of zeros in two megabytes."""
    path = archive(tmp_path / "s.npz", [("a.npy", npy(np.zeros(2**27)))], zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**22
    with pytest.raises(ValueError, match="members of at most"):
        read_state_dict(path)


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_are_refused(tmp_path, kind):
    path = archive(tmp_path / "s.npz", [("a.npy", npy(np.ones(3)))], kind)
    with pytest.raises(ValueError, match="a plain npy file"):
        read_state_dict(path)


def damaged(rng, whole, low, high):
    """Return a file that is cut off, lacks a part, or has up to three other bytes in a range."""
    data = bytearray(whole)
    match rng.integers(3):
        case 0:
            data = data[: rng.integers(len(data))]
        case 1:
            for place in rng.integers(len(data), size=rng.integers(1, 4)):
                data[place] = rng.integers(low, high)
        case 2:
            start, stop = sorted(rng.integers(len(data), size=2))
            del data[start:stop]
    return data


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_files_are_right_or_refused(tmp_path, save, rng):
    save(tmp_path / "s.npz", **STATE)
    whole = (tmp_path / "s.npz").read_bytes()
    for _ in range(1000):
        (tmp_path / "d.npz").write_bytes(damaged(rng, whole, 0, 256))
        try:
            found = read_state_dict(tmp_path / "d.npz")
        except ValueError as error:
            assert str(error).startswith("Argument 'path' must be a file of tensors")  # noqa: PT017
            continue
        for name, array in found.items():  # a name may be damaged, a number is not
            assert any(np.array_equal(array, wanted) for wanted in STATE.values()), name


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_a_folder_is_named(tmp_path, ending):
    (tmp_path / f"f.{ending}").mkdir()
    with pytest.raises(OSError, match=r"f\."):
        read_state_dict(tmp_path / f"f.{ending}")


def safetensors_of(header, data=b""):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(header).to_bytes(8, "little") + header + data


def entry(dtype="F32", shape=(2,), places=(0, 8)):
    return {"dtype": dtype, "shape": [*shape], "data_offsets": [*places]}


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        (b"[" * 100_000, 0, ""),  # nested until Python gives up
        (b"[]", 0, "its header is not a dictionary"),
        (b"{", 0, "Expecting property name"),
        (b"\xff", 0, "utf-8"),
        (b'{"a": 1, "a": 2}', 0, "a name occurs twice in its header"),
        ({"a": 1}, 0, "'a' has no dtype, shape and data_offsets"),
        ({"a": entry(shape=()) | {"shape": "2"}}, 8, "'a' has no dtype, shape and data_offsets"),
        ({"a": entry("F31")}, 8, "'a' has the unknown dtype 'F31'"),
        ({"a": entry()}, 7, "its tensors end at byte 7[0-9] of 7[0-9]"),
        ({"a": entry()}, 9, "its tensors end at byte 7[0-9] of 7[0-9]"),
        ({"a": entry(shape=(3,))}, 8, r"'a' has the shape \[3\] and 8 bytes"),
        # shapes that NumPy does not take, in its words
        ({"a": entry(shape=(-2,), places=(8, 0))}, 8, ""),
        ({"a": entry(shape=[2.0])}, 8, ""),
        ({"a": entry(shape=[None])}, 8, ""),
        ({"a": entry(shape=[0, 2**62, 9], places=(0, 0))}, 0, ""),
        ({"a": entry(shape=[2**70], places=(0, 0))}, 0, ""),
        ({"a": entry(shape=[1] * 65, places=(0, 4))}, 4, ""),
        ({"a": entry(places=(4, 12))}, 12, "'a' does not begin where the tensor before it ends"),
        ({"a": entry(), "b": entry()}, 8, "'b' does not begin where the tensor before it ends"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, header, data, words):
    path = tmp_path / "s.safetensors"
    path.write_bytes(safetensors_of(header, bytes(data)))
    with pytest.raises(ValueError, match=rf"^Argument 'path' must be a file of tensors.*{words}"):
        read_state_dict(path)


@pytest.mark.parametrize("data", [b"", b"1234567", b"nothing of the kind", b"\xff" * 8 + b"{}"])
def test_what_has_no_header_is_refused(tmp_path, data):
    (tmp_path / "s.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=r"^Argument 'path' must be a file of tensors"):
        read_state_dict(tmp_path / "s.safetensors")


def test_safetensors_without_the_package(tmp_path):
    """Tensors in another order than their bytes, an empty one, and words that are no tensor."""
    header = {
        "__metadata__": {"format": "pt"},
        "b": entry("I16", (2, 2), (8, 16)),
        "a": entry("F32", (2,), (0, 8)),
        "none": entry("F64", (0, 3), (8, 8)),
        "one": entry("BOOL", (), (16, 17)),
    }
    data = np.float32([1, 2]).tobytes() + np.int16([3, 4, 5, 6]).tobytes() + b"\x01"
    (tmp_path / "s.safetensors").write_bytes(safetensors_of(header, data))
    found = read_state_dict(tmp_path / "s.safetensors")
    want = {
        "b": np.int16([[3, 4], [5, 6]]), "a": np.float32([1, 2]), "none": np.zeros((0, 3)),
        "one": np.array(True),
    }  # fmt: skip
    assert [*found] == [*want]
    for name, array in want.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
        assert found[name].flags.writeable


@pytest.mark.parametrize("kind", [*_safetensors.DTYPES])
def test_what_the_package_writes_is_read(tmp_path, kind):
    """Every dtype with the same bits; those of eight bits NumPy writes for the package."""
    package = pytest.importorskip("safetensors.numpy")
    pytest.importorskip("ml_dtypes")
    array = np.frombuffer(bytes(range(48)), np.uint8).view(np.dtype(_safetensors.DTYPES[kind]))
    array = array != 0 if kind == "BOOL" else array.reshape(2, -1)
    package.save_file({"x": array, "y": array[:1].copy()}, tmp_path / "s.safetensors")
    found = read_state_dict(tmp_path / "s.safetensors")
    assert found["x"].dtype == array.dtype
    assert found["x"].tobytes() == array.tobytes()
    assert found["y"].tobytes() == array[:1].tobytes()


def test_dtypes_that_numpy_does_not_have(tmp_path, monkeypatch):
    """As without the package ml_dtypes."""
    monkeypatch.setitem(_safetensors.DTYPES, "BF16", "not_here")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors_of({"a": entry("BF16", (2,), (0, 4))}, b"abcd"))
    with pytest.raises(ValueError, match=r"tensors, not .*: NumPy has no dtype not_here\.$"):
        read_state_dict(path)


def test_damaged_safetensors_are_right_or_refused(tmp_path, rng):
    header = {"a": entry(), "b": entry("F64", (2, 3), (8, 56))}
    whole = safetensors_of(header, bytes(range(56)))
    for _ in range(2000):
        data = damaged(rng, whole, 32, 127)
        (tmp_path / "d.safetensors").write_bytes(data)
        try:
            found = read_state_dict(tmp_path / "d.safetensors")
        except ValueError as error:
            assert str(error).startswith("Argument 'path' must be a file of tensors")  # noqa: PT017
            continue
        assert sum(array.nbytes for array in found.values()) <= len(data)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("gpt2", "n_layer"), ("llama", "num_hidden_layers"), ("t5", "num_layers")],
)
def test_a_configuration_of_twenty_bytes_takes_no_memory(kind, name):
    with pytest.raises(
        ValueError, match=rf"'config.{name}' must be at most 1024 for a state of 1 "
    ):
        from_state_dict({"a": np.ones(2)}, kind, {name: 100_000_000})


@pytest.mark.broad  # a coverage run takes several times as long
@pytest.mark.parametrize(
    ("kind", "config", "name"),
    [
        ("gpt2", {}, "x{}.weight"),
        ("gpt2", {"n_layer": 5_000}, "transformer.h.{}.wrong"),
        ("gpt2", {}, "transformer.h.{}.ln_1.weights"),
        ("llama", {"model_type": "llama", "num_hidden_layers": 5_000}, "model.layers.{}.wrong"),
        ("t5", {}, "encoder.block.{}.wrong"),
        ("bert", {}, "encoder.layer.{}.wrong"),
        ("TransformerEncoder", None, "layers.{}.wrong"),
        ("TransformerDecoder", None, "layers.{}.norm1.weights"),
        ("TransformerEncoder", None, "model.{}.layers.0.norm1.weight"),
        ("LSTM", None, "weight_ih_l{}"),
        ("GRU", None, "weight_hh_l{}_reverse"),
        ("Linear", None, "x.{}.weight"),
    ],
)
def test_refusals_are_linear_in_the_names(kind, config, name):
    """20,000 names of another model took minutes, and names of layers 20 seconds."""
    state = {name.format(i): np.ones(1) for i in range(20_000)}
    start = time.process_time()
    with pytest.raises(ValueError, match=f"must hold the tensors of {kind}"):
        from_state_dict(state, kind, config)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps' must be from 0 to 1e"),
        ({"rope_theta": float("inf")}, "rope_theta' must be at most 1e"),
        ({"rope_scaling": {"factor": 8.0}}, "has 'factor', and must have a rope_type"),
    ],
)
def test_entries_that_would_change_a_number_in_silence(entry, words):
    with pytest.raises(ValueError, match=words):
        from_state_dict(
            {"a": np.ones(2)}, config={"model_type": "llama", "num_hidden_layers": 1, **entry}
        )


def test_a_member_that_is_shorter_than_it_says_is_refused(tmp_path):
    """Its checksum is right, and its header fits the size that the archive's directory claims."""
    data = with_header(HEADER.format("<f8", "(3,)"), np.ones(2).tobytes())
    path = archive(tmp_path / "s.npz", [("a.npy", data)], zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", len(data) + 8)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"must have \d+ bytes, not fewer"):
        read_state_dict(path)


def test_a_directory_before_the_beginning_is_refused(tmp_path):
    path = archive(tmp_path / "s.npz", [("a.npy", npy(np.ones(2)))])
    content = bytearray(path.read_bytes())
    end = content.rindex(b"PK\x05\x06")
    content[end + 12 : end + 16] = struct.pack("<I", 2**31)  # the size of the directory
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^Argument 'path' must be a file of tensors"):
        read_state_dict(path)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_state_dict(tmp_path / "s.npz")


def test_a_seek_before_the_beginning_is_refused(tmp_path, monkeypatch):
    """As zipfile of some versions of Python makes it of a damaged directory."""
    np.savez(tmp_path / "s.npz", **STATE)

    def fail(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(zipfile, "ZipFile", fail)
    with pytest.raises(ValueError, match=r"must be a file of tensors.*Invalid argument"):
        read_state_dict(tmp_path / "s.npz")

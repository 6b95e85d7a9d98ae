"""Files of tensors from strangers: each is read right, or refused with a ValueError."""

import contextlib
import errno
import io
import struct
import time
import zipfile

import numpy as np
import pytest

from dlref.interop import from_state_dict, read_state_dict

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


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_files_are_right_or_refused(tmp_path, save, rng):
    save(tmp_path / "s.npz", **STATE)
    whole = (tmp_path / "s.npz").read_bytes()
    for _ in range(1000):
        data = bytearray(whole)
        match rng.integers(3):
            case 0:
                data = data[: rng.integers(len(data))]
            case 1:
                for place in rng.integers(len(data), size=rng.integers(1, 4)):
                    data[place] = rng.integers(256)
            case 2:
                start, stop = sorted(rng.integers(len(data), size=2))
                del data[start:stop]
        (tmp_path / "d.npz").write_bytes(data)
        try:
            found = read_state_dict(tmp_path / "d.npz")
        except ValueError as error:
            assert str(error).startswith("Argument 'path' must be a file of tensors")  # noqa: PT017
            continue
        for name, array in found.items():  # a name may be damaged, a number is not
            assert any(np.array_equal(array, wanted) for wanted in STATE.values()), name


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_a_folder_is_named(tmp_path, ending):
    if ending == "safetensors":
        pytest.importorskip("safetensors")
    (tmp_path / f"f.{ending}").mkdir()
    with pytest.raises(OSError, match=r"f\."):
        read_state_dict(tmp_path / f"f.{ending}")


@pytest.mark.parametrize("shape", ["[0,4611686018427387904,9]", "[-1]", "[1e3]"])
def test_shapes_that_overflow_are_refused(tmp_path, shape):
    pytest.importorskip("safetensors")
    header = f'{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,0]}}}}'.encode()
    (tmp_path / "s.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ValueError, match=r"^Argument 'path' must be a file of tensors"):
        read_state_dict(tmp_path / "s.safetensors")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("gpt2", "n_layer"), ("llama", "num_hidden_layers"), ("t5", "num_layers")],
)
def test_a_configuration_of_twenty_bytes_takes_no_memory(kind, name):
    with pytest.raises(
        ValueError, match=rf"'config.{name}' must be at most 1024 for a state of 1 "
    ):
        from_state_dict({"a": np.ones(2)}, kind, {name: 100_000_000})


def test_refusals_are_linear_in_the_names():
    """20,000 names of another model took minutes."""
    state = {f"x{i}.weight": np.ones(1) for i in range(20_000)}
    start = time.process_time()
    with pytest.raises(ValueError, match="must hold the tensors of gpt2"):
        from_state_dict(state, "gpt2", {})
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps' must be from 0 to 1e"),
        ({"rope_theta": float("inf")}, "rope_theta' must be at most 1e"),
        ({"rope_scaling": {"factor": 8.0}}, "has a factor, and must have a rope_type"),
    ],
)
def test_entries_that_would_change_a_number_in_silence(entry, words):
    with pytest.raises(ValueError, match=words):
        from_state_dict({"a": np.ones(2)}, "llama", {"num_hidden_layers": 1, **entry})


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

"""Files: everything comes back, and nothing else is believed."""

import errno
import io
import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import fuzz_storage
import ml_dtypes
import numpy as np
import pytest
import trees

from dlref.transformer import (
    LanguageModelConfig,
    _storage,
    init_encoder_decoder_model,
    init_language_model,
    init_sequence_classifier,
    load_params,
    save_params,
)

CONFIG = LanguageModelConfig(11, 12, 3, rope_scaling={"rope_type": "linear", "factor": 2.0})


TINY = {"vocab_size": 4, "d_model": 4, "num_heads": 2}


def npy_of(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


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


def test_equal_models_are_equal_files(rng, tmp_path):
    params = init_language_model(rng, CONFIG)
    for name in "ab":
        save_params(tmp_path / name, params, CONFIG)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_files_without_checksums_are_read(rng, tmp_path):
    params = init_language_model(rng, CONFIG)
    save_params(tmp_path / "m", params, CONFIG)
    with np.load(tmp_path / "m") as file:
        members = dict(file)
    manifest = json.loads(str(members.pop("manifest")))
    assert manifest.pop("crc").keys() == members.keys()
    np.savez(tmp_path / "old.npz", manifest=np.array(json.dumps(manifest)), **members)
    again, same = load_params(tmp_path / "old.npz")
    check_same(params, again)
    assert same == CONFIG


def test_configurations_may_hold_numpy_numbers(rng, tmp_path):
    scaling = {"rope_type": "linear", "factor": np.float32(2), "short": np.arange(2)}
    config = LanguageModelConfig(4, 4, 2, rope_scaling=scaling)
    save_params(tmp_path / "m", init_language_model(rng, config), config)
    kept = load_params(tmp_path / "m")[1].rope_scaling
    assert kept == {"rope_type": "linear", "factor": 2.0, "short": [0, 1]}


class TestReplacing:
    """A file is replaced whole or not at all, and stays where and what it was."""

    def test_the_mode_is_kept(self, tmp_path):
        old = os.umask(0o027)
        try:
            save_params(tmp_path / "m", ())
            assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640
            for mode in (0o600, 0o666):
                (tmp_path / "m").chmod(mode)
                save_params(tmp_path / "m", ())
                assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == mode
        finally:
            os.umask(old)

    def test_a_private_file_is_private_while_it_is_written(self, tmp_path, monkeypatch):
        (tmp_path / "m").touch(0o600)
        modes = []
        real = os.fsync
        monkeypatch.setattr(
            os, "fsync", lambda f: (modes.append(stat.S_IMODE(os.fstat(f).st_mode)), real(f))
        )
        save_params(tmp_path / "m", ())
        assert modes[0] == 0o600

    def test_links_are_followed(self, tmp_path):
        (tmp_path / "there").mkdir()
        link = tmp_path / "link"
        link.symlink_to("there/m")
        for tree in ((), (np.ones(2),)):  # there is no file yet, then one
            save_params(link, tree)
            assert link.is_symlink()
            check_same(load_params(tmp_path / "there" / "m")[0], tree)
        assert [path.name for path in (tmp_path / "there").iterdir()] == ["m"]

    def test_links_in_a_circle(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        for f in (load_params, lambda path: save_params(path, ())):
            with pytest.raises(OSError, match="symbolic"):
                f(tmp_path / "a")

    def test_neighbours_are_left_alone(self, tmp_path):
        (tmp_path / "m.part").write_text("mine")
        (tmp_path / "m.npz.part").symlink_to("m.part")
        save_params(tmp_path / "m", ())
        save_params(tmp_path / "m.npz", ())
        assert (tmp_path / "m.part").read_text() == "mine"
        assert (tmp_path / "m.npz.part").is_symlink()

    def test_names_as_long_as_they_can_be(self, tmp_path):
        save_params(tmp_path / ("m" * 255), ())

    def test_file_and_folder_reach_the_disk(self, tmp_path, monkeypatch):
        events = []
        replace, fsync = Path.replace, os.fsync

        def seen_fsync(handle):
            events.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
            fsync(handle)

        def seen_replace(path, target):
            events.append("rename")
            return replace(path, target)

        monkeypatch.setattr(os, "fsync", seen_fsync)
        monkeypatch.setattr(Path, "replace", seen_replace)
        save_params(tmp_path / "m", (np.ones(3),))
        assert events == ["file", "rename", "folder"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
    @pytest.mark.parametrize(
        ("owner", "name"),
        [(np.lib.format, "write_array"), (os, "fsync"), (Path, "chmod"), (Path, "replace")],
    )
    def test_interrupted_it_leaves_the_old_file(self, tmp_path, monkeypatch, owner, name, error):
        tree = (np.ones(3), np.zeros(2))
        save_params(tmp_path / "m", tree)
        real, calls = getattr(owner, name), []

        def interrupted(*args, **options):
            calls.append(1)
            if name != "write_array" or len(calls) == 2:
                raise error
            return real(*args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupted)
            with pytest.raises((KeyboardInterrupt, OSError)):
                save_params(tmp_path / "m", (np.ones(1),))
        check_same(load_params(tmp_path / "m")[0], tree)
        assert [path.name for path in tmp_path.iterdir()] == ["m"]

    @pytest.mark.parametrize("name", ["", "\0", ".", "pipe", "folder"])
    def test_what_cannot_be_a_file(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        os.mkfifo("pipe")
        (tmp_path / "folder").mkdir()
        for f in (load_params, lambda path: save_params(path, ())):
            with pytest.raises((TypeError, ValueError), match=r"^Argument 'path' must be the name"):
                f(name)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]

    @pytest.mark.parametrize("path", [3, None, b"m", ["m"]])
    def test_what_is_not_a_path(self, tmp_path, monkeypatch, path):
        monkeypatch.chdir(tmp_path)
        for f in (load_params, lambda path: save_params(path, ())):
            with pytest.raises(
                TypeError, match=r"^Argument 'path' must be the name of a file, not"
            ):
                f(path)


RIVALS = """
import multiprocessing, sys, time
import numpy as np
from dlref.transformer import load_params, save_params

def save(path, k, end):
    while time.monotonic() < end:
        save_params(path, (np.full(20_000, k), np.array(k)))
        done.value += 1

def load(path, end):
    while time.monotonic() < end:
        many, one = load_params(path)[0]
        assert np.all(many == one)
        done.value += 1

context = multiprocessing.get_context("fork")
path, end = sys.argv[1], time.monotonic() + 2
counts = [context.Value("q") for _ in range(5)]
save_params(path, (np.full(20_000, 9), np.array(9)))
rivals = []
for k, done in enumerate(counts):  # each process sees its own
    work = (save, (path, k, end)) if k < 3 else (load, (path, end))
    rivals.append(context.Process(target=work[0], args=work[1]))
    rivals[-1].start()
for rival in rivals:
    rival.join()
print([r.exitcode for r in rivals], min(count.value for count in counts))
"""


def test_several_processes_save_and_read_at_once(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", RIVALS, str(tmp_path / "m")],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout.startswith("[0, 0, 0, 0, 0] "), run.stderr
    assert int(run.stdout.split()[-1]) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_damaged_files_are_refused():
    results = list(fuzz_storage.run(seed=1, count=400, chunk=400))
    assert not [result for result in results if result[2].startswith("fault")]
    assert {what for _, _, what in results} <= {"refused", "the same", "forged"}
    assert sum(what == "refused" for _, _, what in results) > 300


def test_many_tuples_in_a_row_are_not_deep(tmp_path):
    params = tuple((np.full(1, i),) for i in range(200))
    save_params(tmp_path / "m", params)
    found, config = load_params(tmp_path / "m")
    assert config is None
    check_same(found, params)


def test_a_manifest_as_long_as_the_limit_is_read(tmp_path, monkeypatch):
    params = (np.ones(2), np.zeros(2))
    save_params(tmp_path / "m", params)
    members = fuzz_storage.members_of((tmp_path / "m").read_bytes())
    length = len(str(np.load(io.BytesIO(members["manifest.npy"]))))
    monkeypatch.setattr(_storage, "MANIFEST_LIMIT", length)
    save_params(tmp_path / "m", params)
    check_same(load_params(tmp_path / "m")[0], params)
    monkeypatch.setattr(_storage, "MANIFEST_LIMIT", length - 1)
    with pytest.raises(ValueError, match="must"):
        save_params(tmp_path / "m", params)


class TestRefused:
    class Stranger(NamedTuple):
        x: object

    def refused(self, path, words):
        with pytest.raises(ValueError, match=words):
            load_params(path)

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

    def test_models_that_do_not_fit_their_configuration(self, rng, tmp_path):
        params = init_language_model(rng, CONFIG)
        wrong = params._replace(embedding=np.ones((3, 12)))
        with pytest.raises(
            ValueError, match=r"^Argument 'params.embedding' must have shape \(11, 12"
        ):
            save_params(tmp_path / "m", wrong, CONFIG)
        with pytest.raises(
            TypeError, match=r"^Argument 'params.embedding' must be an array, not None"
        ):
            save_params(tmp_path / "m", params._replace(embedding=None), CONFIG)
        save_params(tmp_path / "m", wrong)
        members = fuzz_storage.members_of((tmp_path / "m").read_bytes())
        save_params(tmp_path / "m", params, CONFIG)
        members = fuzz_storage.members_of((tmp_path / "m").read_bytes()) | {
            "params.embedding.npy": members["params.embedding.npy"]
        }
        manifest = json.loads(str(np.load(io.BytesIO(members["manifest.npy"]))))
        del manifest["crc"]
        members["manifest.npy"] = npy_of(np.array(json.dumps(manifest)))
        (tmp_path / "m").write_bytes(fuzz_storage.archive_of(members.items()))
        self.refused(tmp_path / "m", r"not 'm': 'params.embedding' must have shape \(11, 12")

    @pytest.mark.parametrize(
        ("scaling", "words"),
        [
            ({"factor": np.nan}, "finite numbers"),
            ({"factor": object()}, "finite numbers"),
            ({"factor": 1j}, "finite numbers"),
        ],
    )
    def test_configurations_that_json_cannot_hold(self, tmp_path, scaling, words):
        with pytest.raises(ValueError, match=rf"^Argument 'config' must hold {words}"):
            save_params(tmp_path / "m", (), LanguageModelConfig(4, 4, 2, rope_scaling=scaling))
        assert not list(tmp_path.iterdir())

    def test_trees_that_could_not_be_read_again(self, tmp_path):
        deep = ()
        for _ in range(70):
            deep = (deep,)
        with pytest.raises(ValueError, match=r"^Argument .* must be nested at most 64 deep"):
            save_params(tmp_path / "m", deep)

    @pytest.mark.parametrize("params", [(), np.zeros(3), (np.zeros(3),), None])
    def test_a_configuration_without_a_model(self, tmp_path, params):
        with pytest.raises(TypeError, match=r"'params' must be one of .* where there is a config"):
            save_params(tmp_path / "m.npz", params, CONFIG)
        assert not list(tmp_path.iterdir())

    def test_brackets_that_would_end_the_process(self, tmp_path):
        """With a recursion limit of a million, json would overflow the stack of C."""
        text = np.array('{"format": ' + "[" * 200_000 + "]" * 200_000 + "}")
        np.savez(tmp_path / "m.npz", manifest=text)
        before = sys.getrecursionlimit()
        try:
            sys.setrecursionlimit(10**6)
            self.refused(tmp_path / "m.npz", "'manifest' must be nested at most 256 deep")
        finally:
            sys.setrecursionlimit(before)

    def test_configuration(self, tmp_path):
        with pytest.raises(TypeError, match=r"'config' must be a LanguageModelConfig"):
            save_params(tmp_path / "m.npz", (), {"d_model": 3})

    def manifest(self, tmp_path, **change):
        text = {"format": "dlref", "version": 1, "params": None, "config": None, **change}
        np.savez(tmp_path / "m.npz", manifest=np.array(json.dumps(text)))
        return tmp_path / "m.npz"

    def test_newer_version(self, tmp_path):
        path = self.manifest(tmp_path, version=9)
        self.refused(path, "'path' must be a file of version 1 or older, not 9")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"format": "other"}, "'manifest.format' must be 'dlref', not 'other'"),
            ({"params": "missing"}, "'params' must be 'params', not 'missing'"),
            ({"params": "params"}, "'archive' must have the array 'params'"),
            ({"params": {"kind": "os.system", "entries": []}}, "'params.kind' must be 'tuple', "),
            ({"params": {"kind": ["tuple"], "entries": []}}, "'params.kind' must be 'tuple', "),
            ({"params": {"kind": "tuple", "entries": 3}}, "'params.entries' must be a list, not 3"),
            ({"params": {"entries": []}}, "'params' must have 'kind', not only"),
            (
                {"params": {"kind": "NormParams", "entries": [None] * 9}},
                "'params.entries' must be the 2 of a NormParams, not 9",
            ),
            ({"params": 3}, "'params' must be a dictionary, not 3"),
            ({"version": -1}, "'manifest.version' must be at least 1, not -1"),
            ({"version": "1"}, "'manifest.version' must be an integer, not '1'"),
            ({"crc": {"params": 3}}, "'manifest.crc' must be the checksums"),
            ({"more": 3}, "'manifest' must have only .*, not 'more'"),
            ({"config": 3}, "'config' must be a dictionary, not 3"),
            (
                {"config": {"d_model": 3, "num_heads": 3}},
                "'config' must have 'vocab_size', not only",
            ),
            ({"config": {**TINY, "wings": 2}}, "'config' must have only .*, not 'wings'"),
            ({"config": {**TINY, "num_heads": 3}}, "'num_heads' must divide d_model = 4, not 3"),
            ({"config": {**TINY, "norm": {}}}, "'norm' must be 'layer' or 'rms', not {}"),
            ({"config": {**TINY, "eps": np.nan}}, "'manifest' must hold finite numbers, not NaN"),
            ({"config": {**TINY, "eps": np.inf}}, "'manifest' must hold finite numbers, not Inf"),
            ({"config": {**TINY, "d_model": 1e-400}}, "'d_model' must be an integer, not 0.0"),
        ],
    )
    def test_damaged(self, tmp_path, change, words):
        start = "^Argument 'path' must be a file written by save_params, not 'm.npz': "
        self.refused(self.manifest(tmp_path, **change), start + f".*{words}")

    @pytest.mark.parametrize(
        "array",
        [
            np.array("text"),
            np.array(["2026-01-01"], "M8[s]"),
            np.zeros(2, [("a", float)]),
            np.zeros(2, complex),
            np.zeros(2, np.longdouble),
            np.zeros(2, "V3"),
        ],
        ids=str,
    )
    def test_arrays_of_other_things_than_numbers(self, tmp_path, array):
        manifest = {"format": "dlref", "version": 1, "params": "params", "config": None}
        np.savez(tmp_path / "m.npz", manifest=np.array(json.dumps(manifest)), params=array)
        words = "not 'm.npz': 'params' must (be integer|have the head)"
        self.refused(tmp_path / "m.npz", words)

    def test_an_array_that_the_parameters_do_not_name(self, tmp_path):
        """Where there are no checksums, which the first files did not have."""
        manifest = {"format": "dlref", "version": 1, "params": None, "config": None}
        np.savez(tmp_path / "m.npz", manifest=np.array(json.dumps(manifest)), stray=np.ones(2))
        self.refused(tmp_path / "m.npz", r"'archive' must have no other arrays, not \['stray'\]")

    def test_a_seek_before_the_beginning_is_refused(self, tmp_path, monkeypatch):
        """As zipfile of some versions of Python makes it of a damaged directory."""
        path = self.manifest(tmp_path)

        def fail(*_, **__):
            raise OSError(errno.EINVAL, "Invalid argument")

        monkeypatch.setattr(zipfile, "ZipFile", fail)
        self.refused(path, "'archive' must be intact, which it is not .*Invalid argument")

    @pytest.mark.parametrize("header", fuzz_storage.HEADERS)
    def test_headers_that_numpy_does_not_write(self, tmp_path, header):
        manifest = {"format": "dlref", "version": 1, "params": "params", "config": None}
        members = {
            "manifest.npy": npy_of(np.array(json.dumps(manifest))),
            "params.npy": fuzz_storage.npy(header, bytes(8)),
        }
        (tmp_path / "m").write_bytes(fuzz_storage.archive_of(members.items()))
        self.refused(tmp_path / "m", "^Argument 'path' must be .*, not 'm': 'params' must")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda m: fuzz_storage.archive_of(m, flags=1), "'params.0.npy' must be a plain npy"),
            (
                lambda m: fuzz_storage.archive_of(m, attributes=stat.S_IFLNK << 16),
                "'params.0.npy' must be a plain npy file",
            ),
            (
                lambda m: fuzz_storage.archive_of(m, method=zipfile.ZIP_DEFLATED),
                "'params.0.npy' must be a plain npy file",
            ),
            (lambda m: fuzz_storage.archive_of([*m, m[0]]), "'params.0' must be there once"),
            (lambda m: fuzz_storage.archive_of([*m, ("x", b"")]), "'x' must be a plain npy file"),
            (lambda m: fuzz_storage.archive_of([*m, ("x.npy", m[0][1])]), "'manifest.crc' must be"),
            (lambda m: fuzz_storage.archive_of(m[:-1]), "'archive' must have the member manifest"),
            (
                lambda m: fuzz_storage.archive_of([(m[1][0], m[0][1]), (m[0][0], m[1][1]), m[2]]),
                "'manifest.crc' must be the checksums of the arrays",
            ),
        ],
        ids=["encrypted", "link", "compressed", "twice", "other", "more", "none", "exchanged"],
    )
    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_members(self, tmp_path, change, words):
        save_params(tmp_path / "m", (np.ones(2), np.zeros(2)))
        members = list(fuzz_storage.members_of((tmp_path / "m").read_bytes()).items())
        (tmp_path / "m").write_bytes(change(members))
        self.refused(tmp_path / "m", rf"^Argument 'path' must be .*, not 'm': {words}")

    def test_members_that_share_their_bytes(self, tmp_path):
        save_params(tmp_path / "m", (np.ones(9999), np.ones(9999)))
        data = bytearray((tmp_path / "m").read_bytes())
        with zipfile.ZipFile(tmp_path / "m") as archive:
            first, last, _ = archive.infolist()
        size = last.file_size + last.header_offset - first.header_offset  # over both
        at = data.index(b"PK\1\2")
        data[at + 20 : at + 28] = 2 * size.to_bytes(4, "little")
        (tmp_path / "m").write_bytes(data)
        self.refused(tmp_path / "m", r"'archive' must have members of at most \d+ bytes")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[" * 10**5, "'manifest' must be nested at most 256 deep"),
            ("3", "'manifest' must be a dictionary, not 3"),
            ("", "'archive' must be intact"),
            ("1" * 5000, "'archive' must be intact"),
            (np.ones(3), "'manifest' must be a string, not float64 of shape"),
            (np.array(["a", "b"]), "'manifest' must be a string, not <U1 of shape"),
        ],
        ids=["deep", "number", "empty", "digits", "array", "strings"],
    )
    def test_manifests(self, tmp_path, text, words):
        np.savez(
            tmp_path / "m.npz", manifest=text if isinstance(text, np.ndarray) else np.array(text)
        )
        self.refused(tmp_path / "m.npz", rf"not 'm.npz': {words}")

    def test_what_is_no_archive(self, tmp_path):
        for content in (b"", b"text", b"\x80\x04pickle"):
            (tmp_path / "m.npz").write_bytes(content)
            self.refused(tmp_path / "m.npz", "'path' must be a file written by save_params")

    def test_code_does_not_run(self, tmp_path):
        buffer = io.BytesIO()
        np.save(buffer, np.array([print], object), allow_pickle=True)
        with zipfile.ZipFile(tmp_path / "m.npz", "w") as file:
            file.writestr("manifest.npy", buffer.getvalue())
        self.refused(tmp_path / "m.npz", "'path' must be a file written by save_params")

    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            load_params(tmp_path / "m.npz")


def test_manifests_are_bounded(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    save_params(path, (np.ones(2),))
    monkeypatch.setattr(_storage, "MANIFEST_LIMIT", -(2**14))
    with pytest.raises(ValueError, match="'manifest' must have at most"):
        load_params(path)
    with pytest.raises(ValueError, match="'params' must have at most"):
        save_params(path, (np.ones(2),))

"""Tests of dlref._core.cache: files of compiled code."""

import errno
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dlref._core import cache

KEY = "1.0-0123456789abcdef"
posix_only = pytest.mark.skipif(os.name != "posix", reason="users and modes of POSIX")


@pytest.fixture
def root(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def folder(root):
    return cache.folder_of(KEY)


class TestUserFolder:
    @pytest.mark.parametrize(
        ("platform", "environment", "folder"),
        [
            ("linux", {"XDG_CACHE_HOME": "/x"}, "/x"),
            ("linux", {"XDG_CACHE_HOME": "x"}, "/home/me/.cache"),
            ("linux", {"XDG_CACHE_HOME": ""}, "/home/me/.cache"),
            ("linux", {}, "/home/me/.cache"),
            ("linux", {"HOME": ""}, None),
            ("linux", {"HOME": "/"}, None),
            ("linux", {"HOME": "me"}, None),
            ("darwin", {}, "/home/me/Library/Caches"),
            ("win32", {"LOCALAPPDATA": "/local"}, "/local"),
            ("win32", {}, "/home/me/AppData/Local"),
            ("linux", {"NUMBA_CACHE_DIR": "/n", "XDG_CACHE_HOME": "/x"}, "/n"),
            ("linux", {"NUMBA_CACHE_DIR": ""}, "/home/me/.cache"),
            ("linux", {"NUMBA_CACHE_DIR": "n"}, "/home/me/.cache"),
        ],
    )
    @posix_only
    def test_is_where_the_platform_keeps_caches(self, monkeypatch, platform, environment, folder):
        for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"HOME": "/home/me", **environment}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "platform", platform)
        assert cache.user_folder() == (folder and Path(folder))

    def test_of_a_user_without_a_home(self, monkeypatch):
        def home():
            raise RuntimeError

        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", home)
        assert cache.user_folder() is None
        assert cache.folder_of(KEY) is None


def read_only(*_, **__):
    raise OSError(errno.EROFS, "Read-only file system")


class TestFolder:
    @posix_only
    def test_is_made_for_the_user_alone(self, root):
        before = os.umask(0)
        try:
            folder = cache.folder_of(KEY)
        finally:
            os.umask(before)
        assert folder == root / "dlref" / KEY
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    @posix_only
    @pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
    def test_that_others_can_write_is_not_used(self, root, folder, mode):
        folder.chmod(mode)
        assert cache.folder_of(KEY) is None
        folder.chmod(0o755)
        assert cache.folder_of(KEY) == folder

    @posix_only
    def test_of_another_user_is_not_used(self, root, folder, monkeypatch):
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert cache.folder_of(KEY) is None

    @pytest.mark.parametrize("way", ["", "dlref", f"dlref/{KEY}"])
    def test_with_a_file_in_its_way_is_none(self, tmp_path, monkeypatch, way):
        path = tmp_path / "root" / way
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "root"))
        assert cache.folder_of(KEY) is None

    @posix_only
    def test_behind_a_link_is_not_used(self, root, folder):
        shutil.move(root / "dlref", root / "elsewhere")
        (root / "dlref").symlink_to(root / "elsewhere")
        assert cache.folder_of(KEY) is None

    @posix_only
    @pytest.mark.parametrize(("mode", "is_used"), [(0o777, False), (0o1777, True), (0o755, True)])
    def test_in_a_folder_that_all_can_write_to(self, root, folder, mode, is_used):
        """Another user might put a folder of that name in its place, unless it is sticky."""
        root.chmod(mode)
        assert cache.folder_of(KEY) == (folder if is_used else None)

    @posix_only
    def test_a_link_to_a_file_is_not_read(self, folder, tmp_path):
        cache.write(folder, "name", b"data")
        path = cache._path(folder, "name")
        path.rename(tmp_path / "copy")
        path.symlink_to(tmp_path / "copy")
        assert cache.read(folder, "name") is None

    def test_that_cannot_be_changed_is_read(self, root, folder, monkeypatch):
        monkeypatch.setattr(os, "utime", read_only)
        assert cache.folder_of(KEY) == folder

    def test_old_ones_are_removed_when_a_new_one_is_made(self, root):
        names = {
            "0.9-0000000000000000": 31,
            "0.9-1111111111111111": 29,
            "0.9-4444444444444444": 31,
            "0.9-2222222222222222": 31,
            "0.9-3333333333333333": 31,
        }
        now = time.time()
        for name, days in names.items():
            path = root / "dlref" / name
            path.mkdir(parents=True)
            (path / "file").write_text("")
            if name != "0.9-4444444444444444":  # which is another program's
                (path / cache.MARKER).touch()
            os.utime(path, (now - days * 86400,) * 2)
        (root / "dlref" / "0.9-2222222222222222").chmod(0o777)  # not to be trusted
        used = cache.folder_of("0.9-3333333333333333")
        cache.folder_of(KEY)
        left = {path.name for path in used.parent.iterdir()}
        assert left == {*names, KEY} - {"0.9-0000000000000000"}

    def test_files_of_killed_processes_are_removed(self, folder):
        for name, age in {"tmp-old": 4000, "tmp-new": 10, "other": 4000}.items():
            (folder / name).touch()
            os.utime(folder / name, (time.time() - age,) * 2)
        cache.write(folder, "a", b"1")
        assert {"tmp-new", "other"} <= {path.name for path in folder.glob("[!.]*")}
        assert not (folder / "tmp-old").exists()

    @posix_only
    def test_a_pipe_does_not_hang(self, folder):
        os.mkfifo(cache._path(folder, "a"))
        assert cache.read(folder, "a") is None

    def test_a_file_of_gigabytes_is_not_read(self, folder):
        with cache._path(folder, "a").open("wb") as file:
            file.truncate(6 * 2**30)  # of no blocks
        assert cache.read(folder, "a") is None

    def test_links_to_old_ones_stay(self, root, tmp_path):
        target = tmp_path / "elsewhere"
        target.mkdir()
        (target / "file").write_text("")
        (root / "dlref").mkdir()
        link = root / "dlref" / "0.9-0000000000000000"
        link.symlink_to(target)
        os.utime(link, (0, 0), follow_symlinks=False)
        cache.folder_of(KEY)
        assert (target / "file").exists()


class TestFiles:
    def file(self, folder):
        [path] = folder.glob("[!.]*")
        return path

    def test_hold_what_was_written_last(self, folder):
        cache.write(folder, "a", b"1")
        cache.write(folder, "b", b"2")
        cache.write(folder, "a", b"3")
        assert (cache.read(folder, "a"), cache.read(folder, "b")) == (b"3", b"2")
        assert cache.read(folder, "c") is None
        assert all(re.fullmatch("[0-9a-f]{32}", path.name) for path in folder.glob("[!.]*"))

    def test_without_a_folder_there_is_nothing(self):
        cache.write(None, "a", b"1")
        assert cache.read(None, "a") is None

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[: len(data) // 2],
            lambda data: data[:-1],
            lambda data: data + b"\0",
            lambda data: bytes(len(data)),
            lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
            lambda data: b"nonsense" * 100,
        ],
    )
    def test_that_are_damaged_are_replaced(self, folder, damage):
        cache.write(folder, "a", b"0123456789" * 10)
        path = self.file(folder)
        path.write_bytes(damage(path.read_bytes()))
        assert cache.read(folder, "a") is None
        cache.write(folder, "a", b"1")
        assert cache.read(folder, "a") == b"1"

    def test_of_another_name_are_not_read(self, folder):
        cache.write(folder, "a", b"1")
        path = self.file(folder)
        cache.write(folder, "b", b"2")
        [other] = set(folder.glob("[!.]*")) - {path}
        shutil.copy(path, other)
        assert cache.read(folder, "b") is None

    @posix_only
    def test_of_other_users_are_not_read(self, folder, monkeypatch):
        cache.write(folder, "a", b"1")
        self.file(folder).chmod(0o622)
        assert cache.read(folder, "a") is None
        self.file(folder).chmod(0o600)
        assert cache.read(folder, "a") == b"1"
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert cache.read(folder, "a") is None

    def test_in_the_place_of_a_folder_are_not_written(self, folder):
        cache.write(folder, "a", b"1")
        path = self.file(folder)
        path.unlink()
        path.mkdir()
        (path / "x").write_text("")
        cache.write(folder, "a", b"1")
        assert cache.read(folder, "a") is None
        assert self.file(folder) == path

    def test_in_a_folder_that_was_removed(self, folder):
        shutil.rmtree(folder)
        assert cache.read(folder, "a") is None
        cache.write(folder, "a", b"1")
        assert cache.read(folder, "a") == b"1"

    def test_in_a_folder_that_became_a_file(self, folder):
        shutil.rmtree(folder)
        folder.write_text("")
        cache.write(folder, "a", b"1")
        assert cache.read(folder, "a") is None

    @posix_only
    def test_on_a_full_disk_are_not_written(self, folder):
        import resource  # noqa: PLC0415

        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        cache.write(folder, "a", b"1")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            cache.write(folder, "a", bytes(10_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert cache.read(folder, "a") == b"1"
        self.file(folder)  # nothing else is left there

    def test_on_a_disk_that_became_read_only_are_not_written(self, folder, monkeypatch):
        monkeypatch.setattr(tempfile, "mkstemp", read_only)
        cache.write(folder, "a", b"1")
        assert cache.read(folder, "a") is None

    def test_are_written_at_once(self, folder, monkeypatch):
        """Whoever reads meanwhile, or is interrupted, has the old one."""
        cache.write(folder, "a", b"1")
        seen = []

        def replace(*_):
            seen.append(cache.read(folder, "a"))
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            cache.write(folder, "a", b"2")
        assert seen == [b"1"]
        self.file(folder)

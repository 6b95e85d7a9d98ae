"""
Archives of arrays (``.npz``) from anywhere: every size is checked before memory is taken for it.

Nothing is unpickled and no header is evaluated, so that a file from a stranger can be wrong, but
not harmful.
"""

from __future__ import annotations

import math
import re
import stat
import struct
import zipfile
import zlib
from typing import IO, Any, NamedTuple

import numpy as np

CHUNK = 2**20  # bytes read at a time
EXPANSION, ROOM = 64, 2**24  # compressed members may take so many times the file, and so much more
NUMBERS = re.compile(r"[<>|](b1|[iu][1248]|f[248])")
HEADER = re.compile(  # of an npy file, as numpy.lib.format writes it
    rb"{'descr': '([<>|](?:b1|[iu][1248]|f[248]|U\d{1,8}))', 'fortran_order': (True|False), "
    rb"'shape': \(((?:\d{1,18}, ?){0,64}(?:\d{1,18})?)\), } *\n"
)
UNREADABLE = (  # errors of zipfile, zlib, json, and of the checks
    EOFError,
    MemoryError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class Header(NamedTuple):
    """The header in front of the numbers of an array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Any

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def members_of(
    archive: zipfile.ZipFile, size: int, *, compressed: bool = False
) -> dict[str, zipfile.ZipInfo]:
    """
    Return the members by name, each an npy file.

    Together they are no larger than the archive of `size` bytes, or, if they may be `compressed`,
    than a multiple of that.
    """
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        plain = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
        stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        allowed = stored or (compressed and info.compress_type == zipfile.ZIP_DEFLATED)
        if name == info.filename or not plain or not allowed or info.flag_bits & 1:
            msg = f"Argument {info.filename!r:.80} must be a plain npy file."
            raise ValueError(msg)
        if name in members:
            msg = f"Argument {name!r:.80} must be there once, not twice."
            raise ValueError(msg)
        members[name] = info
    most = EXPANSION * size + ROOM if compressed else size
    if sum(info.file_size for info in members.values()) > most:
        msg = f"Argument 'archive' must have members of at most {most} bytes together, not more."
        raise ValueError(msg)
    return members


def _header(name: str, member: IO[bytes], size: int) -> Header:
    """Read the header of an array that fills a member of `size` bytes."""
    start = member.read(10)
    length = int.from_bytes(start[8:], "little")
    match = HEADER.fullmatch(member.read(length)) if start[:8] == b"\x93NUMPY\x01\x00" else None
    if match is None:
        msg = f"Argument {name!r} must have the header of an array, not {start!r}."
        raise ValueError(msg)
    dtype = np.dtype(match[1].decode())
    shape = tuple(int(n) for n in match[3].split(b",") if n.strip())
    header = Header(dtype, shape, "F" if match[2] == b"True" else "C")
    room = size - 10 - length
    if header.size * dtype.itemsize != room or (dtype.itemsize == 0 and header.size > 1):
        msg = f"Argument {name!r} must have shape {shape} in {room} bytes of {dtype}."
        raise ValueError(msg)
    return header


def read_array(name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    """Read an array. The last byte read, zipfile checks the CRC of all."""
    with archive.open(info) as member:
        header = _header(name, member, info.file_size)
        flat = np.empty(header.size, header.dtype)
        view = flat.view(np.uint8).data
        while view:
            part = member.read(min(CHUNK, len(view)))
            if not part:
                msg = f"Argument {name!r} must have {info.file_size} bytes, not fewer."
                raise EOFError(msg)
            view[: len(part)] = part
            view = view[len(part) :]
    return flat.reshape(header.shape, order=header.order)


def placeholder(name: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    """Return an array that has the shape and dtype of a member, and no memory."""
    with archive.open(info) as member:
        header = _header(name, member, info.file_size)
    if not NUMBERS.fullmatch(header.dtype.str):
        msg = f"Argument {name!r} must be integer, float16, float32 or float64, not {header.dtype}."
        raise ValueError(msg)
    return np.broadcast_to(np.zeros((), header.dtype), header.shape)

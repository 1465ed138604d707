"""Demand in NPZ, as `numpy.savez` and `savez_compressed` write it: no pickles, and no more bytes than are allowed.

| array | is |
|---|---|
| `layer3` | senders x receivers of layer 3, micro-batch 0 |
| `layer3_microbatch1` | of layer 3, micro-batch 1 |
| `demand`, alone | layers x micro-batches x senders x receivers |
"""

import io
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hwd.mfabric.demand import checked
from hwd.model.demand import AMOUNT_MAX, MATRICES_MAX, NUMBER_MAX, UNPACKED_BYTES_MAX
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError

WHOLE: Final = "demand"
METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENTRY: Final = b"PK\x01\x02"
"""Begins each entry of a ZIP directory."""
HEADER_MAX: Final = 4096
"""Characters of the header of an array."""

_NAME: Final = re.compile(r"layer(0|[1-9][0-9]{0,3})(?:_microbatch(0|[1-9][0-9]{0,3}))?")
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    SyntaxError,  # numpy evaluates the literal that a header is
    EOFError,
    OSError,
    RuntimeError,  # encrypted, or unsupported
    ArithmeticError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
    Warning,
)
"""What zipfile and numpy raise for bytes that are no NPZ."""


def is_npz(data: bytes) -> bool:
    """Whether the data begins as a ZIP file does."""
    return data.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def read_npz(data: bytes) -> Iterator[tuple[tuple[int, int], NDArray[np.float64]]]:
    """The matrices, each with its layer and micro-batch; one at a time is in memory as floats.

    Raises ConfigError with the array, the row and the column of what cannot be read. Sizes are checked before anything
    is unpacked.
    """
    try:
        if data.count(ENTRY) > MATRICES_MAX + 1:
            raise ConfigError(f"NPZ: has over the {MATRICES_MAX} arrays of one demand")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name, entry in _entries(archive).items():
                yield from _matrices(name, _array(archive, name, entry))
    except _UNREADABLE as error:
        raise ConfigError(f"NPZ: cannot be read: {error}; is the file whole, and written by numpy.savez?") from error


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by the name of the array."""
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        if name != WHOLE and (not _NAME.fullmatch(name) or name == entry.filename):
            raise ConfigError(
                f"NPZ: {entry.filename[:80]!r} is no array of a demand; they are layer0, layer1, layer0_microbatch1, "
                f"..., or one {WHOLE}"
            )
        if name in found:
            raise ConfigError(f"NPZ: {name} is there twice")
        if entry.flag_bits & 1 or entry.compress_type not in METHODS:
            raise ConfigError(f"NPZ: {name} is encrypted, or packed in another way than numpy.savez_compressed does")
        found[name] = entry
    if not found or (WHOLE in found and len(found) > 1):
        raise ConfigError(
            f"NPZ: has {plural(len(found), 'array')}; a demand has arrays layer0, layer1, ..., or {WHOLE} alone"
        )
    if (size := sum(entry.file_size for entry in found.values())) > UNPACKED_BYTES_MAX:
        raise ConfigError(f"NPZ: unpacks to {size} bytes, over the {UNPACKED_BYTES_MAX} of one demand; add it in parts")
    return found


def _array(archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> NDArray[np.generic]:
    with archive.open(entry) as packed:
        data = packed.read(entry.file_size)  # a size that is too small ends in a wrong checksum, not in more bytes
    buffer = io.BytesIO(data)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(npy.read_magic(buffer))
    if read_header is None:
        raise ConfigError(f"NPZ, {name}: is of a version that numbers do not need; write it with numpy.savez")
    shape, in_columns, kind = read_header(buffer, max_header_size=HEADER_MAX)
    if kind.kind not in "fiu" or kind.itemsize > 8:
        raise ConfigError(f"NPZ, {name}: is of type {kind}; bytes are whole numbers or floats of at most 64 bits")
    if any(size < 0 for size in shape) or math.prod(shape) * kind.itemsize != len(data) - buffer.tell():
        raise ConfigError(f"NPZ, {name}: has {len(data) - buffer.tell()} bytes, and its header says {shape} of {kind}")
    flat = np.frombuffer(data, dtype=kind, offset=buffer.tell())
    return flat.reshape(shape, order="F" if in_columns else "C")


def _matrices(name: str, array: NDArray[np.generic]) -> Iterator[tuple[tuple[int, int], NDArray[np.float64]]]:
    if (one := _NAME.fullmatch(name)) is not None:
        key = int(one[1]), int(one[2] or 0)
        if max(key) > NUMBER_MAX:
            raise ConfigError(f"NPZ, {name}: layers and micro-batches are numbered from 0 to {NUMBER_MAX}")
        yield key, _bytes(array, f"NPZ, {name}")
        return
    if array.ndim != 4:
        raise ConfigError(
            f"NPZ, {name}: has {plural(array.ndim, 'dimension')}, and needs 4: layers, micro-batches, "
            "senders, receivers"
        )
    if max(array.shape[:2]) > NUMBER_MAX + 1 or array.shape[0] * array.shape[1] > MATRICES_MAX:
        raise ConfigError(
            f"NPZ, {name}: has {array.shape[0]} layers and {array.shape[1]} micro-batches; at most {NUMBER_MAX + 1} "
            f"each, and {MATRICES_MAX} matrices"
        )
    for layer, batches in enumerate(array):
        for microbatch, matrix in enumerate(batches):
            yield (layer, microbatch), _bytes(matrix, f"NPZ, {name}, layer {layer}, micro-batch {microbatch}")


def _bytes(matrix: NDArray[np.generic], what: str) -> NDArray[np.float64]:
    found = checked(matrix, what)
    if found.max(initial=0.0) > AMOUNT_MAX:
        row, column = np.argwhere(found > AMOUNT_MAX)[0]
        raise ConfigError(f"{what}: [{row}][{column}] is {found[row, column]:g}, over {AMOUNT_MAX:g} bytes")
    return found

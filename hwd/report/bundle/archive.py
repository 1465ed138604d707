"""Reads a bundle that anybody may have made: bounded, in memory only; no name in it is ever a file's name."""

import contextlib
import hashlib
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec

from hwd.model.plural import plural
from hwd.report.bundle.manifest import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    MEMBERS_MAX,
    RECORD,
    RECORD_BYTES_MAX,
    Manifest,
    Member,
    bytes_max,
)
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.printable import printable
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain
from hwd_drivers.core.user_file import open_user_file

FILE_BYTES_MAX = 2 * 1024**3
TOTAL_BYTES_MAX = 2 * RECORD_BYTES_MAX
DIRECTORY_BYTES_MAX = 2 * 1024**2
"""The most bytes of the list of members at the end of the file, which is read at once."""
TIMES_SMALLER_MAX = 250
"""What is packed tighter was made to fill a memory. Our records shrink to a tenth, our figures to a twentieth."""
SMALL_BYTES = 1024**2
"""A member up to here may be packed as tightly as it likes."""
LINE_BYTES_MAX = 64 * 1024**2
"""A document of the record."""
VALUES_MAX = 4_000_000
"""The most values of a JSON member: each takes some hundred bytes of memory."""
DEPTH_MAX = 64
"""The greatest depth of a JSON member; a figure has a dozen levels."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?")
_NAME_LENGTH_MAX = 200
_END = b"PK\x05\x06"
_END_BYTES = 22
_END_64 = b"PK\x06\x07"
_END_64_BYTES = 20
_HEADER_BYTES = 30
_ENCRYPTED = 0x1
_REMEDY = "`hwd export RUN --as bundle` makes bundles"


@dataclass(slots=True, kw_only=True)
class Archive:
    """An open bundle whose list of members is that of its manifest. `changed`: members that were read whole and are not
    what the manifest says, and why.
    """

    path: Path
    manifest: Manifest
    zip: zipfile.ZipFile
    changed: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.manifest.members)

    def data(self, name: str) -> bytes:
        """A whole member. Raises ConfigError where it is damaged."""
        with self._opened(name) as file:
            data = file.read()
        self._check(self._member(name), len(data), hashlib.sha256(data).hexdigest())
        return data

    def value(self, name: str) -> Any:
        """The JSON of a member. Raises ConfigError where it is none."""
        return _parsed(self.data(name), f"{self.path}: {name}")

    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of a member, one by one."""
        digest, count = hashlib.sha256(), 0
        with self._opened(name) as file:
            while line := file.readline(LINE_BYTES_MAX + 1):
                if len(line) > LINE_BYTES_MAX:
                    raise ConfigError(f"{self.path}: {name}: a line is over {LINE_BYTES_MAX >> 20} MiB")
                digest.update(line)
                count += len(line)
                yield line
        self._check(self._member(name), count, digest.hexdigest())

    def _member(self, name: str) -> Member:
        return next(member for member in self.manifest.members if member.name == name)

    def _check(self, member: Member, count: int, digest: str) -> None:
        if (count, digest) != (member.bytes, member.sha256):
            self.changed[member.name] = (
                f"{member.bytes} bytes with SHA-256 {member.sha256:.12} by the manifest, "
                f"{count} bytes with {digest:.12} in the file"
            )

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        with _damage(f"{self.path}: {name}"), self.zip.open(name) as file:
            yield file


@contextlib.contextmanager
def open_bundle(path: Path) -> Iterator[Archive]:
    """Raises ConfigError where the file is no bundle, is damaged, or is larger than a bundle can be."""
    with open_user_file(path) as file:
        size = _check_end(path, file)
        with _damage(str(path)):
            archive = zipfile.ZipFile(file)
            _check_members(path, archive.infolist(), size)
            manifest = _manifest(path, archive)
        with archive:
            yield Archive(path=path, manifest=manifest, zip=archive)


def _check_end(path: Path, file: BinaryIO) -> int:
    """The size of the file. Its end says how long its list of members is: a long one is refused before it is read."""
    size = file.seek(0, 2)
    if size > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: is {size >> 20} MiB; a bundle is at most {FILE_BYTES_MAX >> 20} MiB. {_REMEDY}")
    file.seek(max(0, size - _END_BYTES - _END_64_BYTES))
    before, end = (tail := file.read())[:-_END_BYTES], tail[-_END_BYTES:]
    if not end.startswith(_END) or end[-2:] != b"\0\0":
        file.seek(0)
        begun = file.read(2) == b"PK"
        raise ConfigError(f"{path}: {'is cut off: its end is missing' if begun else 'is no bundle'}. {_REMEDY}")
    if before.startswith(_END_64):
        raise ConfigError(f"{path}: has the end of a zip file for more members than a bundle can have")
    directory = int.from_bytes(end[12:16], "little")
    if directory > DIRECTORY_BYTES_MAX:
        raise ConfigError(
            f"{path}: its list of members has {directory} bytes; a bundle has at most {DIRECTORY_BYTES_MAX}"
        )
    return size


def _check_members(path: Path, entries: list[zipfile.ZipInfo], size: int) -> None:
    if len(entries) > MEMBERS_MAX:
        raise ConfigError(f"{path}: has {plural(len(entries), 'member')}; a bundle has at most {MEMBERS_MAX}")
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        if not _NAME.fullmatch(name) or len(name) > _NAME_LENGTH_MAX:
            raise ConfigError(f"{path}: {_printable(name)}: no name of a member of a bundle")
        if name in names:
            raise ConfigError(f"{path}: {name}: is there twice")
        names.add(name)
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ConfigError(f"{path}: {name}: is encrypted, or packed in a way that bundles are not")
        most = bytes_max(name)
        if entry.file_size > most:
            raise ConfigError(
                f"{path}: {name}: unpacks to {entry.file_size >> 20} MiB; at most {most >> 20} MiB may be"
            )
        if entry.file_size > SMALL_BYTES + TIMES_SMALLER_MAX * entry.compress_size:
            raise ConfigError(
                f"{path}: {name}: {entry.compress_size} bytes unpack to {entry.file_size}; "
                f"no member of a bundle is packed to less than 1/{TIMES_SMALLER_MAX}"
            )
    if (total := sum(entry.file_size for entry in entries)) > TOTAL_BYTES_MAX:
        raise ConfigError(f"{path}: unpacks to {total >> 20} MiB; at most {TOTAL_BYTES_MAX >> 20} MiB may be")
    until, last = 0, ""
    for entry in sorted(entries, key=lambda one: one.header_offset):
        if entry.header_offset < until:
            raise ConfigError(f"{path}: {entry.filename}: lies over {last} in the file")
        until, last = entry.header_offset + _HEADER_BYTES + len(entry.filename) + entry.compress_size, entry.filename
    if until > size:
        raise ConfigError(f"{path}: is cut off: {last} ends behind its end")


def _manifest(path: Path, archive: zipfile.ZipFile) -> Manifest:
    names = [entry.filename for entry in archive.infolist()]
    if MANIFEST not in names:
        raise ConfigError(f"{path}: is no bundle: it has no {MANIFEST}. {_REMEDY}")
    value = _parsed(archive.read(MANIFEST), f"{path}: {MANIFEST}")
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ConfigError(f"{path}: {MANIFEST}: is not that of a bundle. {_REMEDY}")
    if value.get("format_version") != FORMAT_VERSION:
        raise ConfigError(
            f"{path}: has version {_printable(str(value.get('format_version')))} of the format; this program "
            f"reads {FORMAT_VERSION}. Take the hwd that made it"
        )
    try:
        manifest = from_plain(value, Manifest)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {MANIFEST}: {reason_of(error)}") from error
    listed = [member.name for member in manifest.members]
    if len(listed) > len({*listed}):
        raise ConfigError(f"{path}: {MANIFEST}: names a member twice")
    if missing := sorted({*listed} - {*names}):
        raise ConfigError(f"{path}: {_printable(missing[0])}: is in the manifest and not in the file")
    if more := sorted({*names} - {*listed, MANIFEST}):
        raise ConfigError(f"{path}: {more[0]}: is in the file and not in the manifest")
    if RECORD not in listed:
        raise ConfigError(f"{path}: has no {RECORD}, from which all else is derived")
    return manifest


def _parsed(data: bytes, where: str) -> Any:
    if (values := sum(map(data.count, (b",", b"[", b"{")))) > VALUES_MAX:
        raise ConfigError(f"{where}: has some {plural(values, 'value')}; at most {VALUES_MAX} may be")
    try:
        value = json.loads(data, parse_float=_float, parse_constant=_float)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: is no JSON: {_printable(str(error))}") from error
    if _deeper(value, DEPTH_MAX):
        raise ConfigError(f"{where}: is nested deeper than {DEPTH_MAX} levels")
    return value


def _float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text}: no number")
    return value


def _deeper(value: object, levels: int) -> bool:
    match value:
        case dict():
            return levels == 0 or any(_deeper(part, levels - 1) for part in value.values())
        case list():
            return levels == 0 or any(_deeper(part, levels - 1) for part in value)
    return False


def _printable(text: str) -> str:
    return printable(text, most=100)


@contextlib.contextmanager
def _damage(where: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, struct.error, OSError) as error:
        raise ConfigError(f"{where}: is damaged: {_printable(reason_of(error))}") from error

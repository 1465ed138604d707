"""KnownHosts: files of host keys in OpenSSH's format, with revoked keys (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user_file import read_user_file

REVOKED: Final = "@revoked"
AUTHORITY: Final = "@cert-authority"
FILE_BYTES_MAX: Final = 16_000_000
"""40,000 lines."""
FIELDS: Final = 3
"""Fields of a line: hosts, the kind of the key, the key."""
_HASHED: Final = re.compile(r"(?:\|1)(?:\|[A-Za-z0-9+/]{27}=){2}")
"""Salt and hash (SHA-1) of a name."""
_BRACKETED: Final = re.compile(r"\[(.+)\]:\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """One line of a file, and its file and line number; `marker` is empty for the key of a host."""

    where: str
    marker: str
    patterns: tuple[str, ...]
    key: paramiko.PKey

    def names(self, *names: str) -> bool:
        """Whether its patterns match one of these names: hashed ones, `*` and `?`, and `!` for exclusions."""
        if any(_matches(pattern[1:], name) for pattern in self.patterns if pattern.startswith("!") for name in names):
            return False
        return any(_matches(pattern, name) for pattern in self.patterns for name in names)

    def concerns(self, known_as: str) -> bool:
        """Whether its patterns match this host, with its port or without."""
        return self.names(known_as, _bare(known_as))


class KnownHosts:
    """The entries of several files. A file that does not exist has none.

    A revoked key must be refused even if another line trusts it: `check_revoked`.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        """Read the files, blocking. Raises ConfigError for one that cannot be read."""
        self.lines: list[HostLine] = []
        for file in files:
            if file.exists():
                self._read(file)

    def keys_of(self, known_as: str) -> tuple[paramiko.PKey, ...]:
        """The keys of the lines that name this host, which is `host` or `[host]:port`."""
        return tuple(line.key for line in self.lines if not line.marker and line.names(known_as))

    def kinds_of(self, known_as: str) -> tuple[str, ...]:
        """The kinds of keys by which this host may be known."""
        keys = (*self.keys_of(known_as), *self.keys_of(_bare(known_as)))
        return tuple(dict.fromkeys(key.get_name() for key in keys))

    def knows(self, known_as: str, key: paramiko.PKey) -> bool:
        """Whether a line has this key of this host. A host whose port is not SSH's own may be known without it, where
        no line has a key of this kind with it, as OpenSSH has it (`check_host_key` in sshconnect.c).
        """
        with_port = self.keys_of(known_as)
        if any(one.get_name() == key.get_name() for one in with_port):
            return key in with_port
        return key in self.keys_of(_bare(known_as))

    def check_revoked(self, known_as: str, key: paramiko.PKey, shown: str) -> None:
        """Raises ConfigError, whose text begins with `shown`, where a file revokes this key."""
        if (line := self._revoking(known_as, key)) is not None:
            raise ConfigError(
                f"{shown}, and {line.where} revokes that key: somebody else may have it. "
                "Make a new key for the host, and add it to the file"
            )

    def is_revoked(self, known_as: str, key: paramiko.PKey) -> bool:
        return self._revoking(known_as, key) is not None

    def authority(self, known_as: str) -> str | None:
        """Where a certificate authority is named for this host; certificates of hosts are not checked here."""
        found = (line.where for line in self.lines if line.marker == AUTHORITY and line.concerns(known_as))
        return next(found, None)

    def _revoking(self, known_as: str, key: paramiko.PKey) -> HostLine | None:
        lines = (line for line in self.lines if line.marker == REVOKED and line.key == key)
        return next((line for line in lines if line.concerns(known_as)), None)

    def _read(self, file: Path) -> None:
        data = read_user_file(file, most_bytes=FILE_BYTES_MAX).data
        lines = data.decode(errors="replace").split("\n")
        for number, text in enumerate(lines, start=1):
            line = text.strip()
            if not line or line.startswith("#"):
                continue
            where = f"{file}:{number}"
            marker, *rest = line.split(None, 1) if line.startswith("@") else ("", line)
            if marker not in ("", REVOKED, AUTHORITY):
                raise ConfigError(f"{where}: {marker} is not a marker; use {REVOKED} or {AUTHORITY}")
            try:
                entry = HostKeyEntry.from_line(" ".join("".join(rest).split()))
            except (InvalidHostKey, paramiko.SSHException, ValueError) as error:
                if not marker:
                    continue  # such a line gives no host a key
                raise ConfigError(f"{where}: the key of this line cannot be read. Correct or remove it") from error
            if entry is None:
                if marker and len("".join(rest).split()) < FIELDS:
                    raise ConfigError(f"{where}: hosts, a kind of key and the key must follow {marker}")
                continue  # an unsupported kind of key, which no host can offer us
            self.lines.append(HostLine(where=where, marker=marker, patterns=tuple(entry.hostnames), key=entry.key))


def authority_words(where: str) -> str:
    """Text for messages about an unknown host."""
    return f" ({where} names a certificate authority for it: those are not checked here, the key itself is needed)"


def _bare(known_as: str) -> str:
    """The host without its port."""
    return _BRACKETED.sub(r"\1", known_as)


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return _HASHED.fullmatch(pattern) is not None and paramiko.HostKeys.hash_host(name.lower(), pattern) == pattern
    if pattern.startswith("!"):
        return False
    escaped = pattern.lower().replace("[", "[[]")  # brackets are literal
    return fnmatch.fnmatchcase(name.lower(), escaped)

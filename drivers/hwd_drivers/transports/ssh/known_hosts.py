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
_BRACKETED: Final = re.compile(r"\[(.+)\]:\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedLine:
    """One line with a marker, and its file and line number."""

    where: str
    marker: str
    patterns: tuple[str, ...]
    key: paramiko.PKey

    def concerns(self, known_as: str) -> bool:
        """Whether its patterns match this host: hashed names, `*` and `?`, and `!` for exclusions."""
        bare = _BRACKETED.sub(r"\1", known_as)
        names = (known_as.lower(), bare.lower())
        if any(_matches(pattern[1:], name) for pattern in self.patterns if pattern.startswith("!") for name in names):
            return False
        return any(_matches(pattern, name) for pattern in self.patterns for name in names)


class KnownHosts:
    """The entries of several files. A file that does not exist has none.

    `keys` has the keys of hosts, for paramiko. A revoked key must be refused even if another line trusts it:
    `check_revoked`.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        """Read the files, blocking. Raises ConfigError for one that cannot be read."""
        self.keys = paramiko.HostKeys()
        self.marked: list[MarkedLine] = []
        for file in files:
            if file.exists():
                self._read(file)

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
        found = (line.where for line in self.marked if line.marker == AUTHORITY and line.concerns(known_as))
        return next(found, None)

    def _revoking(self, known_as: str, key: paramiko.PKey) -> MarkedLine | None:
        lines = (line for line in self.marked if line.marker == REVOKED and line.key == key)
        return next((line for line in lines if line.concerns(known_as)), None)

    def _read(self, file: Path) -> None:
        lines = read_user_file(file, most_bytes=FILE_BYTES_MAX).text().splitlines()
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
            if marker:
                patterns = tuple(entry.hostnames)
                self.marked.append(MarkedLine(where=where, marker=marker, patterns=patterns, key=entry.key))
            else:
                self._add(entry)

    def _add(self, entry: HostKeyEntry) -> None:
        """Add an entry; the first line of a host and a kind of key counts."""
        kind = entry.key.get_name()
        for name in entry.hostnames:
            known = self.keys.get(name)
            if known is None or kind not in known:
                self.keys.add(name, kind, entry.key)


def authority_words(where: str) -> str:
    """Text for messages about an unknown host."""
    return f" ({where} names a certificate authority for it: those are not checked here, the key itself is needed)"


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return paramiko.HostKeys.hash_host(name, pattern) == pattern
    if pattern.startswith("!"):
        return False
    escaped = pattern.lower().replace("[", "[[]")  # brackets are literal
    return fnmatch.fnmatchcase(name, escaped)

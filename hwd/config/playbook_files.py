"""The files that a playbook names: playbooks that it includes, topologies that it applies. Sent along with it, or beside it on the disk.

A daemon gets the text of a playbook and reads no file of its own for it: `bundled` puts the files into the text, so that the run and its record hold all of it.
"""

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from hwd.config.tree import FILE_BYTES_MAX, parse_tree
from hwd_drivers.kit.errors import ConfigError


@dataclass(slots=True)
class PlaybookFiles:
    """Texts by their names, which are paths from the folder of the playbook. `shown` is that playbook's own path.

    `sent`: those that came with it. `folder`: where the others are, None where nothing but what was sent may be read. `used`: what was asked for.
    """

    shown: str
    sent: Mapping[str, str]
    folder: Path | None
    used: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    """Whether all that was asked for could be had."""

    def name_of(self, includer: str, file: str) -> str:
        """The name of a file that another one names, relative to itself. Raises ConfigError."""
        if PurePosixPath(file).is_absolute() or "\0" in file:
            raise ConfigError(f"{file}: write the path relative to the file that names it")
        return posixpath.normpath(posixpath.join(posixpath.dirname(includer), file))

    def text(self, name: str) -> str:
        """Raises ConfigError where it cannot be had."""
        if name not in self.used:
            try:
                self.used[name] = self._text(name)
            except ConfigError:
                self.complete = False
                raise
        return self.used[name]

    def path_of(self, name: str) -> str:
        """As messages have it: beside the playbook."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.shown), name))

    def _text(self, name: str) -> str:
        if name in self.sent:
            return self.sent[name]
        if self.folder is None:
            raise ConfigError(f"{name}: was not sent along with the playbook; `hwd run` does that")
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{name}: {len(data)} bytes are over the {FILE_BYTES_MAX} that such a file may have")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{name}: not UTF-8: {error.reason}") from error


def bundled(text: str, files: Mapping[str, str], *, file: str) -> str:
    """The playbook with the files that it names under `files:` at its end, so that its own lines stay where they are.

    Raises ConfigError where its top is not written one key a line.
    """
    if not files:
        return text
    entries = [f"  {_quoted(name)}: {_quoted(content)}" for name, content in sorted(files.items())]
    whole = "\n".join([text.rstrip("\n"), "files: # which it names, so that it stands by itself", *entries, ""])
    root = parse_tree(whole.encode("utf-8", "surrogatepass"), file=file).root
    section = root.child("files") if root else None
    if section is None or section.plain() != dict(files):
        raise ConfigError(
            f"{file}: the files that it names ({', '.join(sorted(files))}) cannot be put at its end; write its top one key a line, from the first column on"
        )
    return whole


def _quoted(text: str) -> str:
    """As YAML has it in double quotes: JSON, but for characters that end a line there."""
    quoted = json.dumps(text, ensure_ascii=False)
    for char in "\x85\u2028\u2029":
        quoted = quoted.replace(char, f"\\u{ord(char):04x}")
    return quoted

"""The files that a playbook names: playbooks that it includes, topologies that it applies. Sent along with it, or beside it on the disk.

A daemon gets the text of a playbook and reads no file of its own for it: `bundled` puts the files into the text, so that the run and its record hold all of it.
What is sent is therefore only what stands in the folder of the playbook or below: a playbook of somebody else sends no other file of whoever runs it.
"""

import json
import os
import posixpath
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from hwd.config.yaml.tree import FILE_BYTES_MAX, parse_tree
from hwd_drivers.core.errors import ConfigError

OUTSIDE = "leads out of the folder of the playbook; put the file there, or below"


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
        """The name of a file that another one names, relative to itself. Raises ConfigError, also where it leads out of the playbook's folder."""
        if PurePosixPath(file).is_absolute() or "\0" in file:
            raise ConfigError(f"{file}: write the path relative to the file that names it")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(includer), file))
        if name.split("/", 1)[0] == "..":
            raise ConfigError(f"{file}: {OUTSIDE}")
        return name

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
            data = _read(self.folder, name)
        except OSError as error:
            raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError(f"{name}: is over the {FILE_BYTES_MAX} bytes that such a file may have")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{name}: not UTF-8: {error.reason}") from error


def _read(folder: Path, name: str) -> bytes:
    """A regular file in the folder or below, links followed; at most a byte more than it may have. Raises OSError, and ConfigError for what is no such file."""
    path = os.path.realpath(folder / name)
    if not Path(path).is_relative_to(os.path.realpath(folder)):
        raise ConfigError(f"{name}: is a link; {OUTSIDE}")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO without a writer blocks otherwise
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{name}: is no regular file")
        return file.read(FILE_BYTES_MAX + 1)


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

"""The files that a playbook names: playbooks that it includes, topologies that it applies.

A daemon gets the text of a playbook and reads no file of its own for it: `bundled` puts the files into the text, so
that the run and its record have all of it. Only files in the folder of the playbook or below are sent: somebody else's
playbook cannot make its user send other files.
"""

import json
import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from hwd.config.yaml.tree import FILE_BYTES_MAX, parse_tree
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user_file import read_user_file

OUTSIDE = "leads out of the folder of the playbook; put the file there, or below"


@dataclass(slots=True)
class PlaybookFiles:
    """Texts by their names, which are paths from the folder of the playbook. `shown` is that playbook's own path.

    `sent`: those that came with it. `folder`: the place of the others, None where only sent ones may be read. `used`:
    those that were read.
    """

    shown: str
    sent: Mapping[str, str]
    folder: Path | None
    used: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    """Whether all files could be read."""

    def name_of(self, includer: str, file: str) -> str:
        """The name of a file that another one names, relative to itself. Raises ConfigError, also for a place outside
        the playbook's folder.
        """
        if PurePosixPath(file).is_absolute() or "\0" in file:
            raise ConfigError(f"{file}: write the path relative to the file that names it")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(includer), file))
        if name.split("/", 1)[0] == "..":
            raise ConfigError(f"{file}: {OUTSIDE}")
        return name

    def text(self, name: str) -> str:
        """Raises ConfigError where it cannot be read."""
        if name not in self.used:
            try:
                self.used[name] = self._text(name)
            except ConfigError:
                self.complete = False
                raise
        return self.used[name]

    def path_of(self, name: str) -> str:
        """The path for messages: relative to the playbook."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.shown), name))

    def _text(self, name: str) -> str:
        if name in self.sent:
            return self.sent[name]
        if self.folder is None:
            raise ConfigError(f"{name}: was not sent along with the playbook; `hwd run` does that")
        path = os.path.realpath(self.folder / name)
        if not Path(path).is_relative_to(os.path.realpath(self.folder)):
            raise ConfigError(f"{name}: is a link; {OUTSIDE}")
        return read_user_file(path, most_bytes=FILE_BYTES_MAX, what=name).text()


def bundled(text: str, files: Mapping[str, str], *, file: str) -> str:
    """The playbook with the files that it names under `files:` at its end, so that its own lines keep their numbers.

    Raises ConfigError where its top is not written one key a line.
    """
    if not files:
        return text
    entries = [f"  {_quoted(name)}: {_quoted(content)}" for name, content in sorted(files.items())]
    whole = "\n".join([text.rstrip("\n"), "files: # those that the playbook names", *entries, ""])
    root = parse_tree(whole, file=file).root
    section = root.child("files") if root else None
    if section is None or section.plain() != dict(files):
        raise ConfigError(
            f"{file}: the files that it names ({', '.join(sorted(files))}) cannot be put at its end; "
            "write its top one key a line, from the first column on"
        )
    return whole


def _quoted(text: str) -> str:
    """Put a text in double quotes for YAML: JSON, but for characters that end a line there."""
    quoted = json.dumps(text, ensure_ascii=False)
    for char in "\x85\u2028\u2029":
        quoted = quoted.replace(char, f"\\u{ord(char):04x}")
    return quoted

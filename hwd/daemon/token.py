"""The token of a daemon without configured tokens: drawn once for its data folder."""

import grp
import logging
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from hwd.config.run_files.secret_file import draw_once
from hwd.web.door import SHORTEST_TOKEN, TOKEN_QUERY
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Ids

FILE = "token"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The token of a daemon, and the `path` of its file."""

    text: str = field(repr=False)
    path: Path

    @classmethod
    def load(cls, data: Path, ids: Ids, *, group: str | None) -> Self:
        """The token of a data folder, or a new one. Raises ConfigError: file readable by others, unknown group."""
        path = data.absolute() / FILE
        text = draw_once(path, ids, what="token", group=group)
        if len(text) < SHORTEST_TOKEN:
            raise ConfigError(
                f"token {path}: is shorter than {SHORTEST_TOKEN} characters. Remove it, and a new one is drawn"
            )
        if group is not None and (closed := _closed_to(path, group)) is not None:
            log.warning(
                "token %s: group %s may read it and cannot get there: it may not pass %s. "
                "`chgrp %s %s && chmod g+x %s`, or another --data",
                *(path, group, closed, group, closed, closed),
            )
        return cls(text=text, path=path)

    def page(self, url: str) -> str:
        """The URL with which a browser gets access."""
        return f"{url}/?{TOKEN_QUERY}={self.text}"


def _closed_to(path: Path, group: str) -> Path | None:
    """The first folder above a file that the group may not enter."""
    gid = grp.getgrnam(group).gr_gid
    for folder in reversed(path.parents):
        status = os.stat(folder)
        needed = stat.S_IXGRP if status.st_gid == gid else stat.S_IXOTH
        if not status.st_mode & needed:
            return folder
    return None

"""UnknownWords: words of tools and of the kernel that this version does not know, each remarked on once."""

import logging

_log = logging.getLogger(__name__)


class UnknownWords:
    """The unknown words of a program; `says`: what they are of, such as `mlxlink: the state of a PHY`."""

    def __init__(self, says: str) -> None:
        self._says = says
        self._seen: set[str] = set()

    def take(self, word: str, read_as: str) -> None:
        """A newer program may know more words than we do; what it says is read as `read_as`."""
        if word not in self._seen:
            self._seen.add(word)
            _log.warning("%s is %r, which is not known here, and is read as %s", self._says, word, read_as)

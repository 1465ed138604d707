"""Named entries of a file's sections, shared by the parts of the loader."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from hwd.config.testbed.testbed_schema import NAME, Entry
from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.tree import Node, Reading
from hwd.config.yaml.validate import matches, validate

E = TypeVar("E", bound=Entry)
Timings = Callable[[], Collection[str]]
"""The names of the timings that twins can have."""


@dataclass(slots=True)
class Sections:
    """The sections of a testbed file while they are read. `owners`: names in use, with their section. `unsure`: owners,
    and `owner.port`, whose entries cannot be used, so that what refers to them cannot be checked.
    """

    reading: Reading
    root: Node
    owners: dict[str, Where] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)

    def entries(self, section: str) -> list[tuple[str, Node, Where]]:
        """Named entries of a section. A name may be used once over all sections whose parts have fibres."""
        node = self.root.child(section)
        found = []
        for name, entry in (node.mapping() if node else {}).items():
            where: Where = (section, name)
            if check_name(self.reading, where) and name in self.owners:
                self.reading.add(
                    where, f"name {name} is used by {self.owners[name][0]}.{name}; each part needs its own"
                )
            self.owners.setdefault(name, where)
            found.append((name, entry, where))
        return found

    def sound(self, section: str, kind: type[E]) -> Iterator[tuple[str, E, Node, Where]]:
        """The named entries of a section that are of this kind. Parts with other entries are unsure."""
        for name, node, where in self.entries(section):
            if (entry := validate(kind, node, where, self.reading)) is None:
                self.unsure.add(name)
            else:
                yield name, entry, node, where

    def check_timing(self, timing: str, timings: Timings | None, where: Where) -> None:
        """Check the name of a twin's timing; None: there is nothing to check it against."""
        if timings is not None and timing not in (known := timings()):
            self.reading.add(where, f"timing {timing!r} is not known; {nearest(timing, known)}")


def check_name(reading: Reading, where: Where) -> bool:
    """Whether the last key of a path can be a name; a problem where it cannot."""
    if matches(NAME, name := str(where[-1])):
        return True
    reading.add(where, f"name {name!r} must begin with a letter and go on with letters, digits, - and _")
    return False

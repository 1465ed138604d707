"""The process of a plane: loads its package, and answers the daemon that started it.

    python -m hwd.config.planes.child DESCRIPTOR DAEMON_PID MEMORY_BYTES

Started by `hwd.config.planes.process`, which says what goes over the socket of that descriptor.
"""

import socket
import sys
from collections.abc import Callable
from types import MappingProxyType
from typing import BinaryIO

from hwd.config.planes.guard import end_with, guard
from hwd.config.planes.installed import find, make
from hwd.model.link import Link
from hwd.model.plane import Job, Plane, View
from hwd.model.plane_json import NamedAction, NamedEvent
from hwd.planes.breach import Breach, PlaneError
from hwd.planes.guest import answer_of, targets_of
from hwd.planes.wire import Answer, AskedTopology, Begin, Broken, Declared, Kind, Links, NoLinks, Said
from hwd_drivers.core.errors import ConfigError, HwdError
from hwd_drivers.core.structs import decoder, from_json, to_json

Find = Callable[[Begin], tuple[Kind, Callable[[], Plane]]]


def main() -> None:
    """Serve the plane that the daemon names, until the daemon closes the connection."""
    descriptor, daemon, memory_bytes = (int(word) for word in sys.argv[1:])
    end_with(daemon)
    with socket.socket(fileno=descriptor) as connection:
        serve(connection, installed, memory_bytes)


def installed(begin: Begin) -> tuple[Kind, Callable[[], Plane]]:
    """The plane of an installed package. Raises ConfigError."""
    kind = find(begin.plane)
    return Kind(arguments=kind.arguments, demand_s=kind.demand_s), lambda: make(begin.plane, begin.arguments or {})


def serve(connection: socket.socket, found: Find, memory_bytes: int) -> None:
    """Answer over a connection until it is closed. It guards the process that it is called in."""
    with connection.makefile("rb") as incoming, connection.makefile("wb", buffering=0) as outgoing:
        begin = from_json(incoming.readline(), Begin)
        guard(memory_bytes)

        def say(said: Said) -> None:
            outgoing.write(to_json(said) + b"\n")

        try:
            _serve(begin, found, incoming, say)
        except PlaneError as error:
            say(Broken(breach=error.breach, what=error.what))
        except MemoryError:
            say(Broken(breach=Breach.TOO_MUCH, what="it needs more memory than it may have"))
        except HwdError as error:
            say(Broken(breach="", what=str(error)))


def _serve(begin: Begin, found: Find, incoming: BinaryIO, say: Callable[[Said], None]) -> None:
    kind, make = found(begin)
    say(kind)
    if begin.arguments is None:
        say(Declared(targets={}))
        return
    plane = make()
    if not begin.job:
        say(Declared(targets={}))
        return
    is_declared = False

    def topology(text: str) -> tuple[Link, ...]:
        if is_declared:
            raise ConfigError(f"topology {text!r}: a plane asks for topologies in its `targets`, and not after it")
        say(AskedTopology(text=str(text)))
        found: Links | NoLinks = from_json(incoming.readline(), Links | NoLinks)
        if isinstance(found, NoLinks):
            raise ConfigError(found.why)
        return found.links

    job = Job(id=begin.job, ranks=begin.ranks, groups=MappingProxyType(begin.groups))
    view = View(
        ports=MappingProxyType(begin.ports),
        electrical=MappingProxyType(begin.electrical),
        ends=begin.ends,
        topology=topology,
    )
    targets = targets_of(plane, job, view)
    is_declared = True
    say(Declared(targets=targets))
    read = decoder(NamedEvent).decode
    for line in incoming:
        actions = answer_of(plane, read(line).event)
        say(Answer(actions=tuple(NamedAction.of(action) for action in actions)))


if __name__ == "__main__":
    main()

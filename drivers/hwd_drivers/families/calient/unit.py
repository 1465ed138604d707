"""A Calient unit without its protocols: connections with names, groups and states, on the mirror model.

A connection is entered, activated, deactivated and deleted, and holds its ports from entry to deletion. The mirror
models its light.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.unit_error import UnitError, Wrong
from hwd_drivers.core.values import Capabilities, Crossconnect, CrossconnectState, PortSide, Side
from hwd_drivers.families.calient.options import TwinOptions
from hwd_drivers.families.calient.ports import PortMap, identifier, one_way
from hwd_drivers.twins.faults import Faults
from hwd_drivers.twins.mirror import Mirror
from hwd_drivers.twins.timing import Settling, SwitchTiming

FIRMWARE: Final = "6.0-3"
"""A version that was seen on a real unit."""
GROUP: Final = "SYSTEM"
PORTS_PER_MODULE: Final = 8
NAME_LIMIT: Final = 64
"""Most characters of a connection's or a group's name: the limit of real units is not documented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Reported states of a connection: AS (administrative), OS (operational), OC (operational capability)."""

    admin: str
    operation: str
    capability: str


ENTERED: Final = States(admin="UMA", operation="RDY", capability="OK")
COMING: Final = States(admin="IS", operation="RDY", capability="OK")
IN_SERVICE: Final = States(admin="IS", operation="IS", capability="OK")
FAILED: Final = States(admin="IS", operation="OOS", capability="FAIL")


@dataclass(slots=True, kw_only=True, eq=False)
class Connection:
    """One connection. `paths` are its optical paths: one, or two where it is 2WAY."""

    name: str
    group: str
    source: int
    destination: int
    two_way: bool
    active: bool = False
    made: bool = False

    @property
    def paths(self) -> tuple[Crossconnect, ...]:
        forth = one_way(self.source, self.destination)
        return (forth, one_way(self.destination, self.source)) if self.two_way else (forth,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A connection to make; an empty name is the default one, `1.1.1-1.1.2` (2WAY) or `1.1.1>1.1.2` (1WAY)."""

    source: str
    destination: str
    two_way: bool
    group: str = ""
    name: str = ""


Change = Literal["in-service", "failed", "gone"]


class Unit:
    """One unit: `mirror` is its optics, `faults` its faults. A refused wish is a UnitError, and nothing was done."""

    def __init__(
        self,
        *,
        name: str,
        capabilities: Capabilities,
        timing: SwitchTiming,
        draws: Draws,
        clock: Clock,
        options: TwinOptions,
    ) -> None:
        self.name = name
        self.options = options
        self.clock = clock
        self.ports = PortMap.of(_names(len(capabilities.ends) // 2, options.modules_per_shelf))
        self.model = f"S{len(self.ports.names)}"
        self.serial = f"C{draws.stream(f'twin/{name}/serial').randrange(10**8):08d}"
        self.mirror = Mirror(name=name, capabilities=capabilities, timing=timing, draws=draws)
        self.faults = Faults(mirror=self.mirror, clock=clock, restores=options.power_up == "restore")
        self.faults.on_reboot.append(self._rebooted)
        self.aliases: dict[tuple[int, Side], str] = {}
        self.on_connection: list[Callable[[Connection, Change], None]] = []
        self._numbers = self.ports.numbers()
        self._connections: dict[str, Connection] = {}
        self._said: dict[str, Change] = {}
        self._busy = False
        self.mirror.on_change.append(self._follow)

    # --- logins

    def takes(self, user: str, password: str) -> bool:
        """Whether user and password are valid."""
        return self.options.user in (None, user) and self.options.password in (None, password)

    # --- connections

    def connections(self) -> list[Connection]:
        """The connections in the order of their ports."""
        return sorted(self._connections.values(), key=lambda each: (each.source, each.destination))

    def find(self, name: str) -> Connection:
        """The connection with this name, or with these ports (`1.1.1-1.1.2`, `1.1.1>1.1.2`) whatever its name."""
        if name in self._connections:
            return self._connections[name]
        for connection in self._connections.values():
            if self.identifier(connection) == name:
                return connection
        raise UnitError(Wrong.NAME, f"Invalid Connection - {name[:NAME_LIMIT] or 'no name'} does not exist")

    def identifier(self, connection: Connection) -> str:
        """The identifier by which it is listed."""
        source, destination = self.ports.names[connection.source - 1], self.ports.names[connection.destination - 1]
        return identifier(source, destination, two_way=connection.two_way)

    def between(self, source: str, destination: str) -> Connection:
        """The connection of these ports, in this order."""
        ends = self.number(source), self.number(destination)
        for connection in self._connections.values():
            if (connection.source, connection.destination) == ends:
                return connection
        raise UnitError(Wrong.NAME, f"Invalid Connection - {source} to {destination} does not exist")

    def states(self) -> list[tuple[Connection, States]]:
        """The reported states of all connections, in the order of their ports."""
        readings = {each.crossconnect: each.state for each in self.mirror.readings(self.clock.monotonic_ns())}
        return [(connection, _states(connection, readings)) for connection in self.connections()]

    def enter(self, wish: Wish, *, activate: bool) -> Connection:
        """Make a connection, and activate it if `activate`."""
        source, destination = self.number(wish.source), self.number(wish.destination)
        if wish.two_way and source == destination:
            raise UnitError(Wrong.VALUE, "Invalid Connection - a port can be looped 1WAY only")
        name = wish.name or identifier(wish.source, wish.destination, two_way=wish.two_way)
        group = wish.group or GROUP
        for text in (name, group):
            if len(text) > NAME_LIMIT or not text.isprintable() or not text.isascii() or set(text) & set(' ;:,"'):
                raise UnitError(Wrong.VALUE, f"Invalid Name - over {NAME_LIMIT} characters, or one that is not allowed")
        made = Connection(name=name, group=group, source=source, destination=destination, two_way=wish.two_way)
        held = {end for each in self._connections.values() for path in each.paths for end in path.ends}
        if used := [end for path in made.paths for end in path.ends if end in held]:
            raise UnitError(
                Wrong.IN_USE, f"Invalid Connection - Port already in Connection: {self.ports.name(used[0])}"
            )
        if name in self._connections:
            raise UnitError(Wrong.NAME, f"Invalid Connection - {name} exists already")
        self._connections[name] = made
        if activate:
            self.activate([made])
        return made

    def activate(self, connections: Sequence[Connection]) -> float:
        """Activate connections; returns the seconds until the answer."""
        for connection in connections:
            if connection.active:
                raise UnitError(Wrong.STATE, f"{connection.name} is active already")
        with_light = [path for connection in connections for path in connection.paths]
        for connection in connections:
            connection.active = True
        return self._move(partial(self.mirror.connect, with_light, move=True))

    def deactivate(self, connection: Connection) -> float:
        """Deactivate a connection; it keeps its ports."""
        if not connection.active:
            raise UnitError(Wrong.STATE, f"{connection.name} is not active")
        connection.active = connection.made = False
        return self._dark([connection])

    def delete(self, connections: Iterable[Connection]) -> float:
        """Deactivate and delete connections."""
        gone = list(connections)
        for connection in gone:
            self._connections.pop(connection.name, None)
            self._report(connection, "gone")
        return self._dark([connection for connection in gone if connection.active])

    # --- ports

    def number(self, name: str) -> int:
        if name not in self._numbers:
            raise UnitError(Wrong.PORT, f"Invalid Port - {name[:NAME_LIMIT]}")
        return self._numbers[name]

    def at(self, number: int, side: Side) -> Connection | None:
        """The connection that the IN (side A) or OUT (side B) fibre of a port is in."""
        end = PortSide(port=str(number), side=side)
        for connection in self._connections.values():
            if any(end in path.ends for path in connection.paths):
                return connection
        return None

    def power(self, number: int, side: Side) -> float | None:
        """Reading of the monitor of the IN (side A) or OUT (side B) fibre, in dBm; None is dark."""
        power_dbm = self.mirror.power(PortSide(port=str(number), side=side), self.clock.monotonic_ns())
        return self.options.dark_dbm if power_dbm is None else power_dbm

    def close(self) -> None:
        """Nothing happens by itself."""

    # --- inside

    def _dark(self, connections: Sequence[Connection]) -> float:
        paths = [path for connection in connections for path in connection.paths]
        return self._move(partial(self.mirror.disconnect, paths))

    def _move(self, change: Callable[..., Settling]) -> float:
        """Change the light, then update the records; returns the seconds until the answer."""
        self._busy = True
        settling = change(now_ns=self.clock.monotonic_ns())
        self._busy = False
        self._follow(self.clock.monotonic_ns())
        return settling.answer_s if self.options.answer == "timing" else 0.0

    def _follow(self, now_ns: int) -> None:
        """Update the records from the mirrors, which also change at the front panel, or fail to move."""
        if self._busy or self.faults.rebooting:
            return
        there = set(self.mirror.crossconnects())
        for connection in list(self._connections.values()):
            lit = there.issuperset(connection.paths)
            if connection.active and connection.made and not lit:
                del self._connections[connection.name]
                self._report(connection, "gone")
            connection.made = connection.active and lit
        held = {path for each in self._connections.values() if each.active for path in each.paths}
        for path in sorted(there - held, key=Crossconnect.sort_key):
            self._adopt(path)
        if self.on_connection:
            for connection, states in self.states():
                if states == IN_SERVICE:
                    self._report(connection, "in-service")
                elif states == FAILED:
                    self._report(connection, "failed")

    def _rebooted(self) -> None:
        if self.options.power_up == "empty":
            self._connections.clear()
        self._follow(self.clock.monotonic_ns())

    def _adopt(self, path: Crossconnect) -> None:
        """Make a connection for a path without one; it replaces entered connections of its ports."""
        for other in list(self._connections.values()):
            if any(not set(path.ends).isdisjoint(each.ends) for each in other.paths):
                del self._connections[other.name]
        source, destination = int(path.a.port), int(path.b.port)
        name = f"{self.ports.names[source - 1]}>{self.ports.names[destination - 1]}"
        self._connections[name] = Connection(
            name=name, group=GROUP, source=source, destination=destination, two_way=False, active=True, made=True
        )

    def _report(self, connection: Connection, change: Change) -> None:
        """Report a change once to all subscribers."""
        before = self._said.pop(connection.name, None)
        if change != "gone":
            self._said[connection.name] = change
        if change != before and not (change == "gone" and before is None):
            for callback in self.on_connection:
                callback(connection, change)


def _states(connection: Connection, readings: Mapping[Crossconnect, CrossconnectState]) -> States:
    if not connection.active:
        return ENTERED
    found = {readings.get(path, CrossconnectState.FAILED) for path in connection.paths}
    if found == {CrossconnectState.TUNED}:
        return IN_SERVICE
    return COMING if found <= {CrossconnectState.TUNED, CrossconnectState.TUNING} else FAILED


def _names(count: int, modules_per_shelf: int) -> list[str]:
    """`1.1.1` on: eight ports a module, `modules_per_shelf` modules a shelf.

    The numbering of real units is partly known.
    """
    per_shelf = modules_per_shelf * PORTS_PER_MODULE
    return [
        f"{at // per_shelf + 1}.{at % per_shelf // PORTS_PER_MODULE + 1}.{at % PORTS_PER_MODULE + 1}"
        for at in range(count)
    ]

"""SettingHolds: reserves ports for the settings of runs, from the first command `set` until all are restored."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from hwd.ports.hold import HeldFor, Hold
from hwd_drivers.core.errors import RefusedError

REFUSES: Final = frozenset({HeldFor.RECONFIGURATION})
"""The holds that a put-back waits for, in addition to leases and the settings of runs under way."""
Key = tuple[str, str]
"""Host and run."""


class Holds(Protocol):
    """Which ports are reserved, and by whom: `hwd.reconfigure.leases.Leases`."""

    def hold(self, hold: Hold) -> None:
        """Reserve its ports, so that nobody can lease them."""
        ...

    def let_go(self, id: str) -> None: ...

    def why_not(
        self, ports: Iterable[str], *, run: str, held_for: Collection[HeldFor] = frozenset(HeldFor)
    ) -> str | None:
        """Who else has reserved one of the ports, in words; None where nobody has."""
        ...


class SettingHolds:
    """One hold for each host and run. `why(host, run)` says in words why the settings are not restored yet.

    A port is held when a command that may have set it was sent, or when the host's birth names it. `on_let_go` is
    called when ports are free again.
    """

    def __init__(self, holds: Holds, *, why: Callable[[str, str], str], on_let_go: Callable[[], None]) -> None:
        self._holds = holds
        self._why = why
        self._on_let_go = on_let_go
        self._asked: dict[Key, set[str]] = {}
        self._in_birth: dict[Key, set[str]] = {}
        self._done: set[Key] = set()  # an older birth may still name them
        self._kicked: set[Key] = set()
        self._busy: set[Key] = set()
        self._held: dict[Key, Hold] = {}

    @property
    def keys(self) -> tuple[Key, ...]:
        """Host and run of all settings that may be set, also where their hold was kicked."""
        return tuple(dict.fromkeys([*self._asked, *(key for key in self._in_birth if key not in self._done)]))

    def all(self) -> tuple[Hold, ...]:
        return tuple(self._held.values())

    def get(self, id: str) -> Hold | None:
        return next((hold for hold in self._held.values() if hold.id == id), None)

    def begin(self, host: str, run: str, port: str) -> None:
        """Hold a port before its command is sent. Raises RefusedError where somebody else has reserved the port."""
        if (why := self._holds.why_not([port], run=run)) is not None:
            raise RefusedError(why)
        self._asked.setdefault((host, run), set()).add(port)
        self._done.discard((host, run))
        self._set(host, run)

    def take_birth(self, host: str, found: Mapping[str, set[str]]) -> None:
        """Take the ports by run whose settings a birth contains."""
        before = [run for other, run in self._in_birth if other == host]
        self._in_birth = {key: ports for key, ports in self._in_birth.items() if key[0] != host}
        self._in_birth |= {(host, run): ports for run, ports in found.items()}
        self._done -= {(host, run) for run in before if run not in found}
        for run in dict.fromkeys([*before, *found]):
            self._set(host, run)

    @contextmanager
    def putting_back(self, host: str, run: str, under_way: Collection[str]) -> Generator[None]:
        """A context in which the ports are held, also after a kick.

        Raises RefusedError where somebody else has reserved one of them.
        """
        ports = self._ports(host, run)
        why = self._holds.why_not(ports, run=run, held_for=REFUSES) or self._why_other_run(ports, run, under_way)
        if why is not None:
            raise RefusedError(f"{host}: what run {run} set waits: {why}")
        self._busy.add((host, run))
        self._set(host, run)
        try:
            yield
        finally:
            self._busy.discard((host, run))
            self._set(host, run)

    def set_remaining(self, host: str, run: str, ports: Iterable[str]) -> None:
        """Take the ports that are still set after a put-back; none where all is restored."""
        if remaining := set(ports):
            self._asked[host, run] = remaining
            self._done.discard((host, run))
            self._in_birth.pop((host, run), None)
        else:
            self._asked.pop((host, run), None)
            self._done.add((host, run))
            self._kicked.discard((host, run))

    def kick(self, id: str) -> None:
        """Release its ports although they may still be set."""
        for host, run in [key for key, hold in self._held.items() if hold.id == id]:
            self._kicked.add((host, run))
            self._set(host, run)

    def _ports(self, host: str, run: str) -> frozenset[str]:
        in_birth = self._in_birth.get((host, run), set()) if (host, run) not in self._done else set()
        return frozenset(self._asked.get((host, run), set()) | in_birth)

    def _why_other_run(self, ports: frozenset[str], run: str, under_way: Collection[str]) -> str | None:
        for hold in self._held.values():
            if hold.run != run and hold.run in under_way and (taken := sorted(ports & hold.ports)):
                return hold.words(taken)
        return None

    def _set(self, host: str, run: str) -> None:
        """Create, replace or release the hold of a host and a run."""
        key, ports = (host, run), self._ports(host, run)
        id = f"settings-{run}-{host}"
        if not ports or (key in self._kicked and key not in self._busy):
            if self._held.pop(key, None) is not None:
                self._holds.let_go(id)
                self._on_let_go()
            return

        def words(ports: Iterable[str]) -> str:
            return (
                f"settings of run {run} are not put back yet on {', '.join(ports)}: {self._why(host, run)}. "
                f"They are put back by "
                f"themselves as soon as that is possible; "
                f"where it never will be, `hwd lease kick {id}` frees the ports as they are"
            )

        self._held[key] = Hold(id=id, held_for=HeldFor.SETTINGS, ports=ports, run=run, words=words)
        self._holds.hold(self._held[key])

"""The ports that are held for settings of runs, from the first command that may have set one until all are back."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from hwd.ports.hold import HeldFor, Hold
from hwd_drivers.core.errors import RefusedError

REFUSES: Final = frozenset({HeldFor.RECONFIGURATION})
"""What a put-back waits for, beside leases and the settings of runs that are under way."""
Key = tuple[str, str]
"""Host and run."""


class Holds(Protocol):
    """Who has which ports: `hwd.reconfigure.leases.Leases`."""

    def hold(self, hold: Hold) -> None:
        """Its ports cannot be leased any more."""
        ...

    def let_go(self, id: str) -> None: ...

    def why_not(
        self, ports: Iterable[str], *, run: str, held_for: Collection[HeldFor] = frozenset(HeldFor)
    ) -> str | None:
        """Who else has one of the ports, in words."""
        ...


class SettingHolds:
    """One hold for each host and run. `why(host, run)` says in words what keeps what is set there.

    A port is held where a command that may have set it went out, or where the host's birth names it. `on_let_go` is
    called when ports are free again.
    """

    def __init__(self, holds: Holds, *, why: Callable[[str, str], str], on_let_go: Callable[[], None]) -> None:
        self._holds = holds
        self._why = why
        self._on_let_go = on_let_go
        self._asked: dict[Key, set[str]] = {}
        self._born: dict[Key, set[str]] = {}
        self._done: set[Key] = set()  # a birth that was on its way may still name them
        self._kicked: set[Key] = set()
        self._busy: set[Key] = set()
        self._held: dict[Key, Hold] = {}

    @property
    def keys(self) -> tuple[Key, ...]:
        """Where something may be set, kicked or not."""
        return tuple(dict.fromkeys([*self._asked, *(key for key in self._born if key not in self._done)]))

    def all(self) -> tuple[Hold, ...]:
        return tuple(self._held.values())

    def get(self, id: str) -> Hold | None:
        return next((hold for hold in self._held.values() if hold.id == id), None)

    def begin(self, host: str, run: str, port: str) -> None:
        """Before the command goes out. Raises RefusedError where somebody else has the port."""
        if (why := self._holds.why_not([port], run=run)) is not None:
            raise RefusedError(why)
        self._asked.setdefault((host, run), set()).add(port)
        self._done.discard((host, run))
        self._set(host, run)

    def born(self, host: str, found: Mapping[str, set[str]]) -> None:
        """What a birth says is set: ports by run."""
        before = [run for other, run in self._born if other == host]
        self._born = {key: ports for key, ports in self._born.items() if key[0] != host}
        self._born |= {(host, run): ports for run, ports in found.items()}
        self._done -= {(host, run) for run in before if run not in found}
        for run in dict.fromkeys([*before, *found]):
            self._set(host, run)

    @contextmanager
    def putting_back(self, host: str, run: str, under_way: Collection[str]) -> Generator[None]:
        """The ports are held meanwhile, though they were kicked.

        Raises RefusedError where somebody else has one of them now.
        """
        ports = self._ports(host, run)
        why = self._holds.why_not(ports, run=run, held_for=REFUSES) or self._why_beside(ports, run, under_way)
        if why is not None:
            raise RefusedError(f"{host}: what run {run} set waits: {why}")
        self._busy.add((host, run))
        self._set(host, run)
        try:
            yield
        finally:
            self._busy.discard((host, run))
            self._set(host, run)

    def left(self, host: str, run: str, ports: Iterable[str]) -> None:
        """What of it is still set now that the host was asked; nothing: all is put back."""
        if still := set(ports):
            self._asked[host, run] = still
            self._done.discard((host, run))
            self._born.pop((host, run), None)
        else:
            self._asked.pop((host, run), None)
            self._done.add((host, run))
            self._kicked.discard((host, run))

    def kick(self, id: str) -> None:
        """Hold its ports no more."""
        for host, run in [key for key, hold in self._held.items() if hold.id == id]:
            self._kicked.add((host, run))
            self._set(host, run)

    def _ports(self, host: str, run: str) -> frozenset[str]:
        born = self._born.get((host, run), set()) if (host, run) not in self._done else set()
        return frozenset(self._asked.get((host, run), set()) | born)

    def _why_beside(self, ports: frozenset[str], run: str, under_way: Collection[str]) -> str | None:
        for hold in self._held.values():
            if hold.run != run and hold.run in under_way and (taken := sorted(ports & hold.ports)):
                return hold.words(taken)
        return None

    def _set(self, host: str, run: str) -> None:
        """The hold of a host and a run as it has to be now."""
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

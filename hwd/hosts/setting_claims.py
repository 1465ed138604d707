"""SettingClaims: claims ports for the settings of runs, from the first command `set` until all are restored."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager

from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import RefusedError

Key = tuple[str, str]
"""Host and run."""


class SettingClaims:
    """One claim for each host and run. `why(host, run)` says in words why the settings are not restored yet.

    A port is claimed when a command that may have set it was sent, or when the host's birth names it.
    """

    def __init__(self, ledger: Ledger, clock: Clock, *, why: Callable[[str, str], str]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._why = why
        ledger.report_why(Reason.SETTINGS, self._why_held)
        self._asked: dict[Key, set[str]] = {}
        self._in_birth: dict[Key, set[str]] = {}
        self._done: set[Key] = set()  # an older birth may still name them
        self._kicked: set[Key] = set()
        self._busy: set[Key] = set()

    @property
    def keys(self) -> tuple[Key, ...]:
        """Host and run of all settings that may be set, also where their claim was kicked."""
        return tuple(dict.fromkeys([*self._asked, *(key for key in self._in_birth if key not in self._done)]))

    def get(self, id: str) -> Claim | None:
        return self._ledger.get(Reason.SETTINGS, id)

    def begin(self, host: str, run: str, port: str, lease: str | None = None) -> None:
        """Claim a port before its command is sent. Raises RefusedError where somebody else has the port."""
        self._ledger.check(Asker(run=run, lease=lease), [port], PortAction.SET, now_wall_ns=self._clock.wall_ns())
        self._asked.setdefault((host, run), set()).add(port)
        self._done.discard((host, run))
        self._set((host, run))

    def take_birth(self, host: str, found: Mapping[str, set[str]]) -> None:
        """Take the ports by run whose settings a birth contains."""
        before = [run for other, run in self._in_birth if other == host]
        self._in_birth = {key: ports for key, ports in self._in_birth.items() if key[0] != host}
        self._in_birth |= {(host, run): ports for run, ports in found.items()}
        self._done -= {(host, run) for run in before if run not in found}
        for run in dict.fromkeys([*before, *found]):
            self._set((host, run))

    @contextmanager
    def putting_back(self, host: str, run: str, lease: str | None = None) -> Generator[None]:
        """A context in which the ports are claimed, also after a kick.

        Raises RefusedError where somebody else has one of them.
        """
        key = (host, run)
        now = self._clock.wall_ns()
        refusal = self._ledger.may(Asker(run=run, lease=lease), self._ports(key), PortAction.PUT_BACK, now_wall_ns=now)
        if refusal is not None:
            raise RefusedError(f"{host}: what run {run} set waits: {refusal}")
        self._busy.add(key)
        self._set(key)
        try:
            yield
        finally:
            self._busy.discard(key)
            self._set(key)

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
        for key in self.keys:
            if _id(key) == id:
                self._kicked.add(key)
                self._set(key)

    def _why_held(self, claim: Claim) -> str:
        run = str(claim.run)
        return self._why(claim.id.removeprefix(_id(("", run))), run)

    def _ports(self, key: Key) -> frozenset[str]:
        in_birth = self._in_birth.get(key, set()) if key not in self._done else set()
        return frozenset(self._asked.get(key, set()) | in_birth)

    def _set(self, key: Key) -> None:
        """Create, replace or release the claim of a host and a run."""
        (_, run), ports = key, self._ports(key)
        if not ports or (key in self._kicked and key not in self._busy):
            self._ledger.release(Reason.SETTINGS, _id(key))
            return
        self._ledger.claim(
            Claim(
                id=_id(key),
                reason=Reason.SETTINGS,
                owner=holder_of(run),
                ports=ports,
                run=run,
            )
        )


def _id(key: Key) -> str:
    host, run = key
    return f"settings-{run}-{host}"

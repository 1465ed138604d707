"""Watches the leases of a world: what those who hold one, wait for one or reserved one were told of it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from hwd.model.lease import LeaseQueued, LeaseReleased, LeaseRenewed, LeaseReserved, LeaseTaken, LeaseWithdrawn
from hwd_drivers.core.documents import Fact

OF_A_JOB: Final = "job "
"""How the holder of a job's lease begins."""
OF_A_RUN: Final = "run "
"""How the holder of a run's lease begins: it ends with the process of the daemon, as the run does."""


@dataclass(slots=True, kw_only=True)
class Promise:
    """A lease as it was told. `released`: its end was told, or is asked for."""

    holder: str
    ports: frozenset[str]
    expires_wall_ns: int
    released: bool = False
    is_over: bool = False
    """Its end was told."""

    def is_in_force(self, now_wall_ns: int) -> bool:
        return not self.released and self.expires_wall_ns > now_wall_ns


@dataclass(slots=True, kw_only=True)
class Request:
    """A lease that is not granted yet. A reservation has a time, a waiter has none."""

    holder: str
    ports: frozenset[str]
    at_wall_ns: int | None = None
    until_wall_ns: int = 0
    withdrawn: bool = False
    """Asked for, and perhaps not told yet."""


class LeaseWatch:
    """The watch over the rules of leases; `breach` is called with the rule and what breaks it. By the id of a lease,
    which a request keeps when granted.
    """

    def __init__(self, now_wall_ns: Callable[[], int], breach: Callable[[str, str], None]) -> None:
        self.promises: dict[str, Promise] = {}
        self.requests: dict[str, Request] = {}
        self._now_wall_ns = now_wall_ns
        self._breach = breach
        self._epochs: dict[str, int] = {}
        """The latest of each port."""

    def take(self, fact: Fact) -> None:
        """What the daemon tells."""
        match fact:
            case LeaseTaken():
                self._granted(fact)
            case LeaseRenewed(lease=id, expires_wall_ns=expires) if id in self.promises:
                if self.promises[id].is_over:
                    self._breach("lease-given", f"lease {id} is renewed after its end")
                self.promises[id].expires_wall_ns = expires
            case LeaseReleased(lease=id, why=why) if id in self.promises:
                left_ns = self.promises[id].expires_wall_ns - self._now_wall_ns()
                if why == "expired" and left_ns > 0:
                    self._breach(
                        "lease-given", f"lease {id} is said to have expired, {left_ns / 1e9:.3f} s before that"
                    )
                self.promises[id].released = self.promises[id].is_over = True
            case LeaseReleased(lease=id):
                self.requests.pop(id, None)  # it was granted, and the daemon died before it could tell that
            case LeaseQueued(lease=id, holder=holder, ports=ports):
                self.requests[id] = Request(holder=holder, ports=frozenset(ports))
            case LeaseReserved(lease=id, holder=holder, ports=ports, at_wall_ns=at, until_wall_ns=until):
                self.requests[id] = Request(holder=holder, ports=frozenset(ports), at_wall_ns=at, until_wall_ns=until)
            case LeaseWithdrawn(lease=id):
                self.requests.pop(id, None)

    def ends(self, id: str) -> None:
        """Somebody asks for the end of it: it may end before that is told."""
        if id in self.promises:
            self.promises[id].released = True
        if id in self.requests:
            self.requests[id].withdrawn = True

    def daemon_died(self) -> None:
        for promise in self.promises.values():
            promise.released = promise.released or promise.holder.startswith(OF_A_RUN)

    def others(self, ports: Iterable[str], *, but: frozenset[str | None]) -> Iterator[tuple[str, Promise, list[str]]]:
        """Leases in force that cover some of these ports, with those. `but`: leases left out."""
        now_wall_ns, wanted = self._now_wall_ns(), frozenset(ports)
        for id, promise in self.promises.items():
            if id not in but and promise.is_in_force(now_wall_ns) and (shared := sorted(promise.ports & wanted)):
                yield id, promise, shared

    def check_stored(self, leases: frozenset[str], requests: frozenset[str]) -> None:
        """What the records must have at the end: each lease in force, and each request that nobody withdrew."""
        now_wall_ns = self._now_wall_ns()
        for id, promise in self.promises.items():
            if promise.is_in_force(now_wall_ns) and not promise.holder.startswith(OF_A_RUN) and id not in leases:
                self._breach("lease-given", f"lease {id} of {promise.holder} is in force, and the records lack it")
        for id, request in self.requests.items():
            if not request.withdrawn and id not in requests:
                self._breach("lease-given", f"{request.holder} asked for lease {id}, and the records lack that")

    def _granted(self, taken: LeaseTaken) -> None:
        id, ports, now_wall_ns = taken.lease, frozenset(taken.ports), self._now_wall_ns()
        asked = self.requests.pop(id, None)
        for other, promise, shared in self.others(ports, but=frozenset((id,))):
            self._breach(
                "lease-given",
                f"{taken.holder} is given {', '.join(shared)} ({id}), and {promise.holder} has them ({other})",
            )
        for other, request in self.requests.items():
            if request.at_wall_ns is None or request.withdrawn or not (shared := sorted(request.ports & ports)):
                continue
            if request.at_wall_ns < taken.expires_wall_ns and now_wall_ns < request.until_wall_ns:
                self._breach(
                    "lease-given",
                    f"{taken.holder} is given {', '.join(shared)} ({id}) for a time that {request.holder} has reserved "
                    f"({other})",
                )
        if taken.epoch is not UNSET:
            late = [port for port in sorted(ports) if self._epochs.get(port, 0) >= taken.epoch]
            if late:
                self._breach(
                    "lease-given", f"lease {id} has epoch {taken.epoch}, and {late[0]} had as high a one before"
                )
            self._epochs |= dict.fromkeys(ports, taken.epoch)
        self.promises[id] = Promise(
            holder=taken.holder,
            ports=ports,
            expires_wall_ns=taken.expires_wall_ns,
            released=asked is not None and asked.withdrawn,
        )

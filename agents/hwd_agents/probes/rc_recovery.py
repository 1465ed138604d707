"""RcRecovery: measures how long a reliable connection over a link takes to recover after a dark time."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from msgspec import UNSET

from hwd_agents.probes.datagrams import Offer
from hwd_agents.probes.verbs_ports import SOURCE, VerbsPorts
from hwd_agents.process.config import PortConfig, RcConfig
from hwd_agents.sources.verbs.verbs import Retries, VerbsConnection
from hwd_agents.spool.outbox import Emit
from hwd_agents.wire import Peer
from hwd_agents.wire.events import RcRecoveryData
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError

NAME: Final = "rc"
OFFER_FIRST_S: Final = 0.02
OFFER_MOST_S: Final = 1.0
OFFERS_MOST: Final = 30
"""Offers stop so long after each return of the carrier; a peer that measures no recovery does not answer them."""
LOOK_S: Final = 0.002
LOOK_PARTS: Final = 50
"""Polls slow down with the time since the carrier came: the error stays within 2 %, or 2 ms."""
KEPT_MOST: Final = 64
"""Queue pairs of a host that stay open for later reconfigurations; the one longest unused is closed first."""

_Outcome = Literal["completed", "re-made", "failed"]
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Pair:
    """Our queue pair for one peer.

    `joined`: the number of the peer's queue pair that it is connected to, or 0. `known`: the peer's is connected to
    ours.
    """

    connection: VerbsConnection
    joined: int = 0
    known: bool = False

    @property
    def works(self) -> bool:
        return self.known and self.joined != 0


@dataclass(slots=True, kw_only=True)
class _Watch:
    """One port in one reconfiguration.

    `posted_ns`: when the send in the dark was posted. `failed_ns`: when it had failed. `open_ns`: the latest time at
    which it was certainly not complete.
    """

    reconfiguration: str
    peer: Peer
    open_ns: int = 0
    ended: bool = False
    posted_ns: int | None = None
    failed_ns: int | None = None
    done: bool = False
    offers: int = 0
    timer: asyncio.TimerHandle | None = None
    look: asyncio.TimerHandle | None = None

    def is_open(self) -> bool:
        """The send is posted, and has neither completed nor failed."""
        return self.posted_ns is not None and self.failed_ns is None and not self.done


class RcRecovery:
    """The probe of RC recovery emits events `rc-recovery`.

    Two linked ports each keep an RC queue pair, connected to one another, for the next time that they are linked. When
    a reconfiguration takes the carrier from one of them on the way to that link, it posts one send, and reports when
    that completes: `completed`. If the retries run out first, the queue pair is in error for good (`failed`); a new one
    is made and connected: `re-made`.
    """

    def __init__(
        self,
        ports: Mapping[str, PortConfig],
        verbs: VerbsPorts,
        clock: Clock,
        emit: Emit,
        *,
        carrier: Callable[[str], bool | None],
        say: Callable[[str, Peer, Offer], bool],
        config: RcConfig,
        origin: str,
    ) -> None:
        self._ports = ports
        self._verbs = verbs
        self._clock = clock
        self._emit = emit
        self._carrier = carrier
        self._say = say
        self._retries = Retries(ack_timeout=config.ack_timeout, count=config.retries)
        self._origin = origin
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._watches: dict[str, _Watch] = {}
        self._changed = asyncio.Event()
        verbs.on_closed.append(self._closed)

    def begin(self, reconfiguration: str, peer: Peer) -> None:
        """Observe the port that `peer` names, unless its link stays as it is or its peer has no verbs."""
        name = peer.port.rpartition(".")[2]
        known = self._watches.get(name)
        if known is not None and (known.reconfiguration, known.peer.peer) == (reconfiguration, peer.peer):
            known.peer, known.ended = peer, False  # begun again
            return
        self._forget(name)
        if peer.kept or peer.peer_verbs is None or self._verbs.address(name) is None:
            return
        self._watches[name] = _Watch(reconfiguration=reconfiguration, peer=peer)
        if self._carrier(name):
            self._offer(name)
        else:
            self._post(name)

    def end(self, port: str) -> None:
        """Post no further sends; a send in progress goes on, and so does making a queue pair for the next time."""
        if port in self._watches:
            self._watches[port].ended = True

    async def run(self) -> None:
        """Run until cancelled; then cancel all timers."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for name in list(self._watches):
                self._forget(name)

    def carrier_changed(self, port: str, *, carrier: bool, earliest_ns: int) -> None:
        """Post the send when the carrier goes; connect queue pairs when it is there."""
        watch = self._watches.get(port)
        if watch is None:
            return
        _stop(watch)
        if carrier:
            watch.open_ns = earliest_ns  # no ACK comes without carrier
            watch.offers = 0
            self._offer(port)
            self._look(port, asyncio.get_running_loop().time())
        elif not watch.ended:
            self._post(port)
        self._changed.set()

    def take(self, port: str, offer: Offer) -> None:
        """The peer offers its queue pair."""
        watch = self._watches.get(port)
        if watch is None or offer.reconfiguration != watch.reconfiguration:
            return
        if (offer.port, offer.peer) != (watch.peer.peer, watch.peer.port):
            return
        try:
            self._join(port, watch, offer)
        except LinkError as error:
            _log.debug("%s: no RC queue pair for %s: %s", port, watch.peer.peer, error)
            self._drop(port, watch.peer.peer)

    async def wait(self, ports: tuple[str, ...], within_s: float) -> None:
        """Wait until the sends of these ports that have carrier have completed or were made anew, at most so long."""
        try:
            async with asyncio.timeout(within_s):
                while any(self._is_pending(port) for port in ports):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return

    def _is_pending(self, port: str) -> bool:
        watch = self._watches.get(port)
        return watch is not None and watch.posted_ns is not None and not watch.done and bool(self._carrier(port))

    def _post(self, name: str) -> None:
        watch = self._watches[name]
        pair = self._pairs.get((name, watch.peer.peer))
        if pair is None or not pair.works or watch.posted_ns is not None:
            return
        posted_ns = self._clock.monotonic_ns()
        try:
            pair.connection.send(partial(self._sent, name, watch, pair))
        except LinkError as error:
            _log.debug("%s: %s", name, error)
            self._drop(name, watch.peer.peer)
            return
        watch.posted_ns = posted_ns

    def _look(self, name: str, since_s: float) -> None:
        """Bound the completion from below by polls: its own report does not say how long it took."""
        watch = self._watches[name]
        watch.look = None
        port = self._verbs.port(name)
        if port is None or not watch.is_open():
            return
        now_ns = self._clock.monotonic_ns()
        port.drain()
        if watch.is_open():
            watch.open_ns = max(watch.open_ns, now_ns)
            loop = asyncio.get_running_loop()
            wait_s = max(LOOK_S, (loop.time() - since_s) / LOOK_PARTS)
            watch.look = loop.call_later(wait_s, self._look, name, since_s)

    def _sent(self, name: str, watch: _Watch, pair: _Pair, why: str, at_ns: int) -> None:
        if why:
            if self._pairs.get((name, watch.peer.peer)) is pair:
                self._drop(name, watch.peer.peer)
            self._fail(name, watch, why, at_ns)
            now = self._watches.get(name)
            if now is None or now.peer.peer != watch.peer.peer:
                return
            self._fail(name, now, why, at_ns)  # a later reconfiguration, whose send was queued behind it
            if self._carrier(name):
                _stop(now)
                now.offers = 0
                self._offer(name)
            return
        watch.done = True
        self._tell(name, watch, "completed", max(watch.posted_ns or 0, watch.open_ns), at_ns)
        self._changed.set()

    def _fail(self, name: str, watch: _Watch, why: str, at_ns: int) -> None:
        if watch.posted_ns is not None and watch.failed_ns is None and not watch.done:
            watch.failed_ns = at_ns
            self._tell(name, watch, "failed", watch.posted_ns, at_ns, why=why)

    def _offer(self, name: str) -> None:
        """Offer our queue pair to the peer, again and again until both are connected."""
        watch = self._watches[name]
        watch.timer = None
        try:
            pair = self._pair(name, watch.peer.peer)
        except LinkError as error:
            _log.debug("%s: %s", name, error)
            return
        if pair is None or pair.works or watch.offers >= OFFERS_MOST:
            return
        self._send_offer(name, watch, pair)
        wait_s = min(OFFER_FIRST_S * 2**watch.offers, OFFER_MOST_S)
        watch.offers += 1
        watch.timer = asyncio.get_running_loop().call_later(wait_s, self._offer, name)

    def _send_offer(self, name: str, watch: _Watch, pair: _Pair) -> None:
        self._say(
            name,
            watch.peer,
            Offer(
                reconfiguration=watch.reconfiguration,
                port=watch.peer.port,
                peer=watch.peer.peer,
                qpn=pair.connection.qpn,
                joined=pair.joined,
            ),
        )

    def _join(self, name: str, watch: _Watch, offer: Offer) -> None:
        pair = self._pair(name, watch.peer.peer)
        if pair is None or watch.peer.peer_verbs is None:
            return
        if pair.joined not in (0, offer.qpn):
            self._drop(name, watch.peer.peer)
            self._fail(name, watch, "the peer has made its queue pair anew", self._clock.monotonic_ns())
            pair = self._pair(name, watch.peer.peer)
            if pair is None:
                return
        news = False
        if not pair.joined and pair.connection.connect(watch.peer.peer_verbs.gid, offer.qpn):
            pair.joined, news = offer.qpn, True
        pair.known = offer.joined == pair.connection.qpn
        if news or not pair.known:
            self._send_offer(name, watch, pair)
        if pair.works and watch.failed_ns is not None and not watch.done:
            watch.done = True
            at_ns = self._clock.monotonic_ns()
            self._tell(name, watch, "re-made", max(watch.failed_ns, watch.open_ns), at_ns)
            self._changed.set()

    def _pair(self, name: str, peer: str) -> _Pair | None:
        """The queue pair for a peer, made if there is none. Raises LinkError."""
        port = self._verbs.port(name)
        if port is None or port.datagrams is None:
            return None
        pair = self._pairs.pop((name, peer), None)
        if pair is None:
            pair = _Pair(connection=port.connection(self._retries))
        self._pairs[name, peer] = pair  # the newest is the last
        if len(self._pairs) > KEPT_MOST:
            self._drop(*next(iter(self._pairs)))
        return pair

    def _drop(self, name: str, peer: str) -> None:
        pair = self._pairs.pop((name, peer), None)
        if pair is not None:
            pair.connection.close()

    def _closed(self, name: str) -> None:
        """The RDMA port is closed, and all its queue pairs with it."""
        watch = self._watches.get(name)
        if watch is not None:
            self._fail(name, watch, self._verbs.why_not(name), self._clock.monotonic_ns())
        for key in [key for key in self._pairs if key[0] == name]:
            self._drop(*key)

    def _forget(self, name: str) -> None:
        watch = self._watches.pop(name, None)
        if watch is not None:
            _stop(watch)

    def _tell(
        self,
        name: str,
        watch: _Watch,
        outcome: _Outcome,
        earliest_ns: int | None,
        at_ns: int,
        *,
        why: str = "",
    ) -> None:
        posted_ns = at_ns if watch.posted_ns is None else watch.posted_ns
        data = RcRecoveryData(
            reconfiguration=watch.reconfiguration,
            peer=watch.peer.peer,
            outcome=outcome,
            after_s=(at_ns - posted_ns) / 1e9,
            ack_timeout_s=self._retries.ack_timeout_s,
            retries=self._retries.count,
            why=why or UNSET,
        )
        self._emit(
            "rc-recovery",
            name,
            earliest_ns=posted_ns if earliest_ns is None else min(earliest_ns, at_ns),
            at_ns=at_ns,
            source=SOURCE,
            origin=self._origin,
            data=data,
        )


def _stop(watch: _Watch) -> None:
    for timer in (watch.timer, watch.look):
        if timer is not None:
            timer.cancel()
    watch.timer = watch.look = None

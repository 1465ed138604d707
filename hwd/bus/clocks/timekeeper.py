"""Timekeeper: measures the clock of one host's agent, and reports the alignment and steps of the clock."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hwd.bus.clocks.clock_exchange import ClockExchange, Way
from hwd.bus.clocks.clock_udp import ClockUdp
from hwd.bus.host_agent import Emit, HostAgent
from hwd.model.host import ClockStepped
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import ClockRequest, Reply
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.structs import to_plain

log = logging.getLogger(__name__)

FIRST_BURST, LEAST_BURST, MOST_BURST, SPACING_S = 10, 2, 12, 0.007
"""The number of volleys at a birth, and the least and the most in each later burst. A burst ends when both directions
were quick once. The spacing keeps one delay from affecting all of them."""
VOLLEY = 3
"""Requests of a volley, each sent when the one before is answered: the first one wakes the processes on the way, and
the others are a third quicker and more alike."""
LEAST_BURST_UDP = 1
"""By UDP one volley is mostly enough: the kernels make the stamps, and no broker or reader adds a delay."""
ANSWER_S, TRY_S = 0.5, 0.2
"""The time to wait for the last replies of a burst, and for the reply to the attempt by UDP."""
ALIVE_S = 4.0
"""After this time without a message an agent is also asked over the broker: UDP does not show that it gets commands."""
DOUBT_S = 1.0
"""The time limit for a measurement after an impossible time of an agent, and the least time between two of these."""
BEHIND_S = 1.0
"""Each watcher makes its own stamps: an event may be older by this much than one that was sent before it."""
PERIOD_FIRST_S, PERIOD_GROWTH, PERIOD_MOST_S = 0.25, 1.5, 3.0
"""Short at first, since the drift is unknown: its error shrinks with the time between exchanges."""
EMIT_EVERY_S = 10.0
"""How often an alignment that improved only a little is emitted."""
SILENT_S = 10.0
"""An agent that answers no request for this long is down, whatever its state at the broker."""


class Timekeeper:
    """Sends bursts of clock requests to one agent, by UDP where it answers, else over the broker.

    `send` publishes a request and returns whether it was sent. `aligned` is called with every new alignment.
    """

    def __init__(
        self,
        host: HostAgent,
        *,
        clock: Clock,
        is_up: Callable[[], bool],
        send: Callable[[ClockRequest], Awaitable[bool]],
        aligned: Callable[[Alignment], None],
        emit: Emit,
        udp: ClockUdp | None = None,
    ) -> None:
        self._host = host
        self._clock = clock
        self._is_up = is_up
        self._send = send
        self._aligned = aligned
        self._emit = emit
        self._udp = udp
        self._woken = asyncio.Event()
        self._measured = asyncio.Event()
        self._newest: tuple[tuple[str, int], int] = ("", 0), 0
        self._rechecked_s = -DOUBT_S

    def wake(self) -> None:
        """Measure now: a birth came, or the broker is connected."""
        self._woken.set()

    def see(self, at_ns: int, *, now_ns: int) -> None:
        """Check the stamp of an event of the current boot, which came at `now_ns`.

        A stamp in the future, or long before an earlier one, starts a measurement now. Events come about in the order
        of their stamps, and repeated ones are no newer than the newest before.
        """
        exchange = self._host.exchange
        alignment = None if exchange is None else exchange.alignment
        if exchange is None or alignment is None:
            return
        if self._newest[0] != (exchange.boot, exchange.aligner.steps):
            self._newest = (exchange.boot, exchange.aligner.steps), at_ns
        daemon_ns, error_ns = alignment.to_daemon(at_ns)
        ahead_ns, behind_ns = daemon_ns - error_ns - now_ns, self._newest[1] - at_ns
        self._newest = self._newest[0], max(at_ns, self._newest[1])
        if (ahead_ns > 0 or behind_ns > BEHIND_S * 1e9) and self._now_s() - self._rechecked_s >= DOUBT_S:
            self._rechecked_s = self._now_s()
            self._woken.set()

    async def check(self, reply: Reply, *, since_ns: int) -> bool:
        """Whether the agent's clock was stepped, judged by the time in its reply to a command sent at `since_ns`.

        Where that time is impossible, the clock is measured again before this returns.
        """
        exchange = self._host.exchange
        alignment = None if exchange is None or exchange.boot != reply.boot else exchange.alignment
        if exchange is None or alignment is None or reply.at_ns == 0:
            return False
        at_ns, error_ns = alignment.to_daemon(reply.at_ns)
        if since_ns - error_ns <= at_ns <= self._clock.monotonic_ns() + error_ns:
            return False
        steps = exchange.aligner.steps
        self._measured.clear()
        self._woken.set()
        try:
            async with asyncio.timeout(DOUBT_S):
                await self._measured.wait()
        except TimeoutError:
            log.debug("%s: its clock could not be looked at", self._host.name)
        return exchange.aligner.steps > steps

    async def ask_alive(self) -> None:
        """Send one request to the current boot over the broker, apart from the bursts."""
        if (exchange := self._host.exchange) is not None:
            await self._ask_over_broker(exchange, aside=True)

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if self._udp is not None:
                self._udp.close()

    async def _run(self) -> None:
        exchange: ClockExchange | None = None
        period_s = PERIOD_FIRST_S
        emitted_s, emitted_steps, emitted_via = -EMIT_EVERY_S, 0, None
        while True:
            self._woken.clear()
            if self._host.exchange is not exchange:
                exchange, period_s = self._host.exchange, PERIOD_FIRST_S
                emitted_s, emitted_steps, emitted_via = -EMIT_EVERY_S, 0, None
            if exchange is not None and self._is_up():
                await self._measure(exchange)
                alignment = exchange.alignment
                if alignment is not None and self._host.exchange is exchange:
                    stepped = exchange.aligner.steps != emitted_steps
                    if stepped:
                        self._emit_step(exchange)
                        period_s = PERIOD_FIRST_S
                    due = self._now_s() - emitted_s >= EMIT_EVERY_S
                    if stepped or due or period_s < PERIOD_MOST_S or exchange.via is not emitted_via:
                        emitted_s, emitted_steps, emitted_via = self._now_s(), exchange.aligner.steps, exchange.via
                        self._emit(
                            alignment.fact(
                                self._host.name,
                                stepped=stepped,
                                via=str(exchange.via),
                                why_not_udp=exchange.why_not_udp,
                            )
                        )
                    self._aligned(alignment)
                self._measured.set()
                if self._host.up and self._host.silent_s(self._now_s()) > SILENT_S:
                    self._host.end(f"it answered no clock request for {SILENT_S} s")
                if not self._host.up and period_s == PERIOD_MOST_S:
                    self._host.silent_since_bus_up()
                period_s = min(PERIOD_MOST_S, period_s * PERIOD_GROWTH)
            try:
                async with asyncio.timeout(period_s):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _emit_step(self, exchange: ClockExchange) -> None:
        step = exchange.aligner.last_step
        if step is None:
            return
        stepped = ClockStepped(host=self._host.name, boot=exchange.boot, **to_plain(step))
        log.warning("%s: %s. Events from around then may be put wrong by that", self._host.name, stepped)
        self._emit(stepped)

    async def _measure(self, exchange: ClockExchange) -> None:
        """Send a burst by UDP where that is answered, else over the broker; one request to an agent that is down."""
        if not self._host.up and exchange.requests_sent:
            exchange.begin_burst()
            await self._ask_over_broker(exchange)
            await self._end_burst(exchange)
        elif await self._udp_works(exchange):
            if self._host.silent_s(self._now_s()) >= ALIVE_S:
                await self._ask_over_broker(exchange, aside=True)
        else:
            if exchange.via is Way.UDP:
                exchange.begin_way(Way.BROKER)
            await self._burst(exchange, self._ask_over_broker, least=LEAST_BURST)
            exchange.via = Way.BROKER if exchange.has_reply else exchange.via

    async def _udp_works(self, exchange: ClockExchange) -> bool:
        """Send a burst by UDP; return whether it was answered."""
        udp = self._udp
        if udp is None:
            exchange.why_not_udp = "the daemon asks nobody by UDP"
            return False
        clocks = None if self._host.birth is None else self._host.birth.clocks
        udp.aim(None if clocks is None else clocks.udp, "" if clocks is None else clocks.why_not_udp)
        if udp.due:
            await self._try_udp(exchange, udp)
        if udp.works:
            if exchange.via is not Way.UDP:
                exchange.begin_way(Way.UDP)
            await self._burst(exchange, self._ask_by_udp, least=LEAST_BURST_UDP)
            if exchange.has_reply:
                exchange.via, exchange.why_not_udp = Way.UDP, ""
                return True
            udp.failed()
            log.info("%s: its clock is asked over the broker: %s", self._host.name, udp.why_not)
        exchange.why_not_udp = udp.why_not
        return False

    async def _try_udp(self, exchange: ClockExchange, udp: ClockUdp) -> None:
        exchange.begin_burst()
        if (id := udp.ask(exchange)) is not None and await _answered(exchange, TRY_S):
            udp.worked()
            return
        if id is not None:
            exchange.give_up(id)
        udp.failed()

    async def _burst(
        self, exchange: ClockExchange, ask: Callable[[ClockExchange], Awaitable[bool]], *, least: int
    ) -> None:
        """Send volleys until they are as quick as the best ones, or a request cannot be sent."""
        first = exchange.alignment is None
        exchange.begin_burst()
        for number in range(FIRST_BURST if first else MOST_BURST):
            if number:
                if not first and number >= least and exchange.quick:
                    break
                await asyncio.sleep(SPACING_S)
            for _ in range(VOLLEY):
                if not await ask(exchange):
                    return
                if not await _answered(exchange, SPACING_S):
                    break
        await self._end_burst(exchange)

    async def _end_burst(self, exchange: ClockExchange) -> None:
        if not await _answered(exchange, ANSWER_S):
            log.debug("%s: some clock requests were not answered", self._host.name)

    async def _ask_by_udp(self, exchange: ClockExchange) -> bool:
        assert self._udp is not None
        return self._udp.ask(exchange) is not None

    async def _ask_over_broker(self, exchange: ClockExchange, *, aside: bool = False) -> bool:
        t1_ns = self._clock.monotonic_ns()
        seq = self._host.next_seq(exchange.boot, "clock-request")
        id = exchange.ask(t1_ns, aside=aside)
        return await self._send(ClockRequest(boot=exchange.boot, seq=seq, id=id, t1_ns=t1_ns))

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


async def _answered(exchange: ClockExchange, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await exchange.answered.wait()
    except TimeoutError:
        return False
    return True

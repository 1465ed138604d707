"""Asks: requests of agents to the daemon. Each is done once, in time, and answered."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeVar

import msgspec

from hwd.bus.containment import Containment
from hwd.bus.host_agent import HostAgent
from hwd.timeline.alignment import Alignment
from hwd_agents.wire import Answer, Arguments, Ask, clipped
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, HwdError, RefusedError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain, to_plain

EXPIRY_MOST_S: Final = 120.0
"""An ask with a later expiry is not done: it was forged, or its clock was stepped."""
PENDING_MOST: Final = 256
"""Asks of one host that are not answered yet."""
REMEMBERED: Final = 512
"""Answers of one host that are remembered: a broker may deliver twice at QoS 1, and an ask must not be done twice."""

A = TypeVar("A", bound=msgspec.Struct)
Outcome = Literal["done", "expired", "refused", "failed"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedBy:
    """Who asks, and until when an answer is of use, in seconds of the event loop's clock. `alignment`: of the clock of
    this boot.
    """

    host: str
    boot: str
    by_s: float
    alignment: Alignment | None = None


Handler = Callable[[AskedBy, Any], Awaitable[msgspec.Struct]]
"""Does what is asked before `by_s`. Raises RefusedError for a refusal, DeadlineError where its turn came too late."""


class Asks:
    """Takes the asks of all hosts. `serve` says who does a verb, `take` is called with each message.

    `answer` sends. What asks while the bus closes gets no answer, as of a daemon that has died, and asks the next one.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        answer: Callable[[str, Answer], Coroutine[Any, Any, None]],
        containment: Containment,
    ) -> None:
        self._clock = clock
        self._answer = answer
        self._containment = containment
        self._handlers: dict[str, tuple[type[msgspec.Struct], Handler]] = {}
        self._pending: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        """By host: what it has asked and has no answer yet, as boot and id."""
        self._answers: defaultdict[str, dict[tuple[str, str], Answer]] = defaultdict(dict)
        """By host: what was answered last."""

    def serve(self, kind: type[Arguments[A]], handler: Callable[[AskedBy, Any], Awaitable[A]]) -> None:
        """Let `handler` do the asks whose arguments are a `kind`."""
        self._handlers[kind.VERB] = kind, handler

    def take(self, host: HostAgent, ask: Ask) -> None:
        """Do an ask, or answer as before where it was delivered before."""
        key = ask.boot, ask.id
        if (before := self._answers[host.name].get(key)) is not None:
            self._begin(host, partial(self._answer, host.name, before), "answer")
            return
        if key in self._pending[host.name]:
            return
        if len(self._pending[host.name]) >= PENDING_MOST or not host.allowance.ask():
            why = (
                f"host {host.name} asks more than the daemon takes of one host. Nothing was done. Ask again in a second"
            )
            refusal = self._made(host, ask, "expired", why)
            self._begin(host, partial(self._answer, host.name, refusal), "answer")
            return
        self._pending[host.name].add(key)
        self._begin(host, partial(self._do, host, ask), f"ask-{ask.verb}")

    def _begin(self, host: HostAgent, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._containment.begin(host.name, "its asks", work, name=name)

    async def _do(self, host: HostAgent, ask: Ask) -> None:
        answer = self._made(host, ask, "failed", "the daemon came to no end with it; see its log")
        try:
            answer = await self._answered(host, ask)
        finally:
            key, answers = (ask.boot, ask.id), self._answers[host.name]
            self._pending[host.name].discard(key)
            answers[key] = answer
            if len(answers) > REMEMBERED:
                del answers[next(iter(answers))]
        await self._answer(host.name, answer)

    async def _answered(self, host: HostAgent, ask: Ask) -> Answer:
        alignment = host.alignment
        left_s, why = self._left(host, ask, alignment)
        if why:
            return self._made(host, ask, "expired", why)
        kind, handler = self._handlers.get(ask.verb, (None, None))
        if kind is None or handler is None:
            known = ", ".join(self._handlers) or "none"
            return self._made(host, ask, "refused", f"{ask.verb}: this daemon does not know it; there are {known}")
        by_s = asyncio.get_running_loop().time() + left_s
        try:
            arguments = from_plain(ask.arguments, kind)
            data = await handler(AskedBy(host=host.name, boot=ask.boot, by_s=by_s, alignment=alignment), arguments)
        except (RefusedError, msgspec.ValidationError) as error:
            return self._made(host, ask, "refused", reason_of(error))
        except DeadlineError as error:
            return self._made(host, ask, "expired", reason_of(error))
        except HwdError as error:
            return self._made(host, ask, "failed", reason_of(error))
        return self._made(host, ask, "done", "", to_plain(data))

    def _left(self, host: HostAgent, ask: Ask, alignment: Alignment | None) -> tuple[float, str]:
        """The seconds until it expires, at least; and why it is not done, empty where it may be."""
        if ask.boot != host.boot:
            return 0.0, f"it is of boot {ask.boot}, and the daemon knows boot {host.boot} of {host.name}. Ask again"
        if alignment is None:
            return 0.0, f"the clock of {host.name} is not aligned yet, so that its expiry cannot be judged. Ask again"
        expires_ns, error_ns = alignment.to_daemon(ask.expires_at_ns)
        left_s = (expires_ns - error_ns - self._clock.monotonic_ns()) / 1e9
        if left_s <= 0:
            return left_s, f"it came {-left_s:.3f} s after its expiry"
        if left_s > EXPIRY_MOST_S:
            return left_s, f"it expires in {left_s:.0f} s, over the {EXPIRY_MOST_S:g} s of any ask"
        return left_s, ""

    def _made(
        self, host: HostAgent, ask: Ask, outcome: Outcome, why: str, data: dict[str, Any] | None = None
    ) -> Answer:
        seq = host.next_seq(ask.boot, "answer") if ask.boot == host.boot else 0  # a stranger's boot leaves no trace
        return Answer(boot=ask.boot, seq=seq, id=ask.id, outcome=outcome, why=clipped(why), data=data or {})

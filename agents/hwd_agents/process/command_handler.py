"""Commands: executes the daemon's commands to an agent, after a check of their boot and expiry."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from hwd_agents.process.config import AgentConfig
from hwd_agents.settings.port_settings import Settings
from hwd_agents.spool.outbox import Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.watchers.watchers import Watchers
from hwd_agents.wire import Command
from hwd_agents.wire.arguments import HoldSettings, Observe, PutBack, Resend, SetPort, Settle
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, HwdError, RefusedError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_plain, to_plain

Verb = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Returns the data of the reply from the arguments; raises RefusedError when it refuses."""
REMEMBERED: Final = 256
"""Commands whose outcome is remembered: a broker may deliver twice at QoS 1, and a command must not be done twice. As
many observations.
"""
OBSERVE_MOST_S: Final = 3600.0
EXPIRY_MOST_S: Final = 600.0
"""A command with a later expiry is refused: it was forged, or its expiry is of this host's clock before a step."""
ID_MOST_CHARS: Final = 128
"""Longest id of a command, which is remembered with its outcome. A UUID has 36."""

_log = logging.getLogger(__name__)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the Reply."""

    outcome: Literal["done", "expired", "refused", "failed"]
    why: str = ""
    data: dict[str, Any] = {}


class _ExpiredError(DeadlineError):
    """The command's turn came after its expiry."""


class Commands:
    """Executes commands, and the verbs of `more`. The data of their replies: `hwd_agents.wire.answers`, and
    `hwd_agents.wire.transfers` for `report-transfers` and `cut-transfers`.
    """

    def __init__(
        self,
        config: AgentConfig,
        boot: str,
        clock: Clock,
        watchers: Watchers,
        outbox: Outbox,
        spool: Spool,
        settings: Settings,
        *,
        more: Mapping[str, Verb] | None = None,
    ) -> None:
        self._config = config
        self._boot = boot
        self._more = more or {}
        self._clock = clock
        self._watchers = watchers
        self._outbox = outbox
        self._spool = spool
        self._settings = settings
        self._outcomes: dict[str, asyncio.Future[Outcome]] = {}
        self._observed: dict[str, tuple[str, ...]] = {}  # by reconfiguration: its ports
        self._ends: dict[str, asyncio.TimerHandle] = {}

    async def do(self, command: Command) -> Outcome:
        """Execute it once: delivered again, it returns the first outcome."""
        if len(command.id) > ID_MOST_CHARS:
            why = f"its id has {len(command.id)} characters, over the limit of {ID_MOST_CHARS}"
            return Outcome(outcome="refused", why=why)
        known = self._outcomes.get(command.id)
        if known is not None:
            return await asyncio.shield(known)
        future = self._outcomes[command.id] = asyncio.get_running_loop().create_future()
        if len(self._outcomes) > REMEMBERED:
            del self._outcomes[next(iter(self._outcomes))]
        try:
            outcome = await self._do(command)
        except BaseException:
            future.cancel()
            raise
        future.set_result(outcome)
        return outcome

    def close(self) -> None:
        """Cancel all timers."""
        for timer in self._ends.values():
            timer.cancel()
        self._ends.clear()

    async def _do(self, command: Command) -> Outcome:
        now_ns = self._clock.monotonic_ns()
        if command.boot != self._boot:
            return Outcome(outcome="expired", why=f"it is for boot {command.boot}, this is boot {self._boot}")
        if (left_s := (command.expires_at_ns - now_ns) / 1e9) > EXPIRY_MOST_S:
            return Outcome(
                outcome="expired", why=f"it expires in {left_s:.0f} s, over the {EXPIRY_MOST_S:g} s of any command"
            )
        if now_ns > command.expires_at_ns:
            late_s = (now_ns - command.expires_at_ns) / 1e9
            return Outcome(outcome="expired", why=f"it came {late_s:.3f} s after its expiry")
        try:
            return Outcome(outcome="done", data=await self._verb(command)(command.arguments))
        except _ExpiredError as error:
            return Outcome(outcome="expired", why=f"{command.verb}: {error}")
        except (RefusedError, msgspec.ValidationError) as error:
            return Outcome(outcome="refused", why=f"{command.verb}: {reason_of(error)}")
        except (HwdError, OSError) as error:
            return Outcome(outcome="failed", why=f"{command.verb}: {reason_of(error)}")
        except Exception as error:  # noqa: BLE001 - a bug in one command must not end the watchers
            _log.exception("command %s failed", command.verb)
            return Outcome(outcome="failed", why=f"{command.verb}: {type(error).__name__}: {error}")

    def _verb(self, command: Command) -> Verb:
        in_time = functools.partial(self._check_expiry, command.expires_at_ns)
        verbs: dict[str, Verb] = {
            "observe": self._observe,
            "settle": self._settle,
            "resend": self._resend,
            "refresh": self._refresh,
            "set": functools.partial(self._set, in_time=in_time),
            "hold": self._hold,
            "put-back": functools.partial(self._put_back, in_time=in_time),
            **self._more,
        }
        if command.verb not in verbs:
            raise RefusedError(f"this agent does not know it; there are {', '.join(verbs)}")
        return verbs[command.verb]

    async def _observe(self, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = from_plain(arguments, Observe)
        if not 0 < asked.for_s <= OBSERVE_MOST_S:
            raise RefusedError(f"for_s {asked.for_s} is not above 0 and up to {OBSERVE_MOST_S:g} s")
        ports = tuple(self._port(peer.port) for peer in asked.peers)
        if len(set(ports)) != len(ports):
            raise RefusedError("a port is named twice among the peers")
        self._end(asked.reconfiguration)
        for reconfiguration, others in list(self._observed.items()):
            self._observed[reconfiguration] = tuple(port for port in others if port not in ports)
        self._observed[asked.reconfiguration] = ports
        if len(self._observed) > REMEMBERED:  # no `settle` came
            oldest = next(iter(self._observed))
            self._end(oldest)
            del self._observed[oldest]
        loop = asyncio.get_running_loop()
        self._ends[asked.reconfiguration] = loop.call_later(asked.for_s, self._end, asked.reconfiguration)
        await self._watchers.begin(asked.reconfiguration, asked.peers)
        return self._observations(ports)

    async def _settle(self, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = from_plain(arguments, Settle)
        await self._watchers.recovered(self._observed.get(asked.reconfiguration, ()))
        ports = self._observed.get(asked.reconfiguration, ())
        self._end(asked.reconfiguration)
        self._observed.pop(asked.reconfiguration, None)
        return self._observations(ports)

    async def _resend(self, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = from_plain(arguments, Resend)
        here = self._outbox.resend(asked.boot, asked.from_seq, asked.upto_seq)
        return {"here": here, "oldest_seq": self._spool.oldest_seq}

    async def _refresh(self, arguments: dict[str, Any]) -> dict[str, Any]:
        await self._watchers.link.refresh()
        ports = self._config.ports
        return {
            "at_ns": self._clock.monotonic_ns(),
            "ports": {port: to_plain(self._watchers.note(port)) for port in ports},
            "states": {port: self._watchers.states(port) for port in ports},
        }

    async def _set(self, arguments: dict[str, Any], *, in_time: Callable[[], None]) -> dict[str, Any]:
        asked = from_plain(arguments, SetPort)
        return await self._settings.set(
            asked.run, self._port(asked.port), asked.setting, asked.value, for_s=asked.for_s, in_time=in_time
        )

    async def _hold(self, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = from_plain(arguments, HoldSettings)
        return await self._settings.hold(asked.run, asked.for_s)

    async def _put_back(self, arguments: dict[str, Any], *, in_time: Callable[[], None]) -> dict[str, Any]:
        return await self._settings.put_back(from_plain(arguments, PutBack).run, in_time=in_time)

    def _check_expiry(self, expires_at_ns: int) -> None:
        """Check the expiry of a command: after it the asker has given up, and may have done something else."""
        late_s = (self._clock.monotonic_ns() - expires_at_ns) / 1e9
        if late_s > 0:
            raise _ExpiredError(f"its turn came {late_s:.3f} s after its expiry; nothing was changed")

    def _observations(self, ports: tuple[str, ...]) -> dict[str, Any]:
        seen = {
            port: {name: to_plain(one) for name, one in self._watchers.observations(port).items()} for port in ports
        }
        return {"at_ns": self._clock.monotonic_ns(), "ports": seen}

    def _end(self, reconfiguration: str) -> None:
        timer = self._ends.pop(reconfiguration, None)
        if timer is None:
            return
        timer.cancel()
        for port in self._observed.get(reconfiguration, ()):
            self._watchers.end(port)

    def _port(self, name: str) -> str:
        host, _, port = name.partition(".")
        if host != self._config.host or port not in self._config.ports:
            known = ", ".join(f"{self._config.host}.{one}" for one in self._config.ports)
            raise RefusedError(f"{name} is no port of this host; there are {known}")
        return port

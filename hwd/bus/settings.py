"""Settings of hosts: what a run changes of NIC ports, by their agents, and the way back, whatever became of the run."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from hwd.bus.gateway import Gateway
from hwd.model.action import Action
from hwd.model.testbed import Testbed
from hwd_agents.wire import Reply
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.documents import Document, Json, Sink
from hwd_drivers.kit.errors import DeadlineError, FailedError, HwdError, RefusedError

WITHIN_S: Final = 20.0
"""A NIC's firmware may take seconds to be set; reading and setting one port of a twin takes a millisecond."""
AGAIN_S: Final = 5.0
"""What could not be put back is tried again so often, and at each birth of its agent."""

log = logging.getLogger(__name__)


class HostSettings:
    """`hwd.playbook.effects.HostActions`. `under_way` names the runs that are not over: what others have set is put back by itself, while `run` runs.

    Each setting that is put back is told as `run.host` with the action `put-back`.

    ```
    settings = HostSettings(gateway, testbed, under_way=lambda: runner.ids, clock=clock, sink=sink)
    tasks.create_task(settings.run())
    await settings.do("k3v9", Action(port=..., setting=Setting.MTU, value=4200))
    await settings.put_back("k3v9")
    ```
    """

    def __init__(
        self,
        gateway: Gateway,
        testbed: Testbed,
        *,
        under_way: Callable[[], Collection[str]],
        clock: Clock,
        sink: Sink,
    ) -> None:
        self._gateway = gateway
        self._testbed = testbed
        self._under_way = under_way
        self._clock = clock
        self._sink = sink
        self._asked: dict[
            str, dict[str, None]
        ] = {}  # by run: hosts that may have something of it, though no birth said so yet
        self._complained: dict[tuple[str, str], str] = {}
        self._born = asyncio.Event()
        gateway.on_birth(lambda host: self._born.set())

    async def run(self) -> None:
        """Put back what belongs to no run that is under way, at each birth of an agent and now and then; until cancelled."""
        while True:
            self._born.clear()
            for host, run in self._orphans():
                try:
                    await self._put_back_at(host, run)
                except HwdError as error:
                    self._complain(host, run, str(error))
            try:
                async with asyncio.timeout(AGAIN_S):
                    await self._born.wait()
            except TimeoutError:
                continue

    async def do(self, run: str, action: Action) -> Mapping[str, Json]:
        """Set it; returns {before, after}, the states as the host read them.

        Raises RefusedError where the testbed file does not allow it, or host or NIC say no; LinkError where the agent is away; FailedError where it did not come out.
        """
        if action.setting not in self._testbed.host_actions:
            raise RefusedError(
                f"{action}: {action.setting} is not among the host_actions of testbed {self._testbed.name}"
            )
        host = action.port.host
        self._asked.setdefault(run, {})[host] = None
        arguments: dict[str, Any] = {"run": run, **action.to_data()}
        reply = await self._gateway.command(host, "set", arguments, within_s=WITHIN_S)
        data = _data(host, str(action), reply)
        return {"before": data.get("before"), "after": data.get("after")}

    async def put_back(self, run: str) -> None:
        """All that it set is as it was before, or an HwdError says what is not, and why; that is tried again when its host is there."""
        hosts = dict.fromkeys([*self._asked.get(run, ()), *(host for host, held in self._held() if held == run)])
        done = await asyncio.gather(*(self._put_back_at(host, run) for host in hosts), return_exceptions=True)
        failures = [result for result in done if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, HwdError):
                raise failure
        if failures:
            raise FailedError(
                f"run {run}: not all settings of hosts are put back: {'; '.join(map(str, failures))}. "
                "It is tried again while the daemon runs"
            )
        self._asked.pop(run, None)

    async def _put_back_at(self, host: str, run: str) -> None:
        reply = await self._gateway.command(host, "put-back", {"run": run}, within_s=WITHIN_S)
        data = _data(host, f"put back what run {run} set", reply)
        for back in data.get("back", ()):
            self._tell(run, host, back)
        if left := data.get("left"):
            words = "; ".join(f"{one.get('port')} {one.get('setting')}: {one.get('why')}" for one in left)
            raise FailedError(f"{host}: {words}")
        self._asked.get(run, {}).pop(host, None)
        if self._complained.pop((host, run), None) is not None:
            log.info("%s: what run %s set is put back", host, run)

    def _orphans(self) -> list[tuple[str, str]]:
        """(host, run) of runs that are over, where the host's agent can be asked."""
        alive = set(self._under_way())
        self._asked = {run: hosts for run, hosts in self._asked.items() if hosts}
        asked = [(host, run) for run, hosts in self._asked.items() for host in hosts]
        views = self._gateway.hosts()
        return [
            (host, run)
            for host, run in dict.fromkeys([*self._held(), *asked])
            if run not in alive and views[host].up and views[host].alignment is not None
        ]

    def _held(self) -> list[tuple[str, str]]:
        """(host, run) of what births say is still set."""
        return [
            (host, run)
            for host, view in self._gateway.hosts().items()
            if view.birth is not None
            for run in dict.fromkeys(held.run for held in view.birth.settings)
        ]

    def _complain(self, host: str, run: str, why: str) -> None:
        if self._complained.get((host, run)) != why:
            self._complained[host, run] = why
            log.warning("%s: what run %s set is not put back yet: %s", host, run, why)

    def _tell(self, run: str, host: str, back: Mapping[str, Any]) -> None:
        data: dict[str, Json] = {
            "run": run,
            "host": host,
            "port": f"{host}.{back.get('port')}",
            "action": "put-back",
            "setting": back.get("setting"),
            "before": None,
            "after": back.get("state"),
        }
        at_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        self._sink(Document(kind="run.host", at_ns=at_ns, wall_ns=wall_ns, data=data))


def _data(host: str, what: str, reply: Reply) -> Mapping[str, Any]:
    match reply.outcome:
        case "done":
            return reply.data
        case "refused":
            raise RefusedError(f"{host}: {what}: {reply.why}")
        case "expired":
            raise DeadlineError(f"{host}: {what}: {reply.why}")
        case _:
            raise FailedError(f"{host}: {what}: {reply.why}")

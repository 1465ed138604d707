"""JobRank: a rank of a job in a simulated world, which asks again while agent or daemon are away, as
`hwd_agents.shim.Rank` does; and the program of the jobs that seeds draw.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from hwd.sim.rank import Rank
from hwd.sim.world import World
from hwd_drivers.core.errors import FailedError, RefusedError
from hwd_drivers.core.reason import reason_of

WITHIN_S: Final = 10.0
"""The longest time of a collective."""
AGAIN_S: Final = 0.5
"""Between two attempts."""
WAIT_S: Final = 30.0
"""For one answer."""


class JobRank:
    """Made from the environment that the daemon gives its process. Raises RefusedError where it is refused."""

    def __init__(self, world: World, host: str, environment: Mapping[str, str]) -> None:
        self._world = world
        self._host = host
        number = int(environment["HWD_RANK"])
        self._job = {"job": environment["HWD_JOB"], "rank": number, "key": environment["HWD_JOB_KEY"]}
        self._connection: Rank | None = None
        self._ended: tuple[Rank, dict[str, Any]] | None = None
        """The last operation that an agent knows to have ended, and over which connection it was told."""
        self._counts: Counter[tuple[str, str]] = Counter()

    async def join(self) -> dict[str, Any]:
        """Join the job; returns what the agent answers of it."""
        joined: dict[str, Any] = (await self._until(lambda rank: rank.join(self._job), "joined"))["joined"]
        return joined

    async def collective(self, group: str, kind: str, *, seconds: float, within_s: float = WITHIN_S) -> None:
        """One collective of a group: asked for, under way for `seconds`, ended. Raises FailedError where its time was
        over before that.
        """
        operation = {"group": group, "kind": kind, "index": self._counts[group, kind], "size_bytes": 1000}
        self._counts[group, kind] += 1
        granted = await self._until(lambda rank: self._ask(rank, operation, within_s), "go")
        asked_over = self._connection
        await asyncio.sleep(seconds)
        ended = {} if asked_over is None else await asked_over.end(granted["transfer"])
        if ended.get("outcome") == "over":
            raise FailedError(f"{kind} {operation['index']} of {group}: {ended['why']}")
        if asked_over is not None and ended.get("outcome") == "ended":
            self._ended = asked_over, operation
            return
        await self._until(lambda rank: rank.done(self._job, operation), "ended")

    async def _ask(self, rank: Rank, operation: dict[str, Any], within_s: float) -> dict[str, Any]:
        if self._ended is not None and self._ended[0] is not rank:  # whose agent may not have told the daemon
            said = await rank.done(self._job, self._ended[1])
            if said["outcome"] != "ended":
                return said
            self._ended = None
        return await rank.ask(self._job, operation, within_s=within_s, wait_s=WAIT_S)

    async def _until(self, ask: Callable[[Rank], Awaitable[dict[str, Any]]], outcome: str) -> dict[str, Any]:
        while True:
            try:
                if self._connection is None or self._connection.gone.is_set():
                    self._connection = await Rank.connect(self._world, self._host)
                answer = await ask(self._connection)
            except OSError as error:
                answer = {"outcome": "failed", "why": reason_of(error)}
            if answer["outcome"] == outcome:
                return answer
            if answer["outcome"] == "refused":
                raise RefusedError(answer["why"])
            await asyncio.sleep(AGAIN_S)


async def train(world: World, host: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """`/bin/train 3 0.2`: so many collectives with all ranks, of so many seconds each; the one of h1 comes late."""
    _, collectives, seconds = command
    rank = JobRank(world, host, environment)
    try:
        await rank.join()
        for _ in range(int(collectives)):
            await asyncio.sleep(float(seconds) if host == "h1" else 0)
            await rank.collective("world", "all-reduce", seconds=float(seconds))
    except (RefusedError, FailedError):
        return 1
    return 0

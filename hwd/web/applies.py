"""Plans and applies for callers of the API: planned, driven, then confirmed or rolled back without a waiting caller."""

import asyncio
import logging
from pathlib import PurePath

from hwd.config.testbed.topology_file import load_topology_text
from hwd.config.testbed.wanted_state import WantedState, parse_what
from hwd.model.link import Topology
from hwd.model.testbed import Testbed
from hwd.reconfigure.planner import Planned
from hwd.reconfigure.reconfiguration import Reconfiguration, State
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.route import Request
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, FailedError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.offload import Offload
from hwd_drivers.switching.moves import ApplyMode

PLANS_KEPT = 256
"""Plans that can be applied by their hash; older ones are forgotten."""

log = logging.getLogger(__name__)


class Applies:
    """Every apply that belongs to no run."""

    def __init__(self, *, testbed: Testbed, reconfigurer: Reconfigurer, ids: Ids, offload: Offload) -> None:
        self._testbed = testbed
        self._offload = offload
        self._reconfigurer = reconfigurer
        self._ids = ids
        self._planned: dict[str, Planned] = {}
        self._under_way: dict[str, asyncio.Task[dict[str, Json]]] = {}
        self._closing = False

    async def topology(self, text: str, *, file: str) -> WantedState:
        """The links of a topology file, read in a thread since a long one takes seconds. Raises ConfigError."""

        def load() -> Topology:
            return load_topology_text(text, file=file, testbed=self._testbed)

        return WantedState(name=PurePath(file).name, links=(await self._offload(load)).links)

    def request(
        self,
        what: str,
        *,
        mode: str = "update",
        lease: str | None = None,
        ready_within_s: float | None = None,
        confirm_within_s: float | None = None,
        wanted: WantedState | None = None,
    ) -> Request:
        """Raises ConfigError where `what` means nothing on this testbed."""
        wanted = wanted or parse_what(what, self._testbed)
        return Request(
            what=wanted.name,
            links=wanted.links,
            crossconnects=wanted.crossconnects,
            emptied=wanted.emptied,
            freed=wanted.freed,
            mode=_mode(mode),
            lease=lease,
            ready_within_s=ready_within_s,
            confirm_within_s=confirm_within_s,
        )

    async def plan(self, request: Request) -> dict[str, Json]:
        planned = await self._reconfigurer.plan(request)
        plan = planned.plan
        self._planned.pop(plan.hash, None)
        self._planned[plan.hash] = planned
        if len(self._planned) > PLANS_KEPT:
            del self._planned[next(iter(self._planned))]
        return plan.to_data()

    async def apply(self, wanted: Request | Planned, *, id: str | None = None) -> dict[str, Json]:
        """Drive, read back, wait for ready links where asked, then confirm or start the confirm timer.

        Returns {reconfiguration, state, outcome, plan, ...}. `id`: by default a new one.

        It goes on when its caller goes away. `roll_back` and `close` stop it, into the state before it.
        """
        if self._closing:
            raise RefusedError("the daemon is ending; nothing new begins")
        id = id or self._ids.token(length=8)
        if id in self._under_way or self._reconfigurer.is_known(id):
            raise RefusedError(f"reconfiguration {id}: there is one of that id; ask with another, or with none")
        task = asyncio.create_task(self._apply(id, wanted), name=f"hwd:apply/{id}")
        self._under_way[id] = task
        task.add_done_callback(lambda done: self._applied(id, done))
        await asyncio.wait([task])
        if task.cancelled():
            what = wanted.plan.what if isinstance(wanted, Planned) else wanted.what
            raise FailedError(f"apply {id} ({what}): stopped and rolled back before it was done")
        return task.result()

    async def apply_hash(self, hash: str, *, id: str | None = None) -> dict[str, Json]:
        """Apply a plan that `plan` made, one of the last `PLANS_KEPT`; refused when the switches differ by now."""
        planned = self._planned.get(hash)
        if planned is None:
            raise RefusedError(
                f"plan {hash}: not known to this daemon, which keeps the last {PLANS_KEPT} since its start. "
                "Make it again with `hwd plan`, and apply its hash"
            )
        return await self.apply(planned, id=id)

    async def confirm(self, reconfiguration: str | None) -> dict[str, Json]:
        one = self._reconfigurer.get(reconfiguration)
        if one.run is not None:
            raise RefusedError(f"reconfiguration {one.id}: belongs to run {one.run}, which confirms it itself")
        if one.state not in (State.AWAITING_CONFIRM, State.CONFIRMING):
            raise RefusedError(f"reconfiguration {one.id}: is {one.state}, not awaiting a confirm")
        await self._reconfigurer.confirm(one)
        return under_way(one)

    async def roll_back(self, reconfiguration: str | None) -> dict[str, Json]:
        """Raises FailedError where it was confirmed and the journal has not taken that yet: then it stays as it is."""
        beginning = self._under_way.get(reconfiguration or "")
        if reconfiguration is not None and beginning is not None and not self._reconfigurer.is_known(reconfiguration):
            beginning.cancel()  # it reads and plans: nothing was sent
            await asyncio.wait([beginning])
            if not self._reconfigurer.is_known(reconfiguration):
                raise RefusedError(f"reconfiguration {reconfiguration}: stopped before it began; nothing was moved")
        one = self._reconfigurer.get(reconfiguration)
        if one.run is not None:
            raise RefusedError(f"reconfiguration {one.id}: belongs to run {one.run}; `hwd abort {one.run}` ends both")
        if (task := self._under_way.get(one.id)) is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._reconfigurer.roll_back(one, "roll-back asked for")
        if one.state is not State.ENDED:
            raise FailedError(
                f"reconfiguration {one.id}: not rolled back, it was confirmed before. "
                f"{one.why}, then `hwd confirm {one.id}` tries it at once; "
                "once it is confirmed, `hwd apply` makes of the switches what you want"
            )
        return under_way(one)

    async def close(self) -> None:
        """Stop and roll back all in progress. Nothing new begins from here on."""
        self._closing = True
        for task in self._under_way.values():
            task.cancel()
        ended = await asyncio.gather(*self._under_way.values(), self._reconfigurer.close(), return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                log.error("on the way to the end: %s", error)

    # --- inside

    async def _apply(self, id: str, wanted: Request | Planned) -> dict[str, Json]:
        reconfiguration = await self._reconfigurer.begin(wanted, id=id)
        plan = reconfiguration.plan
        try:
            if plan.ready_within_s is not None:
                await self._reconfigurer.wait_ready(reconfiguration, within_s=plan.ready_within_s)
            if plan.confirm_within_s is not None:
                await self._reconfigurer.await_confirm(reconfiguration, within_s=plan.confirm_within_s)
            else:
                await self._reconfigurer.confirm(reconfiguration)
        except asyncio.CancelledError:
            await asyncio.shield(self._reconfigurer.roll_back(reconfiguration, "stopped"))
            raise
        return {**under_way(reconfiguration), "plan": plan.to_data()}

    def _applied(self, id: str, task: asyncio.Task[dict[str, Json]]) -> None:
        del self._under_way[id]
        if not task.cancelled() and (error := task.exception()) is not None:
            was_said = self._reconfigurer.became(id) is not None  # by its end, in the same words
            log.log(logging.DEBUG if was_said else logging.WARNING, "apply %s: %s", id, error)


def under_way(one: Reconfiguration) -> dict[str, Json]:
    """A reconfiguration as JSON."""
    confirm_in_s = None if one.confirm_by_s is None else one.confirm_by_s - asyncio.get_running_loop().time()
    return {
        "reconfiguration": one.id,
        "run": one.run,
        "what": one.plan.what,
        "hash": one.plan.hash,
        "lease": one.plan.lease,
        "state": one.state,
        "outcome": one.outcome,
        "why": one.why,
        "confirm_in_s": confirm_in_s,
        "links": [str(link) for link in one.links],
        "not_ready": [str(link) for link in one.not_ready],
    }


def _mode(text: str) -> ApplyMode:
    try:
        return ApplyMode(text)
    except ValueError:
        raise ConfigError(f"mode {text!r}: not a mode; use {', '.join(ApplyMode)}") from None

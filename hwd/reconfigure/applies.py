"""Plans and applies for callers of the API: planned, driven, then confirmed or rolled back without a waiting caller."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import PurePath

from msgspec.structs import replace

from hwd.config.testbed.topology_file import load_topology
from hwd.config.testbed.wanted_state import parse_what
from hwd.config.yaml.tree import parse_tree
from hwd.fabric.in_use import InUse
from hwd.model.bodies import File, PlanBody, PrepareBody, ReconfigurationBody
from hwd.model.circuit import Topology
from hwd.model.plan_summary import PlanSummary
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.reconfiguration import ReconfigurationStatus
from hwd.model.request import Caller, Request, WantedState
from hwd.reconfigure.apply.reconfiguration import Outcome, Reconfiguration, State
from hwd.reconfigure.demands import Demands
from hwd.reconfigure.desired.earlier_states import EarlierStates
from hwd.reconfigure.desired.restores import Restores
from hwd.reconfigure.plans.planner import PlanWithInputs
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.refused_switches import RefusedSwitches
from hwd_drivers.core.errors import ConfigError, FailedError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.offload import Offload
from hwd_drivers.switching.moves import ApplyMode

STOPPED_WITHIN_S = 1.0
"""For an apply to stop before it goes back."""
PLANS_KEPT = 256
"""Plans that can be applied by their hash; older ones are forgotten."""

log = logging.getLogger(__name__)


class Applies:
    """Every apply that belongs to no run."""

    def __init__(
        self,
        *,
        in_use: InUse,
        reconfigurer: Reconfigurer,
        restores: Restores,
        earlier: EarlierStates,
        demands: Demands,
        ids: Ids,
        offload: Offload,
    ) -> None:
        self._in_use = in_use
        self._offload = offload
        self._reconfigurer = reconfigurer
        self._restores = restores
        self._earlier = earlier
        self._demands = demands
        self._ids = ids
        self._planned: dict[str, PlanWithInputs] = {}
        self._under_way: dict[str, asyncio.Task[ReconfigurationStatus]] = {}
        self._refused_switches = RefusedSwitches()
        self._closing = False

    async def plan(self, body: PlanBody) -> PlanSummary:
        """Raises ConfigError where what is wanted means nothing on this testbed."""
        planned = await self._reconfigurer.plan(await self._request(body))
        plan = planned.plan
        self._planned.pop(plan.hash, None)
        self._planned[plan.hash] = planned
        if len(self._planned) > PLANS_KEPT:
            del self._planned[next(iter(self._planned))]
        return plan.summary

    async def apply(self, body: ReconfigurationBody, caller: Caller | None = None) -> ReconfigurationStatus:
        """Drive, read back, wait for ready links where asked, then confirm or start the confirm timer.

        `caller`: who asks, as a token says; else `body.by` is who it is stated to be. `body.hash`: that of one of the
        last `PLANS_KEPT` plans, in place of what is wanted; refused when the switches differ by now from what the plan
        was made for.

        It goes on when its caller goes away. `roll_back` and `close` stop it, into the state before it.
        """
        planned = self._held(body)
        request = await self._request(body) if planned is None else planned.routed.request.waiting_as(body)
        if request.wanted.is_empty:
            why = f"{request.wanted.name}: nothing to do, the switches that can be reached are so"
            raise RefusedError("; ".join((why, *request.warnings)))
        id = self._new_id(body.id)
        begin = partial(self._reconfigurer.begin, request, planned=planned, id=id, caller=Caller.of(caller, body.by))
        return await self._run_to_end(id, request.wanted.name, begin)

    async def prepare(self, body: PrepareBody, caller: Caller | None = None) -> PreparedSetStatus:
        """Make a prepared set of these targets. Raises ConfigError where one means nothing on this testbed."""
        if self._closing:
            raise RefusedError("the daemon is ending; nothing new begins")
        requests = {}
        for name, target in body.targets.items():
            of_plan = PlanBody(
                what=target.what,
                file=target.file,
                mode=body.mode,
                lease=body.lease,
                epoch=body.epoch,
                ready_within_s=body.ready_within_s,
                overrides=body.overrides,
            )
            try:
                requests[name] = await self._request(of_plan)
            except ConfigError as error:
                raise ConfigError(f"target {name}: {error}") from error
        return await self._reconfigurer.sets.prepare(requests, body, Caller.of(caller, body.by))

    async def switch(
        self,
        prepared_set: str,
        target: str,
        *,
        id: str | None = None,
        epoch: int | None = None,
        by: str | None = None,
        caller: Caller | None = None,
        override: str = "",
    ) -> ReconfigurationStatus:
        """Drive a prepared set to a target at once, read back, wait for ready links where its terms say so, and
        confirm.

        The arguments are those of `SwitchBody`, but for `override`: whose right is overridden, and why. It goes on when
        its caller goes away, and `roll_back` stops it.
        """
        id = self._new_id(id)
        begin = partial(
            self._reconfigurer.sets.switch,
            prepared_set,
            target,
            reconfiguration=id,
            caller=Caller.of(caller, by),
            epoch=epoch,
            override=override,
        )
        return await self._run_to_end(id, f"prepared set {prepared_set} to {target}", begin, prepared_set=prepared_set)

    async def confirm(self, reconfiguration: str | None) -> ReconfigurationStatus:
        one = self._reconfigurer.get(reconfiguration)
        if one.run is not None:
            raise RefusedError(f"reconfiguration {one.id}: belongs to run {one.run}, which confirms it itself")
        if one.state not in (State.AWAITING_CONFIRM, State.CONFIRMING):
            raise RefusedError(f"reconfiguration {one.id}: is {one.state}, not awaiting a confirm")
        await self._reconfigurer.confirm(one)
        return under_way(one)

    async def roll_back(self, reconfiguration: str | None) -> ReconfigurationStatus:
        """Raises where it was confirmed before, and stays as it is: RefusedError, FailedError while the journal has not
        taken that yet.
        """
        beginning = self._under_way.get(reconfiguration or "")
        if reconfiguration is not None and beginning is not None and not self._reconfigurer.is_known(reconfiguration):
            beginning.cancel()  # it reads and plans: nothing was sent
            await asyncio.wait([beginning], timeout=STOPPED_WITHIN_S)
            if not beginning.done():
                raise FailedError(
                    f"reconfiguration {reconfiguration}: nothing was moved, and it ends as soon as the records answer, "
                    f"which they did not do within {STOPPED_WITHIN_S:g} s. Look at the disk of the data directory"
                )
            if not self._reconfigurer.is_known(reconfiguration):
                raise RefusedError(f"reconfiguration {reconfiguration}: stopped before it began; nothing was moved")
        to = reconfiguration or "ID"
        listed = "" if reconfiguration else ", which `hwd history` lists"
        one = self._reconfigurer.get(
            reconfiguration, or_else=f"`hwd rollback --to {to}` goes back to the state before it{listed}"
        )
        if one.run is not None:
            raise RefusedError(
                f"reconfiguration {one.id}: belongs to run {one.run}, which goes on with it. Wait for its end; to end "
                f"both is up to who started it: `hwd abort {one.run}`"
            )
        if (task := self._under_way.get(one.id)) is not None:
            task.cancel()
            await asyncio.wait([task], timeout=STOPPED_WITHIN_S)  # what hangs in it does nothing more when it goes on
        await self._reconfigurer.roll_back(one, "roll-back asked for")
        if one.state is not State.ENDED:
            raise FailedError(
                f"reconfiguration {one.id}: not rolled back, it was confirmed before. "
                f"{one.why}, then `hwd confirm {one.id}` tries it at once; "
                "once it is confirmed, `hwd apply` makes of the switches what you want"
            )
        if one.outcome is Outcome.CONFIRMED:
            raise RefusedError(
                f"reconfiguration {one.id}: not rolled back, it was confirmed before. "
                f"`hwd rollback --to {one.id}` plans a way back to the state before it"
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

    def _new_id(self, asked: str | None) -> str:
        """Raises RefusedError where there is one of the id that is asked for, and while the daemon ends."""
        if self._closing:
            raise RefusedError("the daemon is ending; nothing new begins")
        id = asked or self._ids.token(length=8)
        if id in self._under_way or self._reconfigurer.is_known(id):
            raise RefusedError(f"reconfiguration {id}: there is one of that id; ask with another, or with none")
        return id

    async def _run_to_end(
        self,
        id: str,
        what: str,
        begin: Callable[[], Awaitable[Reconfiguration]],
        *,
        prepared_set: str | None = None,
    ) -> ReconfigurationStatus:
        """Go one way to its end, whatever becomes of its caller."""
        task = asyncio.create_task(self._complete(begin), name=f"hwd:apply/{id}")
        self._under_way[id] = task
        task.add_done_callback(lambda done: self._applied(id, done, prepared_set))
        await asyncio.wait([task])
        if task.cancelled():
            raise FailedError(f"apply {id} ({what}): stopped and rolled back before it was done")
        return task.result()

    async def _request(self, body: PlanBody) -> Request:
        asked = {
            "what": body.what or None,
            "file": body.file,
            "restore": body.restore,
            "before": body.before,
        }
        if len(named := [name for name, value in asked.items() if value is not None]) > 1:
            raise ConfigError(f"{', '.join(named)}: only one of them says what is wanted")
        if (body.restore is not None or body.before is not None) and body.mode is not ApplyMode.UPDATE:
            raise ConfigError(
                f"mode {body.mode}: a way back replaces what is in its way and nothing else; leave it out"
            )
        if body.restore is not None:
            return await self._restores.desired(body)
        if body.before is not None:
            return await self._earlier.before(body)
        if body.file is not None:
            return Request(wanted=await self._topology(body.file), body=body)
        demand = await self._demands.of_text(body.what)
        return Request(wanted=parse_what(body.what, self._in_use.testbed, demand=demand), body=body)

    async def _topology(self, file: File) -> WantedState:
        """The links of a topology file, read in a thread since a long one takes seconds. Raises ConfigError."""

        def load() -> Topology:
            return load_topology(parse_tree(file.text, file=file.name), self._in_use.testbed).require()

        return WantedState(name=PurePath(file.name).name, links=(await self._offload(load)).links)

    def _held(self, body: ReconfigurationBody) -> PlanWithInputs | None:
        """The plan that is named by its hash; None without a hash."""
        if body.hash is None:
            return None
        if not body.is_of_plan:
            raise ConfigError("hash: no other field is allowed with it; mode, lease and limits are those of the plan")
        planned = self._planned.get(body.hash)
        if planned is None:
            raise RefusedError(
                f"plan {body.hash}: not known to this daemon, which keeps the last {PLANS_KEPT} since its start. "
                "Make it again with `hwd plan`, and apply its hash"
            )
        return planned

    async def _complete(self, begin: Callable[[], Awaitable[Reconfiguration]]) -> ReconfigurationStatus:
        """`begin`: returns once the switches are driven and read back."""
        reconfiguration = await begin()
        plan = reconfiguration.plan
        try:
            if plan.ready_within_s is not None:
                await self._reconfigurer.wait_ready(reconfiguration, within_s=plan.ready_within_s)
            if plan.confirm_within_s is not None:
                await self._reconfigurer.completion.await_confirm(reconfiguration)
            else:
                await self._reconfigurer.confirm(reconfiguration)
        except asyncio.CancelledError:
            await asyncio.shield(self._reconfigurer.roll_back(reconfiguration, "stopped"))
            if reconfiguration.outcome is not Outcome.CONFIRMED:  # its confirm had begun
                raise
        return replace(under_way(reconfiguration), applied=plan.summary)

    def _applied(self, id: str, task: asyncio.Task[ReconfigurationStatus], prepared_set: str | None) -> None:
        del self._under_way[id]
        if task.cancelled():
            return
        error, was_said = task.exception(), self._reconfigurer.became(id) is not None  # by its end, in the same words
        if error is None:
            if prepared_set is not None:
                self._refused_switches.switched(prepared_set)
        elif prepared_set is not None and isinstance(error, RefusedError) and not was_said:
            self._refused_switches.refused(prepared_set, error)
        else:
            log.log(logging.DEBUG if was_said else logging.WARNING, "apply %s: %s", id, error)


def under_way(one: Reconfiguration) -> ReconfigurationStatus:
    confirm_in_s = None
    if one.confirm_by_s is not None and one.outcome is None:
        confirm_in_s = one.confirm_by_s - asyncio.get_running_loop().time()
    return ReconfigurationStatus(
        reconfiguration=one.id,
        run=one.run,
        what=one.plan.what,
        hash=one.plan.hash,
        lease=one.plan.lease,
        state=one.state,
        outcome=one.outcome,
        why=one.why,
        confirm_in_s=confirm_in_s,
        links=[*one.links],
        not_ready=[*one.not_ready],
        remarks=[*one.remarks],
        stale=[*one.leftovers.stale],
        unasked=[*one.leftovers.unasked],
    )

"""The plan of a simulated world, as values: what its operators do, what befalls it, and who overtakes whom.

plan = draw_plan(17)                       # hwd.sim.draw
report = play(plan)                        # hwd.sim.execution
"""

from typing import Any

import msgspec
from typing_extensions import override

from hwd_drivers.core.structs import to_plain


class Act(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An act of somebody, or an event that befalls the world. `of` is the number of an earlier step of the plan."""

    @override
    def __str__(self) -> str:
        """`Apply what=ocs1:1A-3B confirm_within_s=2`: one line, without fields that have their default."""
        data = to_plain(self)
        defaults = {field.name: field.default for field in msgspec.structs.fields(self)}
        words = [f"{key}={value}" for key, value in data.items() if key != "type" and defaults.get(key) != value]
        return " ".join([str(data["type"]), *words])


class Deed(Act, frozen=True, kw_only=True):
    """A deed of an operator, or of a job."""


class Apply(Deed, frozen=True, kw_only=True):
    """An apply; `lease`: the step that took it. `steps`: in steps with the fewest links dark at once."""

    what: str
    lease: int | None = None
    ready_within_s: float | None = None
    confirm_within_s: float | None = None
    steps: bool = False
    drain_within_s: float | None = None


class Confirm(Deed, frozen=True, kw_only=True):
    of: int


class RollBack(Deed, frozen=True, kw_only=True):
    of: int


class Restore(Deed, frozen=True, kw_only=True):
    """Back to the desired state of these ports, of all where there are none."""

    ports: tuple[str, ...] = ()
    lease: int | None = None
    confirm_within_s: float | None = None


class TakeLease(Deed, frozen=True, kw_only=True):
    """A lease is taken. `queue`: wait for it, with this `priority`, where it is taken. `in_s`: reserve it from then on.
    `heartbeat_s`: it ends where its holder, who says nothing, is not heard for so long.
    """

    ports: tuple[str, ...]
    for_s: float
    queue: bool = False
    priority: int = 0
    in_s: float | None = None
    heartbeat_s: float | None = None


class RenewLease(Deed, frozen=True, kw_only=True):
    of: int
    for_s: float


class HearLease(Deed, frozen=True, kw_only=True):
    """A heartbeat of who holds it, or waits for it."""

    of: int


class ReleaseLease(Deed, frozen=True, kw_only=True):
    of: int


class PrepareSet(Deed, frozen=True, kw_only=True):
    """Targets `t0` and `t1`, under the lease of a step. `rule`: what becomes of a switch that a crash cuts off."""

    wanted: tuple[str, ...]
    lease: int
    rule: str = "finish"
    for_s: float | None = None
    ready_within_s: float | None = None


class SwitchSet(Deed, frozen=True, kw_only=True):
    of: int
    target: str


class ReleaseSet(Deed, frozen=True, kw_only=True):
    of: int


class KickLease(Deed, frozen=True, kw_only=True):
    of: int


class RunPlaybook(Deed, frozen=True, kw_only=True):
    """A lease of all ports, then each of `wanted` in turn. `mtu`: also set on every port before. `steps`: of each."""

    wanted: tuple[str, ...]
    mtu: int | None = None
    steps: bool = False


class AbortRun(Deed, frozen=True, kw_only=True):
    of: int


class GiveUp(Deed, frozen=True, kw_only=True):
    of: int


class Select(Deed, frozen=True, kw_only=True):
    """A job sets both switches of its host to `output`."""

    host: str
    output: int
    within_s: float = 1.0


class TakeBackSwitch(Deed, frozen=True, kw_only=True):
    """An operator takes a switch from the host that owns it: nobody may set it until it is granted again."""

    switch: str


class GrantSwitch(Deed, frozen=True, kw_only=True):
    """A host may set its switch again."""

    switch: str


class Claim(Deed, frozen=True, kw_only=True):
    """A rank on `host` connects to its agent and claims a transfer over `port`."""

    host: str
    port: str
    within_s: float
    wait_s: float = 0.0


class EndTransfer(Deed, frozen=True, kw_only=True):
    """The rank ends its transfer. `dies`: its connection ends, without a word."""

    of: int
    dies: bool = False


class RunJob(Deed, frozen=True, kw_only=True):
    """A job of a rank a host, each of which makes so many collectives, of `seconds` each."""

    collectives: int
    seconds: float


class StopJob(Deed, frozen=True, kw_only=True):
    of: int


class KillPlane(Deed, frozen=True, kw_only=True):
    """The process of the plane of a job is killed, as the system does where memory is short."""

    of: int


class Trouble(Act, frozen=True, kw_only=True):
    """A fault."""


class Kill(Trouble, frozen=True, kw_only=True):
    """The node dies at its `callbacks`-th callback from then on, and starts again after `away_s`."""

    node: str
    callbacks: int
    away_s: float


class StopBroker(Trouble, frozen=True, kw_only=True):
    for_s: float


class CutClient(Trouble, frozen=True, kw_only=True):
    node: str


class RepeatMessages(Trouble, frozen=True, kw_only=True):
    """Every message of QoS 1 is delivered twice."""

    for_s: float


class DelayMessages(Trouble, frozen=True, kw_only=True):
    """Messages take so much longer, in their order."""

    by_s: float
    for_s: float


class TwinFault(Trouble, frozen=True, kw_only=True):
    """A fault of `hwd.model.fault`, cleared with all of its subject after `for_s`."""

    fault: dict[str, Any]
    for_s: float


class BadDisk(Trouble, frozen=True, kw_only=True):
    """The journal, or the spool of a host, fails with `error` after `writes` more writes: EIO, or ENOSPC. The records
    do so at once, or do not answer (`hangs`).
    """

    disk: str
    error: str
    writes: int
    for_s: float


AnyAct = (
    Apply
    | Confirm
    | RollBack
    | Restore
    | TakeLease
    | RenewLease
    | HearLease
    | ReleaseLease
    | KickLease
    | PrepareSet
    | SwitchSet
    | ReleaseSet
    | RunPlaybook
    | AbortRun
    | GiveUp
    | Select
    | TakeBackSwitch
    | GrantSwitch
    | Claim
    | EndTransfer
    | RunJob
    | StopJob
    | KillPlane
    | Kill
    | StopBroker
    | CutClient
    | RepeatMessages
    | DelayMessages
    | TwinFault
    | BadDisk
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a plan; `number` stays as it is where other steps are left out."""

    number: int
    at_s: float
    act: AnyAct


class Departure(msgspec.Struct, frozen=True, kw_only=True):
    """The step of a task with this number waits for so many turns of the loop: others overtake it."""

    step: int
    turns: int


class WorldPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a world; `departures`: None where drawn from the seed, `one_in` so many steps of tasks (0: none)."""

    seed: int
    rack: str
    steps: tuple[Step, ...]
    one_in: int
    departures: tuple[Departure, ...] | None = None

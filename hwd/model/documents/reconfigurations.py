"""What the daemon tells of reconfigurations. With `source` local, a host has set its own switches."""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from hwd.model.hang import Hang
from hwd.model.interlock import Interlock
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.prediction import PlanPrediction
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.values import Crossconnect, PortSide


class ReconfigurationFact(Fact, frozen=True, kw_only=True):
    """Of one reconfiguration; `reconfiguration` is its id."""

    reconfiguration: str


class StartedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that is wanted. `kept`: none of its crossconnects moves. `crossconnects`: `ocs1:1A-2B`. `step`: the one
    that makes it, from 1 on, where the plan has steps.
    """

    link: Link
    kept: bool
    switches: list[str] | UnsetType = UNSET
    crossconnects: list[SwitchCrossconnect] | UnsetType = UNSET
    step: int | UnsetType = UNSET


class StartedMove(msgspec.Struct, frozen=True, kw_only=True):
    """What one switch is to do: crossconnects such as `1A-2B`. `lasting`: those whose earlier state it does not say."""

    switch: str
    remove: list[Crossconnect]
    add: list[Crossconnect]
    lasting: list[Crossconnect] | UnsetType = UNSET


class WantedSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of one switch: crossconnects such as `1A-2B`, and fibre ends that shall have none."""

    switch: str
    crossconnects: list[Crossconnect]
    free: list[PortSide]


class ReconfigurationStarted(ReconfigurationFact, frozen=True, kw_only=True):
    """The first command is next.

    `sweep`: {variable: value} of its run; `settings`: {NIC port: {setting: value}} that runs have in force. `lease`:
    the one under which it was asked for, None without one; `holder` and `lease_epoch`: of that lease. `overridden`:
    interlocks that somebody overrode, with the reason. `by`: who asked for it; `verified`: by a token of that name,
    else it is what the caller stated. `dark_at_once`: of a plan with steps, the most links dark in one of them.
    `prepared_set`, `target`: of one that brings a prepared set to a target. `override_of`: whose right the caller
    overrode for it, and why: `job k3v9a1xx (train): WHY`.
    `from_journal`: see `reconfiguration.ended`.
    """

    KIND: ClassVar = "reconfiguration.started"
    run: str | None
    hash: str
    what: str
    sweep: dict[str, Any] = msgspec.field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    links: list[StartedLink]
    moves: list[StartedMove]
    lease: str | UnsetType | None = UNSET
    lease_epoch: int | UnsetType = UNSET
    holder: str | UnsetType = UNSET
    overridden: list[Interlock] | UnsetType = UNSET
    by: str | UnsetType = UNSET
    verified: bool | UnsetType = UNSET
    prepared_set: str | UnsetType = UNSET
    target: str | UnsetType = UNSET
    override_of: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    epochs: dict[str, int] | UnsetType = UNSET
    dark_at_once: int | UnsetType = UNSET
    from_journal: bool | UnsetType = UNSET


class ReconfigurationCommanded(ReconfigurationFact, frozen=True, kw_only=True):
    """One switch was commanded.

    `window_s`: from the end of our last read to the first byte; None for a host's own switch. `asked_s`: from the call
    to the first byte, of a prepared set alone: a read that goes before the change is in it. `error_ns`: of the host's
    clock. `source`: `host h0` where that drove it. `step`: of the plan, where that has steps; `made` and `removed` are
    then its crossconnects.
    """

    KIND: ClassVar = "reconfiguration.commanded"
    switch: str
    commanded_ns: int | None
    acknowledged_ns: int | None
    commands: int
    window_s: float | None = None
    asked_s: float | UnsetType = UNSET
    error_ns: int | UnsetType = UNSET
    source: str | UnsetType = UNSET
    step: int | UnsetType = UNSET
    made: int | UnsetType = UNSET
    removed: int | UnsetType = UNSET


class ReconfigurationStep(ReconfigurationFact, frozen=True, kw_only=True):
    """A step of a plan with steps. `state`: begun, or done once it was read back and, where asked for, is ready.

    `made`: the wanted links that it makes; `dark`: links that are dark meanwhile.
    """

    KIND: ClassVar = "reconfiguration.step"
    step: int
    steps: int
    state: str
    made: list[Link]
    dark: list[Link]


class ReconfigurationState(ReconfigurationFact, frozen=True, kw_only=True):
    """`state`: journaled, driving, read-back, driven, waiting, awaiting-confirm, confirming, rolling-back.

    `awaiting-confirm` comes again at each start of the daemon that goes on waiting.
    """

    KIND: ClassVar = "reconfiguration.state"
    state: str


class ReconfigurationEnded(ReconfigurationFact, frozen=True, kw_only=True):
    """`outcome`: confirmed, rolled-back, failed. `hangs`: where its links hung when the wait for them ended.

    `wanted`: the desired state from here on, of the fibre ends that it names; only of a confirmed one. `stale`:
    crossconnects of its switches, `ocs1:1A-2B`, at an end of which something else is desired; `unasked`: those that
    nobody ever asked for. `prediction`: of its time, with what it was. `from_journal`: an earlier process of the daemon
    died before its records had this. The next one tells it, with the time of the journal's entry; `at_ns` is made of
    that, a long `why` may be cut, and there is no `prediction`.
    """

    KIND: ClassVar = "reconfiguration.ended"
    run: str | None
    what: str | UnsetType = UNSET
    outcome: str
    why: str
    seconds: float
    remarks: list[str] | UnsetType = UNSET
    hangs: list[Hang] | UnsetType = UNSET
    wanted: list[WantedSwitch] | UnsetType = UNSET
    stale: list[SwitchCrossconnect] | UnsetType = UNSET
    unasked: list[SwitchCrossconnect] | UnsetType = UNSET
    prediction: PlanPrediction | UnsetType = UNSET
    source: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    from_journal: bool | UnsetType = UNSET

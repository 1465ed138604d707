"""Diagnosis of a link that does not come up: the end and the stage at which it hangs, from what is known of it now.

The stages are looked at in their order, optical first. A link needs light both ways: an end that has light stays down
by the remote fault while the other one is dark. An end with carrier has passed all stages before.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from hwd.fabric.lost_light import CircuitLight, LightAt, LostLight
from hwd.model.circuit import RoutedLink
from hwd.model.hang import Hang, Power
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.stage import StageName
from hwd.model.switch import SwitchStatus
from hwd.model.testbed import Testbed

NO_SOURCE: Final = "this host has no source of it"
"""What an agent says of a source that its host does not have at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndState:
    """The known state of one end of a link now. None: not known, and `why_unknown` may say why, by stage.

    `missing`: why the agent finds no interface for it. `why_down`: what the NIC says of it.
    """

    light: LightAt = field(default_factory=LightAt)
    firmware: bool | None = None
    carrier: bool | None = None
    rdma: bool | None = None
    missing: str = ""
    why_down: str = ""
    why_unknown: Mapping[StageName, str] = field(default_factory=dict)

    def unknown(self, stage: StageName) -> str:
        return self.why_unknown.get(stage) or "nothing was heard of it"

    @property
    def module_trouble(self) -> str:
        """Why a module that should be there cannot be read; empty where it can, or where this host reads none."""
        why = self.why_unknown.get(StageName.OPTICAL, "") if self.light.lit is None else ""
        return "" if why == NO_SOURCE else why


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """The known state of the first transfer while it is waited for: the ends that are ready, and at which another port
    than the peer answered, with the text of it.
    """

    ready: Collection[NicPortId] = ()
    wrong_peers: Mapping[NicPortId, str] = field(default_factory=dict)


class Diagnosis:
    """The diagnosis of one link. `hang` is the first stage that it does not get past, None where none is known.

    `ages_s`: by switch, of powers that were read before the link lost its light: they say nothing of now.
    """

    def __init__(
        self,
        routed: RoutedLink,
        ends: Mapping[NicPortId, EndState],
        *,
        testbed: Testbed,
        switches: Mapping[str, SwitchStatus],
        ages_s: Mapping[str, float] = MappingProxyType({}),
        transfers: Transfers | None = None,
    ) -> None:
        self._routed = routed
        self._link: Link = routed.link
        self._ends = {end: ends.get(end, EndState()) for end in self._link.ends}
        self._testbed = testbed
        self._switches = switches
        self._ages_s = ages_s
        self._transfers = transfers

    @property
    def hang(self) -> Hang | None:
        for end, state in self._ends.items():
            if state.missing:
                return self._hang(StageName.CARRIER, end, state.missing)
        if all(state.carrier for state in self._ends.values()):
            return self._rdma() or self._ready()
        return self._optical() or self._weak() or self._firmware() or self._carrier()

    # --- stages

    def _optical(self) -> Hang | None:
        dark = [end for end, state in self._ends.items() if not state.carrier]
        lost = {end: found for end in dark if (found := self._first(CircuitLight.lost, end)) is not None}
        if not lost:
            return None
        if not all(one.doubtful for one in lost.values()):
            lost = {end: one for end, one in lost.items() if not one.doubtful}
        powers = tuple(power for end in self._link.ends if end in lost for power in lost[end].powers)
        certain = any(one.certain for one in lost.values())
        for end, state in self._ends.items():
            if state.module_trouble and not certain and self._link.other(end) in lost:
                why = state.module_trouble.removeprefix(f"{end}: ")
                return self._hang(StageName.OPTICAL, end, f"its module cannot be read: {why}", powers)
        if len(lost) == 1:
            ((end, one),) = lost.items()
            return self._hang(StageName.OPTICAL, end, f"{one.why}{self._remote_fault(end)}", powers)
        whys = list(dict.fromkeys(one.why for one in lost.values()))
        nears = {one.near for one in lost.values()}
        if not certain and len(nears) == 1 and (near := nears.pop()) is not None:
            ask = "Are its two fibres in, and not swapped?"
            return self._hang(StageName.OPTICAL, near, f"{'; '.join(whys)}. {ask}", powers)
        return self._hang(StageName.OPTICAL, None, f"no light either way: {'; '.join(whys)}", powers)

    def _weak(self) -> Hang | None:
        for end, state in self._ends.items():
            if state.light.lit and not state.carrier and (weak := self._first(CircuitLight.weak, end)) is not None:
                return self._hang(StageName.FIRMWARE, end, f"{weak.why}{self._remote_fault(end)}", weak.powers)
        return None

    def _firmware(self) -> Hang | None:
        down = [end for end, state in self._ends.items() if state.firmware is False and not state.carrier]
        if not down:
            return None
        end = down[0] if len(down) == 1 else None
        whys = ["the PHY is down" if end else "the PHY is up at neither end"]
        dark = [one for one in down if not self._ends[one].light.lit]
        whys += [] if dark else ["light is there"]
        whys += [f"light at {one} is unknown: {self._ends[one].unknown(StageName.OPTICAL)}" for one in dark]
        return self._hang(StageName.FIRMWARE, end, "; ".join([*whys, *self._said(down)]), self._received(*down))

    def _carrier(self) -> Hang | None:
        down = [end for end, state in self._ends.items() if state.carrier is False]
        if not down:
            return None
        end = down[0] if len(down) == 1 else None
        whys = [f"no carrier at {end}" if end else "no carrier at either end"]
        for one in down:
            state = self._ends[one]
            for stage, known in ((StageName.OPTICAL, state.light.lit), (StageName.FIRMWARE, state.firmware)):
                if known is None:
                    whys.append(f"{_STATES[stage]} at {one} is unknown: {state.unknown(stage)}")
        if end is not None and self._ends[self._link.other(end)].carrier:
            whys[0] = f"carrier at {self._link.other(end)} only"
        return self._hang(StageName.CARRIER, end, "; ".join([*whys, *self._said(down)]), self._received(*down))

    def _rdma(self) -> Hang | None:
        down = [end for end, state in self._ends.items() if state.rdma is False]
        if not down:
            return None
        where = f"of {down[0]}" if len(down) == 1 else "of both ends"
        return self._hang(
            StageName.RDMA,
            down[0] if len(down) == 1 else None,
            f"carrier is there, the RDMA port {where} is not active",
        )

    def _ready(self) -> Hang | None:
        if (transfers := self._transfers) is None:
            return None
        for end, why in transfers.wrong_peers.items():
            if end in self._ends:
                return self._hang(StageName.READY, end, why)
        late = [end for end in self._ends if end not in transfers.ready]
        if len(late) == 1:
            other = self._link.other(late[0])
            return self._hang(StageName.READY, late[0], f"carrier is there; a transfer succeeded from {other} only")
        return self._hang(StageName.READY, None, "carrier is there at both ends, and no transfer succeeded")

    # --- parts

    def _first(self, judge: Callable[[CircuitLight], LostLight | None], end: NicPortId) -> LostLight | None:
        """The first finding on the fibres to this end."""
        source, target = self._ends[self._link.other(end)].light, self._ends[end].light
        for circuit in self._routed.circuits:
            if NicPortId(host=circuit.target.owner, port=circuit.target.port) == end:
                light = CircuitLight(
                    circuit, source, target, testbed=self._testbed, switches=self._switches, ages_s=self._ages_s
                )
                if (found := judge(light)) is not None:
                    return found
        return None

    def _remote_fault(self, dark: NicPortId) -> str:
        """What holds the other end down, where that has light."""
        other = self._link.other(dark)
        state = self._ends[other]
        if not state.light.lit or state.carrier:
            return ""
        return f"; {other} has light, and the remote fault keeps it down"

    def _said(self, ends: Collection[NicPortId]) -> list[str]:
        """What the NICs at these ends say of it."""
        return [f"{end} says: {why}" for end in ends if (why := self._ends[end].why_down)]

    def _received(self, *ends: NicPortId) -> tuple[Power, ...]:
        return tuple(
            Power(at=f"{end}.rx", dbm=tuple(powers), by_lane=True)
            for end in ends
            if (powers := self._ends[end].light.received_dbm) and any(power is not None for power in powers)
        )

    def _hang(self, stage: StageName, end: NicPortId | None, why: str, powers: tuple[Power, ...] = ()) -> Hang:
        return Hang(link=self._link, end=end, stage=stage, why=why, powers=powers)


_STATES: Final = {StageName.OPTICAL: "light", StageName.FIRMWARE: "firmware"}

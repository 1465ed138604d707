"""Interlocks of light: the loss budget and the overload of each link, and the input power of each switch."""

from collections.abc import Iterable, Iterator, Mapping

from hwd.fabric.graph import at_switch
from hwd.fabric.input_power import InputPower
from hwd.fabric.loss_budget import ROUNDING_DB
from hwd.model.interlock import Interlock, InterlockName, InterlockState
from hwd.model.link import Circuit, RoutedLink, SwitchCrossconnect
from hwd.model.testbed import Module, Testbed
from hwd_drivers.core.values import FibreEnd


def loss_budget(links: Iterable[RoutedLink]) -> Iterator[Interlock]:
    """One a link, of the circuit with the least margin."""
    for link in links:
        worst = min(link.circuits, key=_margin_db)
        budget_db = worst.loss_db_max + worst.margin_db
        over = worst.margin_db < -ROUNDING_DB
        yield Interlock(
            name=InterlockName.LOSS_BUDGET,
            subject=str(link),
            figure=worst.loss_db_max,
            limit=budget_db,
            unit="dB",
            state=InterlockState.REFUSED if over else InterlockState.HOLDS,
            why=f"{worst.source} -> {worst.target} loses up to {worst.loss_db_max:.1f} dB, {-worst.margin_db:.1f} dB "
            f"over the budget of {budget_db:.1f} dB. Take a way with fewer parts, clean or replace the fibre, or use a "
            "module of longer reach"
            if over
            else "",
        )


def overload(links: Iterable[RoutedLink], receivers: Mapping[FibreEnd, Module]) -> Iterator[Interlock]:
    """One a link, of the circuit that brings most. Overload is computed at typical loss: see `Circuit`."""
    for link in links:
        worst = max(link.circuits, key=_overload_db)
        bears_dbm = receivers[worst.target].rx_max_dbm
        over = worst.overload_db > ROUNDING_DB
        yield Interlock(
            name=InterlockName.OVERLOAD,
            subject=str(link),
            figure=bears_dbm + worst.overload_db,
            limit=bears_dbm,
            unit="dBm",
            state=InterlockState.REFUSED if over else InterlockState.HOLDS,
            why=f"{worst.source} -> {worst.target} can bring {worst.overload_db:.1f} dB more than the {bears_dbm:.1f} "
            "dBm that the receiver bears. Put an attenuator into the fibre"
            if over
            else "",
        )


def input_power(
    crossconnects: Iterable[SwitchCrossconnect], powers: Mapping[FibreEnd, InputPower], testbed: Testbed
) -> Iterator[Interlock]:
    """For each switch whose crossconnects light enters: every end over the limit, or the end with most light."""
    lit: dict[str, dict[FibreEnd, InputPower]] = {}
    for one in crossconnects:
        for end in one.crossconnect.ends:
            if (power := powers.get(at_switch(one.switch, end))) is not None:
                lit.setdefault(one.switch, {})[at_switch(one.switch, end)] = power
    for name in sorted(lit):
        limit = testbed.interlocks.input_max_dbm.get(name, testbed.switches[name].capabilities.input_max_dbm)
        known = {end: power.power_dbm for end, power in lit[name].items() if power.power_dbm is not None}
        over = [end for end, power in known.items() if limit is not None and power > limit + ROUNDING_DB]
        for at in sorted(over, key=FibreEnd.sort_key):
            sources = ", ".join(map(str, lit[name][at].sources))
            why = (
                f"up to {known[at]:.1f} dBm of {sources} enter it, and it bears {limit:.1f} dBm. "
                "Put an attenuator into the fibre, or use a module of less power"
            )
            yield _input_power(at, known[at], limit, InterlockState.REFUSED, why)
        if over:
            continue
        strongest = max(known, key=lambda end: (known[end], str(end)), default=None)
        if limit is None:
            why = (
                f"what {name} bears is not known: its model does not state it. "
                f"Set it by `interlocks: {{input-power: {{max_dbm: {{{name}: ...}}}}}}`"
            )
            subject = strongest or min(lit[name], key=FibreEnd.sort_key)
            yield _input_power(subject, known.get(subject), None, InterlockState.UNKNOWN, why)
        elif strongest is None or len(known) < len(lit[name]):
            dark = min((end for end in lit[name] if end not in known), key=FibreEnd.sort_key)
            why = f"how strong the light of {', '.join(map(str, lit[name][dark].sources))} is, is not known"
            yield _input_power(dark, None, limit, InterlockState.UNKNOWN, why)
        else:
            yield _input_power(strongest, known[strongest], limit, InterlockState.HOLDS)


def _input_power(
    end: FibreEnd, power_dbm: float | None, limit_dbm: float | None, state: InterlockState, why: str = ""
) -> Interlock:
    return Interlock(
        name=InterlockName.INPUT_POWER,
        subject=f"{end.owner}:{end.port_side}",
        figure=power_dbm,
        limit=limit_dbm,
        unit="dBm",
        state=state,
        why=why,
    )


def _margin_db(circuit: Circuit) -> float:
    return circuit.margin_db


def _overload_db(circuit: Circuit) -> float:
    return circuit.overload_db

"""Interlocks of light: the loss budget and the overload of each link, and the input power of each switch."""

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from hwd.fabric.input_power import InputPower
from hwd.fabric.loss_budget import ROUNDING_DB
from hwd.model.circuit import RoutedLink
from hwd.model.interlock import Interlock, InterlockName, InterlockState
from hwd.model.testbed import Module, Testbed
from hwd_drivers.core.values import Crossconnect, FibreEnd, PortSide


def loss_budget(links: Iterable[RoutedLink]) -> Iterator[Interlock]:
    """One a link, of the circuit with the least margin."""
    for link in links:
        worst = min(link.circuits, key=attrgetter("margin_db"))
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
        worst = max(link.circuits, key=attrgetter("overload_db"))
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
    crossconnects: Mapping[str, Iterable[Crossconnect]],
    powers: Mapping[str, Mapping[PortSide, InputPower]],
    testbed: Testbed,
) -> Iterator[Interlock]:
    """Check the light that enters each switch: every end over the limit, or the end with most light."""
    for name in sorted(crossconnects.keys() & powers.keys()):
        there = powers[name]
        lit = {end: power for one in crossconnects[name] for end in one.ends if (power := there.get(end)) is not None}
        if not lit:
            continue
        limit = testbed.interlocks.input_max_dbm.get(name, testbed.switches[name].capabilities.input_max_dbm)
        known = {end: power.power_dbm for end, power in lit.items() if power.power_dbm is not None}
        over = [end for end, power in known.items() if limit is not None and power > limit + ROUNDING_DB]
        for at in sorted(over, key=PortSide.sort_key):
            sources = ", ".join(lit[at].sources)
            why = (
                f"up to {known[at]:.1f} dBm of {sources} enter it, and it bears {limit:.1f} dBm. "
                "Put an attenuator into the fibre, or use a module of less power"
            )
            yield _input_power(name, at, known[at], limit, InterlockState.REFUSED, why)
        if over:
            continue
        strongest = max(known, key=lambda end: (known[end], end), default=None)
        if limit is None:
            why = (
                f"what {name} bears is not known: its model does not state it. "
                f"Set it by `interlocks: {{input-power: {{max_dbm: {{{name}: ...}}}}}}`"
            )
            subject = strongest or min(lit, key=PortSide.sort_key)
            yield _input_power(name, subject, known.get(subject), None, InterlockState.UNKNOWN, why)
        elif strongest is None or len(known) < len(lit):
            dark = min((end for end in lit if end not in known), key=PortSide.sort_key)
            why = f"how strong the light of {', '.join(lit[dark].sources)} is, is not known"
            yield _input_power(name, dark, None, limit, InterlockState.UNKNOWN, why)
        else:
            yield _input_power(name, strongest, known[strongest], limit, InterlockState.HOLDS)


def _input_power(
    switch: str,
    end: PortSide,
    power_dbm: float | None,
    limit_dbm: float | None,
    state: InterlockState,
    why: str = "",
) -> Interlock:
    return Interlock(
        name=InterlockName.INPUT_POWER,
        subject=f"{switch}:{end}",
        figure=power_dbm,
        limit=limit_dbm,
        unit="dBm",
        state=state,
        why=why,
    )

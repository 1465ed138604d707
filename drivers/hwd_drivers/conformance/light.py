"""Checks of monitors, overrides and attenuators: the driver's readings against the optics of the twin."""

import asyncio

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.conformance.session import ConformanceError, arrange, at_rest, expect, read_arrangement, soon
from hwd_drivers.core.values import (
    Attenuation,
    AttenuationMode,
    Capabilities,
    Crossconnect,
    PortOverride,
    PortSide,
    Side,
)
from hwd_drivers.devices.abilities import Attenuators, PortOverrides, PowerReadings

INPUT_DBM = 1.0
NEAR_DB = 0.2
"""In dB: more than noise and rounding to a tenth can change a reading."""
SETTLED_S = 1.0
"""Added to the stated settling time: the longest default averaging time of a twin's monitor."""
LEVEL_DBM = -12.0


async def check_power(bench: Bench) -> str | None:
    """Monitors read passing light, and None without light."""
    async with at_rest(bench) as device:
        capabilities = await device.capabilities(deadline_s=soon())
        if not capabilities.monitored:
            return "it has no power monitors"
        if not isinstance(device, PowerReadings):
            raise ConformanceError("conformance: it has monitors and cannot read power")
        if bench.twin is None:
            readings = await device.read_power(capabilities.monitored, deadline_s=soon())
            ends = tuple(reading.end for reading in readings)
            expect(ends == tuple(capabilities.monitored), f"asked for {capabilities.monitored}, got {ends}")
            return None
        pair, end = _monitored(bench, capabilities)
        source = pair.b if end == pair.a and pair.a.side is not Side.A else pair.a
        mirror = bench.twin.mirror
        (dark,) = await device.read_power([end], deadline_s=soon())
        expect(dark.end == end and dark.power_dbm is None, f"light without a source: {dark}")
        mirror.set_input(source, INPUT_DBM)
        try:
            await arrange(device, bench.arrangements.rest, bench.arrangements.full)
            await _settled(bench)
            (lit,) = await device.read_power([end], deadline_s=soon())
            out_dbm = mirror.output(end, bench.clock.monotonic_ns())
            wanted_dbm = INPUT_DBM if end == source else out_dbm
            assert wanted_dbm is not None
            near = lit.power_dbm is not None and abs(lit.power_dbm - wanted_dbm) < NEAR_DB
            expect(near, f"{lit}, the model has {wanted_dbm:.2f} dBm")
            expect(end == source or wanted_dbm < INPUT_DBM, "the path has no loss")
        finally:
            mirror.set_input(source, None)
    return None


async def check_override(bench: Bench) -> str | None:
    """A blocked end is dark and read as blocked, and its crossconnect stays; after unblocking light passes."""
    blockable = frozenset(bench.capabilities.blockable)
    if not blockable:
        return "it cannot make ends dark"
    pair = next((one for one in _new_pairs(bench) if not blockable.isdisjoint(one.ends)), None)
    if pair is None:
        return "it cannot block any end of this check"
    end = pair.b if pair.b in blockable else pair.a
    async with at_rest(bench) as device:
        if not isinstance(device, PortOverrides):
            raise ConformanceError("conformance: it has ends that can be blocked and cannot block them")
        await arrange(device, bench.arrangements.rest, bench.arrangements.full)
        expect(await _override_of(device, end) is PortOverride.NORMAL, f"{end} is blocked from the start")
        if bench.twin is not None:
            bench.twin.mirror.set_input(pair.a, INPUT_DBM)
        try:
            await _settled(bench)
            _expect_light(bench, pair, True)
            await device.override([end], PortOverride.FORCE_BLOCKED, deadline_s=soon())
            await _settled(bench)
            expect(await _override_of(device, end) is PortOverride.FORCE_BLOCKED, f"{end} is not read as blocked")
            expect(
                await read_arrangement(device, bench) == bench.arrangements.full, "blocking changed the crossconnects"
            )
            _expect_light(bench, pair, False)
        finally:
            await device.override([end], PortOverride.NORMAL, deadline_s=soon())
            await _settled(bench)
        try:
            expect(await _override_of(device, end) is PortOverride.NORMAL, f"{end} is still read as blocked")
            _expect_light(bench, pair, True)
        finally:
            if bench.twin is not None:
                bench.twin.mirror.set_input(pair.a, None)
    return None


async def check_attenuation(bench: Bench) -> str | None:
    """An output with an attenuator has the set power, reports it, and has its own power after release."""
    attenuated = frozenset(bench.capabilities.attenuated)
    if not attenuated:
        return "it has no variable attenuators"
    pair = next((one for one in _new_pairs(bench) if one.b in attenuated), None)
    if pair is None or bench.twin is None:
        return "it has no attenuator behind a path of this check whose light is known"
    mirror = bench.twin.mirror
    held = Attenuation(end=pair.b, mode=AttenuationMode.ABSOLUTE, level=LEVEL_DBM)
    async with at_rest(bench) as device:
        if not isinstance(device, Attenuators):
            raise ConformanceError("conformance: it has attenuators and cannot set them")
        await arrange(device, bench.arrangements.rest, bench.arrangements.full)
        mirror.set_input(pair.a, INPUT_DBM)
        try:
            await device.attenuate([held], deadline_s=soon())
            await _settled(bench)
            (read,) = await device.read_attenuation([pair.b], deadline_s=soon())
            said = read.mode is held.mode and read.level is not None and abs(read.level - LEVEL_DBM) < NEAR_DB
            expect(said, f"set to {LEVEL_DBM} dBm, it reports {read}")
            out_dbm = mirror.output(pair.b, bench.clock.monotonic_ns())
            expect(out_dbm is not None and abs(out_dbm - LEVEL_DBM) < NEAR_DB, f"{pair.b} has {out_dbm} dBm")
        finally:
            await device.attenuate([Attenuation(end=pair.b, mode=AttenuationMode.NONE)], deadline_s=soon())
        await _settled(bench)
        out_dbm = mirror.output(pair.b, bench.clock.monotonic_ns())
        mirror.set_input(pair.a, None)
        expect(out_dbm is not None and out_dbm > LEVEL_DBM + 5, f"released, {pair.b} has {out_dbm} dBm")
    return None


def _new_pairs(bench: Bench) -> list[Crossconnect]:
    """Pairs of `full` that do not exist at rest."""
    new = bench.arrangements.full - bench.arrangements.rest
    return sorted(new, key=Crossconnect.sort_key)


def _monitored(bench: Bench, capabilities: Capabilities) -> tuple[Crossconnect, PortSide]:
    """A monitor behind a new path, else one before it."""
    pairs = _new_pairs(bench)
    for pair, end in (*((pair, pair.b) for pair in pairs), *((pair, pair.a) for pair in pairs)):
        if end in capabilities.monitored:
            return pair, end
    raise ConformanceError(
        "conformance: no end of the crossconnects of this check has a monitor, though the switch has some"
    )


async def _override_of(device: PortOverrides, end: PortSide) -> PortOverride:
    overrides = await device.read_overrides([end], deadline_s=soon())
    expect(set(overrides) == {end}, f"asked for {end}, got {sorted(overrides)}")
    return overrides[end]


async def _settled(bench: Bench) -> None:
    await asyncio.sleep(2 * bench.capabilities.settle_s + SETTLED_S)


def _expect_light(bench: Bench, pair: Crossconnect, wanted: bool) -> None:
    if bench.twin is None:
        return
    out_dbm = bench.twin.mirror.output(pair.b, bench.clock.monotonic_ns())
    expect(
        (out_dbm is not None) is wanted, f"{pair.b} has {out_dbm} dBm, light should {'' if wanted else 'not '}be there"
    )

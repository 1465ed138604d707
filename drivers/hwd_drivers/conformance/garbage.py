"""Checks with arbitrary bytes in place of a device's answers, and with answers without an end."""

import asyncio
import random
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Final

from hwd_drivers.conformance.answer_tap import TappedDialer
from hwd_drivers.conformance.basics import ask
from hwd_drivers.conformance.bench import Bench
from hwd_drivers.conformance.session import arrange, at_rest, expect, expect_exactly, read_arrangement
from hwd_drivers.conformance.uncaught_errors import UncaughtErrors, collect_uncaught
from hwd_drivers.core.errors import BugError, HwdError
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices.abilities import Device
from hwd_drivers.twins.virtual_time import VirtualLoop

SEED: Final = 20
ROUNDS: Final = 12
"""Number of samples of each form of garbage."""
REAL_ROUNDS: Final = 2
"""Number of samples in real time, where a session takes a second."""
ANSWER_S: Final = 1.0
"""Limit for an exchange that gets garbage for an answer."""
OPENING_S: Final = 20.0
"""Limit for opening such a session."""
HELD_S: Final = 0.2
"""After this time without an answer the device counts as not asked."""
CHUNK_BYTES: Final = 1 << 16
ENDLESS_BYTES: Final = 8 << 20
"""Bytes sent of an answer without an end. The longest answer that a driver here accepts is 4 MB."""
KEPT_BYTES: Final = 6 << 20
"""Most bytes of it that a driver may hold; one that does not end the connection must have dropped the rest."""
TAKING_S: Final = 2.0
"""A driver that stops reading for so long has bounded its buffer that way."""

STEP_S: Final = 0.01
"""Interval of polling."""

Form = Callable[[random.Random, bytes], bytes]
"""Garbage made from an answer of the device."""


def _noise(rng: random.Random, answer: bytes) -> bytes:
    return rng.randbytes(rng.choice((1, 3, 40, 700, 5000)))


def _words(rng: random.Random, answer: bytes) -> bytes:
    lines = ("".join(rng.choices(" ,;:=<>{}[]()\"'-+.0123456789abcXYZ", k=rng.randrange(60))) for _ in range(20))
    return "\r\n".join(lines).encode() + b"\r\n"


def _ends(rng: random.Random, answer: bytes) -> bytes:
    return bytes(rng.choices(b"\r\n;>\x00\x03\x04 \xff", k=200))


def _other_bytes(rng: random.Random, answer: bytes) -> bytes:
    """The answer with a few bytes of it changed."""
    spoiled = bytearray(answer)
    for _ in range(rng.randint(1, 4)):
        spoiled[rng.randrange(len(spoiled))] = rng.randrange(256)
    return bytes(spoiled)


def _cut_out(rng: random.Random, answer: bytes) -> bytes:
    """The answer without a piece of it, or with a piece twice."""
    start, end = sorted((rng.randrange(len(answer) + 1), rng.randrange(len(answer) + 1)))
    return answer[:start] + answer[end:] if rng.random() < 0.5 else answer[:end] + answer[start:]


def _no_numbers(rng: random.Random, answer: bytes) -> bytes:
    """The answer with words where it has numbers."""
    return bytes(rng.choice(b"xQ?-") if byte in b"0123456789" else byte for byte in answer)


def _wide_numbers(rng: random.Random, answer: bytes) -> bytes:
    """The answer with numbers that are too large, negative, or in other scripts."""
    wide = rng.choice((b"99999999999999999999", b"-1", "\u00b2".encode(), "\u0663".encode(), b"1e999", b"nan"))
    return b"".join(wide if byte in b"0123456789" and rng.random() < 0.5 else bytes([byte]) for byte in answer)


def _not_text(rng: random.Random, answer: bytes) -> bytes:
    """The answer with inserted bytes that are not UTF-8."""
    at = rng.randrange(len(answer) + 1)
    return answer[:at] + b"\xff\xc3(\xed\xa0\x80" + answer[at:]


FORMS: Final[tuple[Form, ...]] = (
    _noise,
    _words,
    _ends,
    _other_bytes,
    _cut_out,
    _no_numbers,
    _wide_numbers,
    _not_text,
)
FILLERS: Final = (b"x", b"\x00", b"1", b" ", b"\xff", b"a\r\n")
"""Filler bytes of an answer without an end."""


async def check_arbitrary_bytes(bench: Bench) -> None:
    """Check that with arbitrary bytes for answers an exchange or opening ends in time, with an answer or one of our
    errors.
    """
    rng = Draws(SEED).stream("conformance/garbage")
    await _fill(bench)
    for form in FORMS * (ROUNDS if isinstance(asyncio.get_running_loop(), VirtualLoop) else REAL_ROUNDS):
        for while_opening in (False, True):
            with collect_uncaught() as errors:
                await _answered_by(bench, _tap_of(bench), form, rng, errors, while_opening=while_opening)
            after = " while it was opened" if while_opening else ""
            expect(
                not errors.counts,
                f"{form.__name__.strip('_').replace('_', ' ')} in place of an answer{after}: {errors}",
            )
    await _is_well(bench)


async def check_endless_answer(bench: Bench) -> None:
    """An answer without an end is not stored: the connection ends, or bytes over the limit are dropped."""
    tap = _tap_of(bench)
    await _fill(bench)
    for filler in FILLERS:
        device = await bench.open()
        tap.holds, tap.held = True, b""
        with collect_uncaught() as errors:
            exchange = asyncio.create_task(_ask(bench, device), name="hwd:bench/endless")
            try:
                await _until_held(tap)
                for begin in (tap.held[: len(tap.held) // 2], b""):
                    kept = await _flood(tap, begin, filler, errors)
                    what = f"an answer that begins {begin[:20]!r} and goes on with {filler!r} for {ENDLESS_BYTES} bytes"
                    expect(
                        kept <= KEPT_BYTES,
                        f"{what}: it holds {kept} bytes, allowed {KEPT_BYTES}. Limit what is buffered",
                    )
                await _ends_well(exchange, ANSWER_S + bench.grace_s, errors)
            finally:
                tap.holds = False
                exchange.cancel()
                await asyncio.wait((exchange,))
                await device.close()
        expect(not errors.counts, f"an answer without an end: {errors}")
    await _is_well(bench)


def _tap_of(bench: Bench) -> TappedDialer:
    assert bench.tap is not None, "every twin has one"
    return bench.tap


async def _answered_by(
    bench: Bench, tap: TappedDialer, form: Form, rng: random.Random, errors: UncaughtErrors, *, while_opening: bool
) -> None:
    device = None if while_opening else await bench.open()
    tap.holds, tap.held = True, b""
    work = _open_and_close(bench) if device is None else _ask(bench, device)
    exchange = asyncio.create_task(work, name="hwd:bench/garbage")
    try:
        await _until_held(tap)
        tap.feed(form(rng, tap.held or b"0"), errors)
        await _ends_well(exchange, OPENING_S if device is None else ANSWER_S + bench.grace_s, errors)
    finally:
        tap.holds = False
        exchange.cancel()
        await asyncio.wait((exchange,))
        if device is not None:
            await device.close()


async def _ask(bench: Bench, device: Device) -> None:
    await ask(device, bench, asyncio.get_running_loop().time() + ANSWER_S)


async def _open_and_close(bench: Bench) -> None:
    device = await bench.open()
    await device.close()


async def _ends_well(exchange: "asyncio.Task[None]", limit_s: float, errors: UncaughtErrors) -> None:
    """Expect an answer or one of our errors, in time; other exceptions are collected in `errors`."""
    await asyncio.wait((exchange,), timeout=limit_s)
    expect(exchange.done(), f"garbage was neither an answer nor an error within {limit_s:g} s")
    error = exchange.exception()
    if error is not None and (not isinstance(error, HwdError) or isinstance(error, BugError)):
        errors.take(error)


async def _until_held(tap: TappedDialer) -> None:
    """Wait until the device has answered, or has had enough time."""
    for _ in _steps(HELD_S):
        if tap.held:
            return
        await asyncio.sleep(STEP_S)


async def _flood(tap: TappedDialer, begin: bytes, filler: bytes, errors: UncaughtErrors) -> int:
    """Feed an answer without an end.

    Returns how many more bytes are held than before, 0 if the connection was ended.
    """
    chunk = filler * (CHUNK_BYTES // len(filler))
    traced = tracemalloc.is_tracing()
    if not traced:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tap.feed(begin, errors)
        for _ in range(ENDLESS_BYTES // CHUNK_BYTES):
            if not await _takes(tap):
                break
            tap.feed(chunk, errors)
            await asyncio.sleep(0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        if not traced:
            tracemalloc.stop()
    return after - before if tap.open else 0


async def _takes(tap: TappedDialer) -> bool:
    """Whether the driver reads, within `TAKING_S`."""
    for _ in _steps(TAKING_S):
        if tap.reading:
            return True
        if not tap.open:
            return False
        await asyncio.sleep(STEP_S)
    return False


def _steps(limit_s: float) -> Iterator[int]:
    return iter(range(round(limit_s / STEP_S)))


async def _fill(bench: Bench) -> None:
    """Make crossconnects, so that answers have content."""
    device = await bench.open()
    try:
        await arrange(device, await read_arrangement(device, bench), bench.arrangements.full)
    finally:
        await device.close()


async def _is_well(bench: Bench) -> None:
    """A new session reads the right state."""
    async with at_rest(bench) as device:
        await expect_exactly(device, bench, bench.arrangements.rest)

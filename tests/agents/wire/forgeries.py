"""Messages with one value forged, or one that no encoder writes: of a seed."""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

RAW: Final = b'"@@raw@@"'
RAWS: Final = (
    b"NaN",
    b"Infinity",
    b"1e999",
    b"-0",
    b"9" * 4000,
    b'"\\ud800"',
    b'"\\udfff\\u0000"',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b"[" * 2000 + b"]" * 2000,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b'{"carrier":true,"carrier":[],"carrier":false}',
    b"",
    b'"unfinished',
)
"""What no encoder writes, in the place of a value."""
WRONG: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    7,
    1 << 31,
    1 << 62,
    1 << 63,
    (1 << 64) - 1,
    1 << 200,
    -(1 << 62),
    0.5,
    -1e308,
    "",
    "x" * 300,
    "x" * 9000,
    "\u001b[2J\r\n\u202e[red]",
    "no-such-host.example",
    "boot-0",
    [],
    [None],
    [[[[]]]],
    [0.5] * 70,
    ["1A-2B"] * 5000,
    {},
    {"a": {"b": {"c": []}}},
    {f"key {number}": number for number in range(300)},
)
HOLE: Final = object()


def paths(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if way:
        yield way
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(one, (*way, key))


def forged(value: Any, way: tuple[Any, ...], wrong: Any) -> Any:
    """With one value in the place of another, or nothing there."""
    if not way:
        return wrong
    key, *rest = way
    items = dict(value.items() if isinstance(value, dict) else enumerate(value))
    new = forged(items[key], tuple(rest), wrong)
    items = {one: new if one == key else old for one, old in items.items() if one != key or new is not HOLE}
    return items if isinstance(value, dict) else list(items.values())


def forgeries(seed: int, count: int, known: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, bytes]]:
    """(leaf, payload): each field of each message of `known` once, then more of them at random, until there are so
    many.
    """
    draw = random.Random(seed)
    leaves = sorted({leaf for leaf, _ in known})
    every = [(leaf, message, way) for leaf, message in known for way in paths(message)]
    draw.shuffle(every)
    for number in range(count):
        leaf, message, way = every[number] if number < len(every) else draw.choice(every)
        if draw.random() < 0.1:  # where it does not belong
            leaf = draw.choice(leaves)
        raw = None
        match draw.randrange(8):
            case 0:
                message = forged(message, way, HOLE)
            case 1:
                message, raw = forged(message, way, RAW.decode().strip('"')), draw.choice(RAWS)
            case 2:
                _, other, place = draw.choice(every)
                message = forged(message, way, at(other, place))
            case _:
                message = forged(message, way, draw.choice(WRONG))
        if isinstance(message, dict) and "events" in message and isinstance(message["events"], list):
            message["events"] = [
                one | {"seq": draw.randrange(1, 5000)} if isinstance(one, dict) and draw.random() < 0.8 else one
                for one in message["events"]
            ]
        payload = msgspec.json.encode(message) if raw is None else msgspec.json.encode(message).replace(RAW, raw)
        yield leaf, payload if draw.random() < 0.98 else payload[: draw.randrange(len(payload) + 1)]


def at(value: Any, way: tuple[Any, ...]) -> Any:
    for key in way:
        value = value[key]
    return value

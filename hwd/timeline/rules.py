"""The order that instants must keep, and its breaches."""

from collections.abc import Mapping

from hwd.model.instant import Instant, InstantName, Knowledge

_N = InstantName

CHAINS: tuple[tuple[InstantName, ...], ...] = (
    (_N.COMMANDED, _N.DARK, _N.LIGHT, _N.FIRMWARE, _N.CARRIER, _N.READY),
    (_N.COMMANDED, _N.DARK, _N.LIGHT, _N.FIRMWARE, _N.RDMA, _N.READY),
    (_N.COMMANDED, _N.ACKNOWLEDGED),
)
"""Each instant is at or before all that follow it in its chain; carrier and rdma have no order, nor have acknowledged
and light.
"""

_NS_IN_MS = 1e6


def breaches(subject: str, instants: Mapping[InstantName, Instant]) -> tuple[str, ...]:
    """One text for each pair that is out of order beyond both bounds, except where a nearer breach implies it.

    Times in the texts count from `commanded` where it is seen.
    """
    seen = {name: instant for name, instant in instants.items() if instant.knowledge is Knowledge.SEEN}
    found: list[tuple[InstantName, InstantName]] = []
    for whole in CHAINS:
        chain = [name for name in whole if name in seen]
        for distance in range(1, len(chain)):
            for index in range(len(chain) - distance):
                pair = chain[index], chain[index + distance]
                if seen[pair[0]].earliest_ns <= seen[pair[1]].latest_ns or pair in found:
                    continue
                inside = chain[index : index + distance + 1]
                if any(first in inside and second in inside for first, second in found):
                    continue
                found.append(pair)
    return tuple(_text(subject, seen[first], seen[second], _zero_ns(instants)) for first, second in found)


def _zero_ns(instants: Mapping[InstantName, Instant]) -> int:
    commanded = instants.get(InstantName.COMMANDED)
    return commanded.at_ns if commanded is not None and commanded.knowledge is Knowledge.SEEN else 0


def _text(subject: str, first: Instant, second: Instant, zero_ns: int) -> str:
    by_ms = (first.earliest_ns - second.latest_ns) / _NS_IN_MS
    return (
        f"{subject}: {_stamp(first, zero_ns)} should not be after {_stamp(second, zero_ns)}, "
        f"and is by {by_ms:.3f} ms beyond both bounds"
    )


def _stamp(instant: Instant, zero_ns: int) -> str:
    """Its bounds as they are judged, and not its best estimate: that may lie anywhere between them."""
    low_ms, high_ms = ((at_ns - zero_ns) / _NS_IN_MS for at_ns in (instant.earliest_ns, instant.latest_ns))
    within = f"{low_ms:.3f}" if low_ms == high_ms else f"{low_ms:.3f} to {high_ms:.3f}"
    return f"{instant.name} at {within} ms" + (f" ({instant.source})" if instant.source else "")

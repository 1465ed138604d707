"""What a twin really did, and when: the bracket that measurements are judged by."""

from dataclasses import dataclass

from hwd.model.testbed import NicPortId
from hwd.twin.nic import What


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """`what` of `port` came or went between the two stamps, `Clock.monotonic_ns` of the rack's machine."""

    port: NicPortId
    what: What
    up: bool
    before_ns: int
    after_ns: int

"""Twins in a process of their own: `python -m bench.processes.twins SIZE COUNT [DRIVER MODEL TIMING]`.

It prints their addresses in one line. They are zero-delay TL1 twins by default.
"""

import asyncio
import sys

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices import registry
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.timing import find_timing


async def main(
    size: str, count: int, driver: str = "polatis-tl1", model: str = "polatis-6000", timing: str = "ideal"
) -> None:
    spec = registry.find(driver)
    addresses: list[str] = []
    for number in range(count):
        twin = twin_of(spec).make(
            name=f"twin{number}",
            capabilities=spec.capabilities(model, size),
            timing=find_timing(timing),
            draws=Draws(number),
            clock=SystemClock(),
            dialer=TcpDialer(),
            address="127.0.0.1:0",
            options={},
        )
        addresses.append(await twin.start())
    print(" ".join(addresses), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))

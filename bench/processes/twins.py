"""Zero-delay TL1 twins in a process of their own: `python -m bench.processes.twins SIZE COUNT` says their addresses in one line."""

import asyncio
import sys

from hwd_drivers.kit import registry
from hwd_drivers.kit.clock import SystemClock
from hwd_drivers.kit.dial import TcpDialer
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.timing import find_timing


async def main(size: str, count: int) -> None:
    spec = registry.find("polatis-tl1")
    addresses: list[str] = []
    for number in range(count):
        twin = spec.twin(
            name=f"twin{number}",
            capabilities=spec.capabilities("polatis-6000", size),
            timing=find_timing("ideal"),
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
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

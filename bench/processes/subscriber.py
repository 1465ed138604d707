"""A bare aiomqtt subscriber: `python -m bench.processes.subscriber PORT FILTER`.

Each line of input is a number of messages; the output is the time of the last of them (CLOCK_MONOTONIC_RAW, ns).
Nothing is done with a message.
"""

import asyncio
import socket
import sys
import time

import aiomqtt

NODELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def main(port: str, topic_filter: str) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with aiomqtt.Client("127.0.0.1", int(port), socket_options=[NODELAY]) as client:
        await client.subscribe(topic_filter, qos=1)
        print("ready", flush=True)
        while line := await lines.readline():
            left = int(line)
            async for _ in client.messages:
                left -= 1
                if not left:
                    break
            print(time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""A bare MQTT client: `python -m bench.processes.publisher HOST PORT TOPIC BYTES`.

Each line of input is one publish at QoS 1.
A message is its own stamp (CLOCK_MONOTONIC_RAW, ns), filled up to so many bytes.
"""

import asyncio
import socket
import sys
import time

import aiomqtt

NODELAY = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def main(host: str, port: str, topic: str, size_bytes: str) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with aiomqtt.Client(host, int(port), socket_options=[NODELAY]) as client:
        print("ready", flush=True)
        while await lines.readline():
            stamp_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            await client.publish(topic, f"{stamp_ns}".ljust(int(size_bytes)).encode(), qos=1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

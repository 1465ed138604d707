"""A service that does nothing, with the libraries of the daemon: `python -m bench.processes.service DATABASE`.

It prints a line when it is ready. It has an embedded broker with a client, an SQLite file with a table, an HTTP server
with one route that has answered.
"""

import asyncio
import signal
import sys

import aiomqtt
import httpx2
import sqlalchemy as sa
from fastapi import FastAPI

from hwd.bus.broker import EmbeddedBroker
from hwd.web.server import HttpServer, listen


async def main(database: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    engine = sa.create_engine(f"sqlite:///{database}")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE IF NOT EXISTS empty (id INTEGER PRIMARY KEY)"))
    app = FastAPI()
    app.add_api_route("/", _nothing)
    server = HttpServer(app, listen("127.0.0.1", 0), before_stop=ended.set)
    broker = EmbeddedBroker()
    _, _, port = (await broker.start()).rpartition(":")
    async with aiomqtt.Client("127.0.0.1", int(port)) as client:
        await client.subscribe("#", qos=1)
        url = await server.start()
        async with httpx2.AsyncClient(trust_env=False) as http:
            (await http.get(url)).raise_for_status()
        print("ready", flush=True)
        await ended.wait()
        await server.stop()
    await broker.close()
    engine.dispose()


def _nothing() -> dict[str, str]:
    return {}


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

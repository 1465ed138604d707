"""Every model that is installed can be served alone: it says where it listens, and does."""

import asyncio

import pytest

from hwd.config.run_files.places import rack_of
from hwd.twin.single import Serving, serve_single
from hwd.twin.twin_settings import TwinSettings
from hwd_drivers.devices import registry

MODELS = [(driver, model) for driver in registry.names() for model in registry.find(driver).models]


@pytest.mark.usefixtures("run_home")
@pytest.mark.parametrize(("driver", "model"), MODELS, ids=["-".join(each) for each in MODELS])
async def test_it_is_served(driver: str, model: str) -> None:
    size = registry.find(driver).sizes.get(model)
    settings = TwinSettings.parse(model, [f"size={size}"] if size else [], driver=driver)
    up: asyncio.Future[Serving] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve_single(settings, up.set_result, listen="127.0.0.1:0"))

    def ended(task: asyncio.Task[None]) -> None:
        if not up.done():
            up.set_exception(task.exception() or AssertionError("it ended"))

    task.add_done_callback(ended)
    serving = await up
    assert serving.name == model
    assert serving.address in serving.addresses.values()
    assert rack_of(model) is not None
    host, _, port = serving.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.close()
    task.cancel()
    await asyncio.wait([task])

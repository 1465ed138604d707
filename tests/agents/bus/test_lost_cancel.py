import asyncio

import pytest

from hwd_agents.bus.mqtt import _recovering_cancel


async def test_a_cancel_that_comes_with_the_answer_is_not_lost() -> None:
    answer = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        with _recovering_cancel():
            await asyncio.wait_for(answer, 10)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    answer.set_result(None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

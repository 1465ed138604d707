"""Long answers are the same as those made in one go, and other tasks have their turn meanwhile."""

import asyncio

import pytest
from msgspec import UNSET

from hwd.model.api_value import ApiValue
from hwd.model.status import Readiness
from hwd.model.switch import SwitchChange
from hwd.web.turns import WRITTEN_AT_ONCE, in_turns, to_json_in_turns
from hwd_drivers.core.structs import to_json

LONG = [Readiness(ready=False, why=['", ['] * count) for count in (0, 1, WRITTEN_AT_ONCE, 3 * WRITTEN_AT_ONCE + 1)]


@pytest.mark.parametrize("answer", [*LONG, SwitchChange(wall_ns=1, origin="other", added=[], removed=[], lease=UNSET)])
async def test_an_answer_in_turns_has_the_same_bytes(answer: ApiValue) -> None:
    assert await to_json_in_turns(answer) == to_json(answer)


async def test_others_have_their_turn_while_a_long_list_is_made_and_written() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    why = await in_turns(map(str, range(4 * WRITTEN_AT_ONCE)), WRITTEN_AT_ONCE)
    assert turns == 4
    await to_json_in_turns(Readiness(ready=False, why=why))
    assert turns == 8
    counting.cancel()

"""What is said of clients that the embedded broker did not let in, or cut off."""

import asyncio

import pytest

from hwd.bus.broker.refusals import EVERY_S, KEYS_MOST, Refusals

pytestmark = pytest.mark.usefixtures("virtual_time")


async def test_names_that_are_made_up_hide_those_of_others_for_a_while_only(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals()
    for number in range(2 * KEYS_MOST):
        refusals.note(f"made-up-{number}", "10.0.0.9", "wrong password")
    refusals.note("hwd-lab-h0", "10.0.0.1", "wrong password")
    assert "hwd-lab-h0" not in caplog.text
    await asyncio.sleep(3 * EVERY_S)
    refusals.note("hwd-lab-h0", "10.0.0.1", "wrong password")
    assert "broker: client hwd-lab-h0 at 10.0.0.1: wrong password" in caplog.text


async def test_a_client_is_in_the_log_once_a_minute_with_the_number_of_its_refusals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = Refusals()
    for _ in range(2 * round(EVERY_S)):
        refusals.note("hwd-lab-h0", "10.0.0.1", "wrong password")
        await asyncio.sleep(1)
    said = "broker: client hwd-lab-h0 at 10.0.0.1: wrong password"
    assert caplog.messages == [said, f"{said} (60 times since it was last said)"]

"""Events while links come up, which takes a NIC's firmware seconds: light is as documented, no event is lost."""

import pytest

from .conftest import STRAIGHT, Lab

pytestmark = pytest.mark.timeout(180)

NIC = "opus-cx6dx"


@pytest.mark.slow
async def test_switch_cut_while_links_come_up_does_not_matter(standing: Lab) -> None:
    run = standing.go("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--json")
    await standing.waited_for()
    await standing.fault("reset")
    said = await run
    assert said.status == 0, said
    assert await standing.light() == STRAIGHT
    await standing.nothing_lost()

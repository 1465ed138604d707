"""What an operator sees of a SONiC switch whose front panel was used, and whose mirrors are stuck.

Every change is reported, and every port can still be driven.
"""

import pytest

from .conftest import NAME, Lab

pytestmark = pytest.mark.timeout(120)

TESTBED = f"""testbed: {NAME}
switches:
  son: {{driver: sonic-ocs, model: sonic-ocs, size: 8x8, options: {{poll_s: 0.02}}, twin: {{timing: ideal, seed: 2}}}}
"""


async def crossconnects(lab: Lab) -> dict[str, str]:
    (son,) = [one for one in (await lab.get("/api/v1/status"))["switches"] if one["switch"] == "son"]
    return {one["id"]: one["state"] for one in son["crossconnects"]}


@pytest.mark.slow
async def test_a_mirror_that_is_stuck_is_told_as_it_is_and_all_of_it_is_rolled_back(lab: Lab) -> None:
    await lab.up(text=TESTBED)
    await lab.ok("apply", "son:1A-2B,2A-1B", "--no-ready")
    await lab.ok("fault", "son", "stick", "ends=1A")
    stuck = await lab.hwd("apply", "son:1A-3B", "--no-ready")
    assert stuck.status == 1, stuck
    assert "it answered, but does not report 1A-3B as tuned: it is not there" in stuck.err
    assert "Outcome: rolled-back" in stuck.err
    assert await crossconnects(lab) == {"1A-2B": "tuned", "2A-1B": "tuned"}
    await lab.ok("fault", "son", "clear")
    await lab.ok("fault", "son", "reboot", "seconds=0.5")
    again = await lab.hwd("apply", "son:1A-2B", "--no-ready")
    for _ in range(100):
        if again.status == 0:
            break
        again = await lab.hwd("apply", "son:1A-2B", "--no-ready")
    assert again.status == 0, again
    assert await crossconnects(lab) == {"1A-2B": "tuned", "2A-1B": "tuned"}, "the configuration was brought back too"

"""A Polatis twin behind several protocols at once: what its options may say, and that it leaves nothing open."""

import pytest

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError

from ...stage import Client, Stage


def make_stage() -> Stage:
    return Stage("polatis-tl1", "polatis-vst", "8x8", address="mem:tl1", options={"scpi": "mem:scpi"})


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        ({"tl1": "mem:other"}, "tl1: mem:other: it answers that at mem:tl1 already"),
        ({"snmp": "mem:other"}, "snmp: is an unknown field"),
        ({"shutter_open": "is open"}, "shutter_open: must match pattern"),
    ],
)
async def test_an_option_that_makes_no_sense_is_refused(stage: Stage, options: dict[str, Json], finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        stage.make(**options)


async def test_a_place_that_is_taken_leaves_nothing_open(stage: Stage) -> None:
    assert dict((await stage.start()).addresses) == {"tl1": "mem:tl1", "scpi": "mem:scpi"}
    await stage.twin.close()
    other = stage.make(scpi="mem:tl1")
    with pytest.raises(OSError, match="mem:tl1"):
        await other.start()
    assert dict(other.addresses) == {}
    await stage.dialer.listen(Client, "mem:tl1")

"""Polatis models: ports, sides and stated figures by size."""

import pytest

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import PortSide
from hwd_drivers.families.polatis.models import tl1_driver as driver


def test_a_matrix_has_inputs_on_side_a_and_monitored_outputs_on_side_b() -> None:
    capabilities = driver.capabilities("polatis-6000", "2x3")
    assert list(map(str, capabilities.ends)) == ["1A", "2A", "1B", "2B", "3B"]
    assert list(map(str, capabilities.monitored)) == ["1B", "2B", "3B"]
    assert capabilities.two_sided
    assert capabilities.reciprocal
    assert not capabilities.latching
    assert (capabilities.loss_db_typical, capabilities.loss_db_max, capabilities.settle_s) == (1.5, 2.7, 0.05)


def test_a_single_sided_unit_joins_any_port_with_any() -> None:
    capabilities = driver.capabilities("polatis-6000", "3")
    assert capabilities.ends == tuple(PortSide(port=port) for port in ("1", "2", "3"))
    assert not capabilities.two_sided


@pytest.mark.parametrize(
    ("size", "finding"),
    [
        (None, "Give it"),
        ("8by8", "not a size"),
        ("0x8", "not a size"),
        ("400", "over the 384 ports"),
        ("193x192", "385 ports"),
    ],
)
def test_a_size_that_there_is_not_is_refused(size: str | None, finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        driver.capabilities("polatis-6000", size)


def test_large_units_are_of_the_larger_series() -> None:
    ends = driver.capabilities("polatis-7000", "320x320").ends
    assert len(ends) == 640
    with pytest.raises(ConfigError, match="over the 1152 ports"):
        driver.capabilities("polatis-7000", "577x576")

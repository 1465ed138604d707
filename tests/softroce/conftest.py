"""Two virtual machines joined through a Polatis twin; rack, daemon and broker are processes of this machine."""

import pytest

from ..machines.agent import missing_for_agent, pack_agent
from ..machines.fixtures import Machines, machine_image, machines, pytest_runtest_makereport
from ..system.conftest import Lab, lab, mosquitto
from .rack import SoftRoce

__all__ = ["lab", "machine_image", "machines", "mosquitto", "pytest_runtest_makereport"]


@pytest.fixture
def soft_roce(lab: Lab, machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> SoftRoce:
    if why := missing_for_agent():
        pytest.skip(why)
    return SoftRoce(lab, machines, pack_agent(tmp_path_factory.mktemp("agent") / "packed"))

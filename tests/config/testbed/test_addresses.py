"""Addresses of switches: ports of their own, serial ports with settings, and what cannot be one."""

from collections.abc import Callable

import pytest

from hwd.config.testbed.testbed import Loaded

Load = Callable[[str], Loaded]


def written(address: str, driver: str = "osw", model: str = "1x4") -> str:
    return f'testbed: t\nswitches:\n  sw1: {{driver: {driver}, model: "{model}", address: "{address}"}}\n'


@pytest.mark.parametrize(
    "address",
    [
        "/dev/ttyUSB0",
        "/dev/serial/by-id/usb-Thorlabs_OSW22-if00",
        "serial:/dev/ttyUSB0",
        "serial:/dev/ttyUSB0?baud=57600&parity=E&rtscts=1",
        "10.0.0.7:4001",
        "unix:/run/sw1",
        "ocs1.lab.example:3082",
        "[fe80::1]:3082",
    ],
)
def test_an_address_that_says_all_stays_as_it_is(address: str, load: Load) -> None:
    assert load(written(address)).require().switches["sw1"].address == address


def test_a_host_gets_the_port_of_its_driver(load: Load) -> None:
    switches = load(written("10.0.0.7", "polatis-tl1", "polatis-6000")).require().switches
    assert switches["sw1"].address == "10.0.0.7:3082"

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


@pytest.mark.parametrize(
    ("address", "finding"),
    [
        ("10.0.0.7", "driver osw has no default port. Write 10.0.0.7:PORT, or a serial port such as /dev/ttyUSB0"),
        ("serial:/dev/ttyUSB0?speed=9600", "speed: not a setting of a serial line. Known are: baud"),
        ("serial:/dev/ttyUSB0?stopbits=3", "stopbits=3 is not one of 1, 2"),
        ("serial:COM3", "not a serial port. Write its device"),
        ("10.0.0.7:30x2", "not an address. Write host:port"),
        ("10.0.0.7:70000", "not an address. Write host:port"),
        ("10.0.0.7:0", "port 0 cannot be dialled"),
        ("10.0.0.256:3082", "not the name or address of a host"),
        ("http://10.0.0.7", "a URL is not an address"),
        ("tcp://10.0.0.7:3082", "a URL is not an address"),
        ("fe80::1:3082", "ambiguous IPv6 address and port"),
        ("[fe80::zz]:3082", "fe80::zz"),
        ("ocs 1:3082", "is not the name or address of a host"),
        (":3082", "not an address. Write host:port"),
        ("unix:", "a Unix socket has a path of 1 to 107 bytes"),
    ],
)
def test_an_address_that_cannot_be_one_is_a_problem_of_its_line(address: str, finding: str, load: Load) -> None:
    problems = load(written(address)).problems
    assert [problem.line for problem in problems] == [3]
    assert finding in str(problems[0])

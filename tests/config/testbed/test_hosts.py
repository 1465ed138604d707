"""Hosts of a testbed file that are virtual machines."""

from collections.abc import Callable

import pytest

from hwd.config.testbed.testbed import Loaded

Load = Callable[[str], Loaded]

SOUND = """testbed: small
switches: {ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal}}}
hosts:
  h0: {twin: {machine: 10.0.2.2}, nics: {eth0: {module: 100g-lr4}}}
"""


def test_a_twin_may_be_a_virtual_machine(load: Load) -> None:
    twin = load(SOUND).require().hosts["h0"].twin
    assert twin is not None
    assert (twin.machine, twin.kernel) == ("10.0.2.2", False)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            "machine: vm1",
            "4: hosts.h0.twin.machine: 'vm1' is no IP address; write the address at which the machine reaches this "
            "one, as 10.0.2.2 of QEMU's user network",
        ),
        (
            "machine: 10.0.2.2, kernel: true",
            "4: hosts.h0.twin.kernel: a host is a virtual machine with a kernel of its own (machine) or in the kernel "
            "of this one, not both",
        ),
        (
            "machine: 10.0.2.2, clock: {offset_s: 5}",
            "4: hosts.h0.twin.clock: a virtual machine has a clock of its own: it cannot be moved",
        ),
    ],
)
def test_what_a_virtual_machine_cannot_be_is_refused(load: Load, entry: str, words: str) -> None:
    problems = load(SOUND.replace("machine: 10.0.2.2", entry)).problems
    assert words in [str(problem).partition("testbed.yaml:")[2] for problem in problems]

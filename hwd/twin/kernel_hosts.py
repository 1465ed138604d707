"""Which hosts of a testbed have their NIC ports in the kernel: kernel hosts and virtual machines."""

from hwd.model.testbed import Host, Testbed


def kernel_hosts(testbed: Testbed) -> tuple[Host, ...]:
    """The hosts that the testbed wants in the kernel."""
    return tuple(host for host in testbed.hosts.values() if host.twin is not None and host.twin.kernel)


def machine_hosts(testbed: Testbed) -> tuple[Host, ...]:
    """The hosts that are virtual machines."""
    return tuple(host for host in testbed.hosts.values() if host.twin is not None and host.twin.machine is not None)

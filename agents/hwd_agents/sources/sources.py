"""Sources: all sources of one host, which its watchers read from."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from hwd_agents.sources.kernel.broker_route import BrokerWay
from hwd_agents.sources.kernel.interface_drivers import DriverSource
from hwd_agents.sources.kernel.ip_counters import KernelIpCounters
from hwd_agents.sources.kernel.nic_link_details import KernelLinkDetails
from hwd_agents.sources.kernel.port_counters import CounterSource, KernelBytes
from hwd_agents.sources.kernel.udp import DatagramSource
from hwd_agents.sources.kernel.wall_clock import WallSource
from hwd_agents.sources.link_source import LinkSource
from hwd_agents.sources.readings import FileSource, ModuleSource, PhySource
from hwd_agents.sources.setting_source import SettingSource
from hwd_agents.sources.verbs.verbs import VerbsSource
from hwd_agents.wire import SourceNote


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """One source of each kind; None when this host does not have it.

    `link_note` and `datagrams_note` describe those two sources. `life` identifies one run of the link counters: when it
    changes, they have restarted. `background` keeps the sources running as long as the agent runs, and calls back
    whenever a note or `life` has changed. `late_ns`: how late, at most, what the kernel says of a device is, of the
    event that the loop handles now.
    """

    link: LinkSource
    link_note: Callable[[], SourceNote]
    datagrams: DatagramSource
    datagrams_note: Callable[[], SourceNote]
    life: Callable[[], str]
    modules: ModuleSource | None = None
    files: FileSource | None = None
    phy: PhySource | None = None
    settings: SettingSource | None = None
    way: BrokerWay | None = None
    drivers: DriverSource | None = None
    details: KernelLinkDetails | None = None
    counters: CounterSource | None = None
    bytes: KernelBytes | None = None
    ip_counters: KernelIpCounters | None = None
    verbs: VerbsSource | None = None
    walls: Sequence[WallSource] = ()
    late_ns: Callable[[], int] = lambda: 0
    background: Callable[[Callable[[], None]], Coroutine[Any, Any, None]] | None = None

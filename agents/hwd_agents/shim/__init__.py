"""The library of a rank of a job on its host: it tells what it is about to send, and waits until it may.

with Rank.from_environment() as rank:
    for step in range(10):
        with rank.operation("world", "all-reduce", size_bytes=4096, within_s=30):
            ...                                 # send and receive; when the block ends it has completed

It needs this package alone, with no part of the daemon.
"""

from hwd_agents.transfers.client import KEY_VARIABLE as KEY_VARIABLE

from .exchange import Exchange as Exchange
from .rank import RANK_VARIABLE as RANK_VARIABLE
from .rank import Rank as Rank
from .rendezvous import meet as meet
from .shims import GROUP as GROUP
from .shims import Ask as Ask
from .shims import Before as Before
from .shims import Go as Go
from .shims import Select as Select
from .shims import SendOver as SendOver
from .shims import Shim as Shim
from .shims import ShimKind as ShimKind

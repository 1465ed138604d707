"""Prepared sets: what an agent asks of the daemon about them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from .arguments import Arguments
from .bounds import Name, Number
from .jobs import Key

ReconfigurationId = Annotated[str, Meta(pattern=r"\A[0-9a-z]{8}\Z")]
"""As over HTTP."""


class PreparedSetSwitched(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `switch-set`: the switches were driven to `target` and read back. `outcome`: of the
    reconfiguration.
    """

    reconfiguration: ReconfigurationId
    target: Name
    outcome: Name


class SwitchPreparedSet(Arguments[PreparedSetSwitched], frozen=True, kw_only=True):
    """A process of the host wants a prepared set at this target.

    `reconfiguration`: its id, chosen by the process or its agent; one that the daemon knows already is refused, so that
    an ask which is repeated switches once. `epoch`: of the set's lease; refused where another is in force. `key`: of
    the job that holds the lease, where one does: nobody else switches its set.
    """

    VERB = "switch-set"
    ANSWER = PreparedSetSwitched

    prepared_set: Name
    target: Name
    process: Name
    reconfiguration: ReconfigurationId
    epoch: Number | None = None
    key: Key | None = None

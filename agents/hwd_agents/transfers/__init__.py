"""Transfers in flight, for a process of a job: it says what it is sending, so that no light is cut under it,
and switches prepared sets.
"""

from .client import SOCKET as SOCKET
from .client import Transfers as Transfers
from .client import switch_set as switch_set
from .client import transfer as transfer

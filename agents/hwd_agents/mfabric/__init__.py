"""mFabric's collectives (section 5.3): an all-to-all over circuits and EPS, and an all-reduce over EPS. Pure: no I/O.

servers = Servers(ranks=((0, 1), (2, 3)), eps=((1,), (3,)))
table = routing_table(servers, [(NicPort(0, 0, "eth0"), NicPort(1, 2, "eth0"))])
moves = all_to_all_moves(table, {(1, 3): 100})  # by phase: 1 -> 0 inside, 0 -> 2 over the circuit, 2 -> 3 inside
table = table.without(table.rows[0])            # the same over EPS: 1 -> 3
steps = all_reduce_steps(servers, 4096)

All ranks of a collective compute the same moves from the same inputs, and each makes those in which it sends or
receives.
"""

from .all_reduce import Stage as Stage
from .all_reduce import Step as Step
from .all_reduce import VectorMove as VectorMove
from .all_reduce import all_reduce_steps as all_reduce_steps
from .all_to_all import Move as Move
from .all_to_all import Phase as Phase
from .all_to_all import Slice as Slice
from .all_to_all import all_to_all_moves as all_to_all_moves
from .load import Load as Load
from .load import load_of as load_of
from .routing import Circuit as Circuit
from .routing import Medium as Medium
from .routing import NicPort as NicPort
from .routing import Over as Over
from .routing import RoutingTable as RoutingTable
from .routing import Row as Row
from .routing import routing_table as routing_table
from .servers import Servers as Servers

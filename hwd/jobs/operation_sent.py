"""sent_of: how an operation of a rank went, as its agent measured it, on the daemon's clock."""

from hwd.bus.asks import AskedBy
from hwd.model.job import OperationSent
from hwd_agents.wire import CountedBytes


def sent_of(by: AskedBy, before: CountedBytes | None, after: CountedBytes | None) -> OperationSent | None:
    """None where the agent did not measure its end, or its clock is not known."""
    if after is None or by.alignment is None:
        return None
    ended_ns, error_ns = by.alignment.to_daemon(after.at_ns)
    began_ns = None
    if before is not None:
        began_ns, began_error_ns = by.alignment.to_daemon(before.at_ns)
        error_ns = max(error_ns, began_error_ns)
    return OperationSent(
        began_ns=began_ns,
        ended_ns=ended_ns,
        error_ns=error_ns,
        before={} if before is None else before.ports,
        after=after.ports,
    )

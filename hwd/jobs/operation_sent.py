"""sent_of: how an operation of a rank went, as its agent measured it, on the daemon's clock."""

from hwd.bus.asks import AskedBy
from hwd.model.job import OperationSent
from hwd_agents.wire import EndedOperation, EndOperation


def sent_of(
    by: AskedBy, ended: EndedOperation | EndOperation, *, now_ns: int, asked_ns: int | None = None
) -> OperationSent | None:
    """How an operation was sent; None where the agent did not measure its end, or its clock is not known: an end that
    comes before its ask, or is still to come, says that the clock was set since it was measured. `asked_ns`: when the
    daemon had the ask of this boot of the agent, before which it counts.
    """
    if ended.after is None or by.alignment is None:
        return None
    ended_ns, error_ns = by.alignment.to_daemon(ended.after.at_ns)
    if ended_ns - error_ns > now_ns or (asked_ns is not None and ended_ns + error_ns < asked_ns):
        return None
    began_ns, before, counted_ns = None, None, None
    if isinstance(ended, EndedOperation):
        before = ended.before
        if ended.began_ns is not None:
            began_ns, began_error_ns = by.alignment.to_daemon(ended.began_ns)
            error_ns = max(error_ns, began_error_ns)
        if before is not None:
            counted_ns = sum(by.alignment.to_daemon(before.at_ns))
            counted_ns = counted_ns if asked_ns is None else min(counted_ns, asked_ns)
    return OperationSent(
        began_ns=began_ns,
        ended_ns=ended_ns,
        error_ns=error_ns,
        before={} if before is None else before.ports,
        after=ended.after.ports,
        datagrams_before=None if before is None else before.datagrams,
        datagrams_after=ended.after.datagrams,
        counted_ns=counted_ns,
    )

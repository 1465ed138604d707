"""The conformance suite: public `check_*` coroutines that every driver of a switch passes, on its twin and on glass.

    async with twin_bench(find("polatis-tl1"), model="polatis-6000", size="8x8", way=Way.BYTEWISE, ...) as bench:
        for check in checks_for(Way.BYTEWISE):
            await check(bench)

A check that fails raises ConformanceError with its finding. One that does not apply to the switch returns the reason as
text; `suite.why_not` says so beforehand of those that need a twin, or a state that can be read. Each check leaves the
ends of the bench at rest, and the faults cleared.
"""

from hwd_drivers.conformance.basics import (
    check_capabilities,
    check_close_is_repeatable,
    check_connect_and_disconnect,
    check_deadline,
    check_denial,
    check_identity,
    check_past_deadline_sends_nothing,
    check_read_by_the_next_session,
)
from hwd_drivers.conformance.capability_checks import check_atomic_batches, check_moves_in_use
from hwd_drivers.conformance.exchanges import (
    check_cancelled_change,
    check_cancelled_exchange,
    check_concurrent_reads,
    check_garbage,
    check_impossible_state_is_refused,
    check_move,
    check_remove_one_add_another,
    check_reports_before,
    check_trouble_is_an_error_never_a_wrong_answer,
)
from hwd_drivers.conformance.fault_checks import (
    check_change_behind_our_back,
    check_half_an_answer,
    check_partial_batch,
    check_reboot,
    check_refused_session,
    check_reset_fails_every_waiter,
    check_silence_at_opening,
    check_slow_device,
    check_stuck_mirror_is_seen_by_reading_back,
    check_wrong_answer,
)
from hwd_drivers.conformance.garbage import check_arbitrary_bytes, check_endless_answer
from hwd_drivers.conformance.light import check_attenuation, check_override, check_power
from hwd_drivers.conformance.session import Check, ConformanceError
from hwd_drivers.conformance.suite import BRONZE, CHECKS, GOLD, PLATINUM, ROUGH_CHECKS, SILVER, checks_for

__all__ = [
    "BRONZE",
    "CHECKS",
    "GOLD",
    "PLATINUM",
    "ROUGH_CHECKS",
    "SILVER",
    "Check",
    "ConformanceError",
    "check_arbitrary_bytes",
    "check_atomic_batches",
    "check_attenuation",
    "check_cancelled_change",
    "check_cancelled_exchange",
    "check_capabilities",
    "check_change_behind_our_back",
    "check_close_is_repeatable",
    "check_concurrent_reads",
    "check_connect_and_disconnect",
    "check_deadline",
    "check_denial",
    "check_endless_answer",
    "check_garbage",
    "check_half_an_answer",
    "check_identity",
    "check_impossible_state_is_refused",
    "check_move",
    "check_moves_in_use",
    "check_override",
    "check_partial_batch",
    "check_past_deadline_sends_nothing",
    "check_power",
    "check_read_by_the_next_session",
    "check_reboot",
    "check_refused_session",
    "check_remove_one_add_another",
    "check_reports_before",
    "check_reset_fails_every_waiter",
    "check_silence_at_opening",
    "check_slow_device",
    "check_stuck_mirror_is_seen_by_reading_back",
    "check_trouble_is_an_error_never_a_wrong_answer",
    "check_wrong_answer",
    "checks_for",
]

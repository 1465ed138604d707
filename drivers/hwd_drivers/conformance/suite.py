"""The checks, the quality level of each, and the kinds of connection that each runs on."""

from typing import Final

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
from hwd_drivers.conformance.session import Check
from hwd_drivers.transports.rough import Way

BRONZE: Final[tuple[Check, ...]] = (
    check_identity,
    check_capabilities,
    check_connect_and_disconnect,
    check_read_by_the_next_session,
    check_denial,
    check_deadline,
    check_past_deadline_sends_nothing,
    check_close_is_repeatable,
)
SILVER: Final[tuple[Check, ...]] = (
    check_move,
    check_remove_one_add_another,
    check_impossible_state_is_refused,
    check_concurrent_reads,
    check_cancelled_exchange,
    check_cancelled_change,
    check_garbage,
    check_arbitrary_bytes,
    check_endless_answer,
    check_moves_in_use,
    check_atomic_batches,
)
GOLD: Final[tuple[Check, ...]] = (
    check_slow_device,
    check_silence_at_opening,
    check_refused_session,
    check_reset_fails_every_waiter,
    check_half_an_answer,
    check_wrong_answer,
    check_partial_batch,
    check_stuck_mirror_is_seen_by_reading_back,
    check_change_behind_our_back,
    check_reboot,
    check_power,
    check_override,
    check_attenuation,
)
PLATINUM: Final[tuple[Check, ...]] = (check_reports_before,)

CHECKS: Final[tuple[Check, ...]] = (*BRONZE, *SILVER, *GOLD, *PLATINUM)
"""Checks for connections without loss: whole, bytewise, slow."""

WHOLE_ONLY: Final[tuple[Check, ...]] = (
    check_arbitrary_bytes,
    check_endless_answer,
    check_moves_in_use,
    check_atomic_batches,
)
"""Checks for one kind of connection only, as others show no more; 8 MB byte by byte would take minutes."""

ROUGH_CHECKS: Final[tuple[Check, ...]] = (check_trouble_is_an_error_never_a_wrong_answer,)
"""Checks for all kinds of connection; the only ones for lossy and dying."""


def checks_for(way: Way) -> tuple[Check, ...]:
    if way in (Way.LOSSY, Way.DYING):
        return ROUGH_CHECKS
    return CHECKS + ROUGH_CHECKS if way is Way.WHOLE else _EVERYWHERE + ROUGH_CHECKS


_EVERYWHERE: Final = tuple(check for check in CHECKS if check not in WHOLE_ONLY)

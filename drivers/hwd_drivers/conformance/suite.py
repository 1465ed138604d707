"""The checks, the quality level of each, and the kinds of connection that each runs on."""

from typing import Final

from hwd_drivers.conformance import basics, capability_checks, exchanges, fault_checks, garbage, light
from hwd_drivers.conformance.bench import Bench
from hwd_drivers.conformance.session import GLASS, Check
from hwd_drivers.transports.rough import Way

BRONZE: Final[tuple[Check, ...]] = (
    basics.check_identity,
    basics.check_capabilities,
    basics.check_connect_and_disconnect,
    basics.check_read_by_the_next_session,
    basics.check_denial,
    basics.check_deadline,
    basics.check_past_deadline_sends_nothing,
    basics.check_close_is_repeatable,
)
SILVER: Final[tuple[Check, ...]] = (
    exchanges.check_move,
    exchanges.check_remove_one_add_another,
    exchanges.check_impossible_state_is_refused,
    exchanges.check_concurrent_reads,
    exchanges.check_cancelled_exchange,
    exchanges.check_cancelled_change,
    exchanges.check_garbage,
    garbage.check_arbitrary_bytes,
    garbage.check_endless_answer,
    capability_checks.check_moves_in_use,
    capability_checks.check_atomic_batches,
)
GOLD: Final[tuple[Check, ...]] = (
    fault_checks.check_slow_device,
    fault_checks.check_silence_at_opening,
    fault_checks.check_refused_session,
    fault_checks.check_reset_fails_every_waiter,
    fault_checks.check_half_an_answer,
    fault_checks.check_wrong_answer,
    fault_checks.check_partial_batch,
    fault_checks.check_stuck_mirror_is_seen_by_reading_back,
    fault_checks.check_change_behind_our_back,
    fault_checks.check_reboot,
    light.check_power,
    light.check_override,
    light.check_attenuation,
)
PLATINUM: Final[tuple[Check, ...]] = (exchanges.check_reports_before,)

CHECKS: Final[tuple[Check, ...]] = (*BRONZE, *SILVER, *GOLD, *PLATINUM)
"""Checks for connections without loss: whole, bytewise, slow."""

WHOLE_ONLY: Final[tuple[Check, ...]] = (
    garbage.check_arbitrary_bytes,
    garbage.check_endless_answer,
    capability_checks.check_moves_in_use,
    capability_checks.check_atomic_batches,
)
"""Checks for one kind of connection only, as others show no more; 8 MB byte by byte would take minutes."""

ROUGH_CHECKS: Final[tuple[Check, ...]] = (exchanges.check_trouble_is_an_error_never_a_wrong_answer,)
"""Checks for all kinds of connection; the only ones for lossy and dying."""


def checks_for(way: Way) -> tuple[Check, ...]:
    if way in (Way.LOSSY, Way.DYING):
        return ROUGH_CHECKS
    return CHECKS + ROUGH_CHECKS if way is Way.WHOLE else _EVERYWHERE + ROUGH_CHECKS


_EVERYWHERE: Final = tuple(check for check in CHECKS if check not in WHOLE_ONLY)


_CAUSES_FAULTS: Final[frozenset[Check]] = frozenset(
    (
        *(check for check in GOLD if check not in (light.check_power, light.check_override, light.check_attenuation)),
        *WHOLE_ONLY,
        basics.check_denial,
        basics.check_deadline,
        exchanges.check_cancelled_change,
        exchanges.check_garbage,
    )
)
_READS: Final[frozenset[Check]] = frozenset(
    {
        basics.check_read_by_the_next_session,
        exchanges.check_cancelled_change,
        exchanges.check_trouble_is_an_error_never_a_wrong_answer,
        fault_checks.check_reset_fails_every_waiter,
        fault_checks.check_half_an_answer,
        fault_checks.check_wrong_answer,
        fault_checks.check_partial_batch,
        fault_checks.check_stuck_mirror_is_seen_by_reading_back,
        fault_checks.check_change_behind_our_back,
    }
)


def why_not(check: Check, bench: Bench) -> str | None:
    """Why a check cannot be done on this bench at all: no twin that takes faults, or a state that cannot be read."""
    if check in _CAUSES_FAULTS and bench.twin is None:
        return GLASS
    return "the state of the device cannot be read" if check in _READS and bench.blind else None

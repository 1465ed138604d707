"""Refused switches of prepared sets, in the log: the first of each reason, then counts. A program may ask in a loop."""

import logging
import re
from collections import Counter, OrderedDict
from typing import Final

from hwd_drivers.core.errors import RefusedError

SETS_MOST: Final = 1000
"""Sets that are remembered; those that were refused longest ago are forgotten."""
REASONS_MOST: Final = 16
"""Reasons of one set that get lines of their own; all others are counted as one."""
OTHERS: Final = "other reasons"
_VARYING: Final = re.compile(r"\w*\d\w*")
"""Ids, times and numbers, in which two texts of one reason differ."""

log = logging.getLogger(__name__)


class RefusedSwitches:
    """Counts by set and reason. Warns at the first refusal and at the 10th, 100th, 1000th and so on; tells the count
    once the set is switched again.
    """

    def __init__(self) -> None:
        self._counts: OrderedDict[str, Counter[str]] = OrderedDict()

    def refused(self, prepared_set: str, error: RefusedError) -> None:
        """Nothing was moved."""
        counts = self._counts.setdefault(prepared_set, Counter())
        self._counts.move_to_end(prepared_set)
        while len(self._counts) > SETS_MOST:
            self._counts.popitem(last=False)
        reason = _VARYING.sub("#", str(error))
        if reason not in counts and len(counts) >= REASONS_MOST:
            reason = OTHERS
        counts[reason] += 1
        count = counts[reason]
        if count == 1:
            log.warning("prepared set %s: not switched: %s", prepared_set, error)
        elif str(count).strip("0") == "1":
            log.warning("prepared set %s: not switched, %d times now, the last: %s", prepared_set, count, error)
        else:
            log.debug("prepared set %s: not switched: %s", prepared_set, error)

    def switched(self, prepared_set: str) -> None:
        """Note that a set was switched, so that a reason that comes again is a new one."""
        if (counts := self._counts.pop(prepared_set, None)) is not None:
            log.info("prepared set %s: is switched again, after %d refusals", prepared_set, counts.total())

"""The losses and gains of a switch without our asking, and what mends them: then an alert about them is over."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hwd.model.switch import SwitchAdopted, SwitchOverrun, still_missing
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchCommand, SwitchFact, SwitchRead, SwitchRestarted

RESTARTED, OVERRUN = "SwitchRestarted", "SwitchOverrun"
CHANGED, FAILED = "SwitchChangedBehindOurBack", "SwitchCommandsFail"


@dataclass(slots=True)
class _Open:
    """The differences that are not mended yet at one switch.

    `missing`: by alert, crossconnects whose ends are still free. `foreign`: those that somebody else made. `failed`:
    verbs whose last command failed.
    """

    missing: dict[str, list[Crossconnect]] = field(default_factory=dict)
    foreign: list[Crossconnect] = field(default_factory=list)
    failed: set[str] = field(default_factory=set)


class SwitchMends:
    """Takes the documents of switches, and says which alerts of one are mended by each."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def forget(self, switches: frozenset[str]) -> None:
        """Forget switches that are no part of the testbed any more, or other devices."""
        for switch in switches:
            self._open.pop(switch, None)

    def take(self, fact: SwitchFact) -> Iterator[str]:
        """The names of the alerts that this mends."""
        match fact:
            case SwitchRestarted(lost=lost):
                self._of(fact).missing[RESTARTED] = [*lost]
            case SwitchOverrun(lost=lost):
                self._of(fact).missing.setdefault(OVERRUN, []).extend(lost)
            case SwitchRead():
                yield from self._read(fact)
            case SwitchAdopted():
                self._of(fact).foreign.clear()
                self._of(fact).missing.pop(CHANGED, None)
                yield CHANGED
            case SwitchCommand(verb=verb, outcome="done"):
                if (failed := self._of(fact).failed) and not failed.difference({verb}):
                    yield FAILED
                failed.discard(verb)
            case SwitchCommand(verb=verb):
                self._of(fact).failed.add(verb)

    def _read(self, read: SwitchRead) -> Iterator[str]:
        one = self._of(read)
        if not read.ours:
            taken = one.missing.get(CHANGED, [])
            gone = [pair for pair in read.removed if pair not in one.foreign]
            one.foreign += [pair for pair in read.added if pair not in taken]
            one.missing[CHANGED] = [*taken, *gone]
        one.foreign = [pair for pair in one.foreign if pair not in read.removed]
        one.missing = {name: still_missing(missing, read.added) for name, missing in one.missing.items()}
        for name in [name for name, missing in one.missing.items() if not missing]:
            if name != CHANGED or not one.foreign:
                del one.missing[name]
                yield name

    def _of(self, fact: SwitchFact) -> _Open:
        return self._open.setdefault(fact.switch, _Open())

"""A rotor as a control plane: the light turns from slot to slot of a round robin, as RotorNet's switches do.

A slot lasts `period_s` at least. A group of ranks goes in a slot whose light joins its hosts. When the slot is over no
group is let go any more, and when the last one has ended the light turns; so nothing is in flight while it moves.
"""

from hwd.model.plane import Applied, Done, Grant, Intent, NotReady, PlaneKind, Refuse, Switch, Target, Tick
from hwd.planes import Gathering, are_joined
from hwd_drivers.core.errors import ConfigError

SLOTS_MOST = 63


class Rotor:
    def __init__(self, period_s):
        self._period_s = period_s
        self._slot, self._lit, self._moving = -1, False, False
        self._now_s = self._until_s = 0.0
        self._held, self._sending = [], set()

    def targets(self, job, view):
        self._gathering = Gathering(job.groups)
        self._host_of = {rank.number: rank.host for rank in job.ranks}
        self._slots = []
        for slot in range(SLOTS_MOST):
            if (links := view.topology(f"rotor slot={slot}")) in self._slots:
                break  # from here on it begins anew
            self._slots.append(links)
        for group in job.groups.values():
            if not any(self._joins(links, group.ranks) for links in self._slots):
                raise ConfigError(f"rotor: no slot joins all hosts of group {group.name}; it needs more NIC ports")
        return {f"slot{slot}": Target(links=links) for slot, links in enumerate(self._slots)}

    def on(self, event):
        match event:
            case Intent():
                if ranks := self._gathering.come(event):
                    self._held.append(ranks)
            case Done(rank=rank):
                self._sending.discard(rank)
            case Tick(at_s=at_s):
                self._now_s = at_s
            case Applied():
                self._lit, self._moving, self._until_s = True, False, self._now_s + self._period_s
            case NotReady(why=why):
                self._lit, self._moving = False, False
                held, self._held = self._held, []
                yield from (Refuse(ranks=ranks, why=why) for ranks in held)
                return  # the next event tries the slot after it
        if self._moving:
            return
        is_over = not self._lit or (self._now_s >= self._until_s and len(self._slots) > 1)
        if is_over and not self._sending:
            self._slot, self._moving = (self._slot + 1) % len(self._slots), True
            yield Switch(target=f"slot{self._slot}")
        elif not is_over:
            for ranks in [one for one in self._held if self._joins(self._slots[self._slot], one)]:
                self._held.remove(ranks)
                self._sending.update(ranks)
                yield Grant(ranks=ranks)

    def _joins(self, links, ranks):
        return are_joined([self._host_of[rank] for rank in ranks], links)


ROTOR = PlaneKind(make=lambda arguments: Rotor(float(arguments.get("period_s", "0.5"))), arguments=("period_s",))

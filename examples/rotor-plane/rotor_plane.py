"""A rotor as a control plane: the light turns from slot to slot of a round robin, as RotorNet's switches do.

A slot lasts `period_s` at least. When that is over no group is let go any more, and when the last one has ended the
light turns; so nothing is in flight while it moves.
"""

from hwd.model.plane import Applied, Done, Grant, Intent, NotReady, PlaneKind, Refuse, Switch, Target, Tick
from hwd.planes import Gathering

SLOTS_MOST = 63


class Rotor:
    def __init__(self, period_s):
        self._period_s = period_s
        self._slot, self._lit, self._moving = -1, False, False
        self._now_s = self._until_s = 0.0
        self._held, self._sending = [], set()

    def targets(self, job, view):
        self._gathering = Gathering(job.groups)
        slots = {}
        for slot in range(SLOTS_MOST):
            links = view.topology(f"rotor slot={slot}")
            if links in (target.links for target in slots.values()):
                break  # from here on it begins anew
            slots[f"slot{slot}"] = Target(links=links)
        self._slots = len(slots)
        return slots

    def on(self, event):
        match event:
            case Intent():
                self._held += self._gathering.come(event)
            case Done(rank=rank):
                self._sending.discard(rank)
            case Tick(at_s=at_s):
                self._now_s = at_s
            case Applied():
                self._lit, self._moving, self._until_s = True, False, self._now_s + self._period_s
            case NotReady(why=why):
                self._lit, self._moving = False, False
                if self._held:
                    held, self._held = self._held, []
                    yield Refuse(ranks=tuple(held), why=why)
                return  # the next event tries the slot after it
        is_over = not self._lit or self._now_s >= self._until_s
        if is_over and not self._moving and not self._sending:
            self._slot = (self._slot + 1) % self._slots
            if self._slots > 1 or not self._lit:
                self._moving = True
                yield Switch(target=f"slot{self._slot}")
                return
        if self._held and self._lit and not self._moving and (not is_over or self._slots == 1):
            held, self._held = self._held, []
            self._sending.update(held)
            yield Grant(ranks=tuple(held))


ROTOR = PlaneKind(make=lambda arguments: Rotor(float(arguments.get("period_s", "0.5"))), arguments=("period_s",))

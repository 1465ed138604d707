"""Flaps: compares the falls of a port that its carrier count demands with those that were seen."""


class Flaps:
    """An RDMA port on Ethernet follows its carrier: one fall for each. Further falls of the port are no error."""

    def __init__(self) -> None:
        self._counted = 0
        self._seen = 0
        self._since_ns = 0

    def count(self, falls: int, earliest_ns: int) -> None:
        """Count falls of the carrier, none of them before `earliest_ns`."""
        if falls and not self._counted:
            self._since_ns = earliest_ns
        self._counted += falls

    def see(self) -> None:
        """Record a seen fall of the port."""
        self._seen += 1

    def unseen(self) -> tuple[int, int]:
        """How many falls were never seen, and the earliest time of the first. Call it when all is up: it resets."""
        missing, since_ns = max(0, self._counted - self._seen), self._since_ns
        self._counted = self._seen = 0
        return missing, since_ns

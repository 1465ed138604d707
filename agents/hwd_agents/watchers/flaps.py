"""Flaps: falls that a port should have seen, as its carrier was counted to fall, against those that it did see."""


class Flaps:
    """An RDMA port on Ethernet follows its carrier: one fall for each. What it saw of its own accord beside that is no fault."""

    def __init__(self) -> None:
        self._counted = 0
        self._seen = 0
        self._since_ns = 0

    def count(self, falls: int, earliest_ns: int) -> None:
        """The carrier fell so often, not before `earliest_ns`."""
        if falls and not self._counted:
            self._since_ns = earliest_ns
        self._counted += falls

    def see(self) -> None:
        """The port was seen to fall."""
        self._seen += 1

    def unseen(self) -> tuple[int, int]:
        """How many were never seen, and since when the first of them may have been; call it when all is up, as it begins to count anew."""
        missing, since_ns = max(0, self._counted - self._seen), self._since_ns
        self._counted = self._seen = 0
        return missing, since_ns

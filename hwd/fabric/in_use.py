"""InUse: the one place that says which testbed is in use; a reload replaces it."""

from hwd.fabric.fabric import Fabric
from hwd.model.testbed import Testbed


class InUse:
    """The fabric of the testbed in use. Who holds an `InUse` asks it each time, and never sees half of a reload."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    @property
    def testbed(self) -> Testbed:
        return self.fabric.testbed

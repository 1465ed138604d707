"""The parts of the rack that hosts hold: switches that they drive themselves, and settings of their NIC ports."""

"""The smallest testbed, for worlds."""

from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
"""Both ways to join its four ports in two links between the hosts."""

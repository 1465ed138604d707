"""The desired state of the rack, drift from it, the way back, and the history."""

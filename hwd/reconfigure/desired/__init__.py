"""What the rack is wanted to be: desired state, drift, the way back, and the history."""

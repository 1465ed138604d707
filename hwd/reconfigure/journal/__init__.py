"""The journal: what was begun and what was promised, synced to the disk."""

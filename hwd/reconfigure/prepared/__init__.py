"""Prepared sets: targets that are checked and journaled once, and then switched to at once."""

"""Calient over REST."""

"""Agiltron SelfAlign switches: one 1xN on a serial line, commands of four bytes."""

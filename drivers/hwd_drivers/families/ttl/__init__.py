"""Bare 1x2 and 2x2 parts on GPIO lines: held at a level, or moved by a pulse to one of two coils."""

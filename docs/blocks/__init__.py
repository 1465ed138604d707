"""Runs the blocks of pages as a reader would: `python -m docs.blocks PAGE...`."""

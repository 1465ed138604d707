"""Fills the generated parts of docs/ from the code: `python -m docs.generate`."""

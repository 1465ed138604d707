"""Small faults that are planted in hwd one at a time, to see whether a test finds each: `make mutants`.

`changes.py` finds expressions that can be changed, and changes one; `touched.py` records once which test executes which
line; `hunt.py` runs the tests of one mutant in a tree of its own; `mutants.json` is the list, with who found each.
"""

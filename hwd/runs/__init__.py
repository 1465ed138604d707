"""Runs from asking to end: the queue, those that go on, and the state of each."""

"""The pytest plugin: tests against a rack of twins, or against the real one with a flag.

def test_links_are_back_within_a_second(circuit, timeline):
    circuit("h0.eth0 <-> h1.eth0")
    assert timeline.turnaround_s < 1
"""

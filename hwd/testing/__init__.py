"""The pytest plugin: tests on a rack of twins, or on a real one with `--hwd-lab`.

def test_links_are_back_within_a_second(circuit, timeline):
    circuit("h0.eth0 <-> h1.eth0")
    assert timeline.turnaround_s < 1
"""

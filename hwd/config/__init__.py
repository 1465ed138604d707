"""Files of an operator: testbeds, playbooks, topologies. All problems are reported at once, with file and line."""

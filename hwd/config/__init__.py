"""Files of an operator: testbeds, playbooks, topologies. Every problem at once, with file and line."""

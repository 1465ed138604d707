"""Work on hosts: programs that the testbed file allows."""

"""The twin rack: simulated switches and hosts, in the kernel or in a process."""

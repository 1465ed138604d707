"""Control planes that are installed, and the processes in which they run."""

"""Whether a job kept its promises, from the records alone."""

"""What the daemon says in documents: one type for each kind, by subject."""

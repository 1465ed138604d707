"""What the daemon takes in and gives out, its memory, and how long it and its command line take to start."""

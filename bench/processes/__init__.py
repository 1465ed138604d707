"""What the measurements run beside themselves, a process each: twins, a raw listener, a bare publisher, an agent with a moved clock."""

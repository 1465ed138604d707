"""DiCon MEMS 1xN modules on a serial line."""

"""DiCon switches: MXS-9100 matrices and MEMS 1xN modules, a folder for each protocol."""

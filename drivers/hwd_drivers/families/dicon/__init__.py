"""DiCon switches: a folder for each of their protocols."""

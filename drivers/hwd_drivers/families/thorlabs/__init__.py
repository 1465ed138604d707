"""Thorlabs OSW12 and OSW22 switches on a USB serial line."""

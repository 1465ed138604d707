"""Lfiber LF-OSW: controllers of many 1xN selectors that speak `<OSW_OUT_..>`."""

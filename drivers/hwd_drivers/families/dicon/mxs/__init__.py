"""DiCon MXS-9100 matrix switches."""

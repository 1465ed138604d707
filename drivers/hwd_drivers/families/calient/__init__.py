"""Calient S-series optical circuit switches: two protocols, one unit behind them."""

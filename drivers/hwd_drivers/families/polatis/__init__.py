"""Polatis optical switches (HUBER+SUHNER): several protocols, one unit behind them."""

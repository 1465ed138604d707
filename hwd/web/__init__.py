"""The HTTP API, the event stream and what stands behind them."""

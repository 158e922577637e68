"""The engine process: connections, models and the service behind them."""

"""Published prices: a table in the package, and the prices that a configuration needs."""

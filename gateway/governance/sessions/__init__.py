"""Sessions of /admin in browsers: their cookies, their rows in the store, and what roles may do."""

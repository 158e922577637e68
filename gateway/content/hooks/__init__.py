"""Hooks on the request path: the contract, and what runs them over requests and answers."""

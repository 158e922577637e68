"""Repairs of requests that a backend would refuse although it could answer them."""

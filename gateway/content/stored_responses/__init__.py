"""Stored responses: written before they leave, and read for the requests that continue them."""

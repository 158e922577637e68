"""Lets requests for text reach backends for tokens and the reverse, and does what backends lack."""

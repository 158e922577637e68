"""Explain a request in the page, with the words of `strowger explain`."""

"""From a request to tokens, and from tokens to an answer."""

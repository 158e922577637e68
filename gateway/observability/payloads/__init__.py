"""Log the bodies of requests and answers, redacted, apart from the request path."""

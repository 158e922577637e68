"""What of requests and answers is examined, kept and replayed."""

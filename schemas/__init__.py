"""The one vocabulary that every other package speaks: requests, events, answers, errors."""

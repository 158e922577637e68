"""The vocabulary that all packages share: requests, events, answers, errors."""

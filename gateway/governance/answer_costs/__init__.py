"""What an answer cost, shown to its client."""

"""What happens to backends, as events: circuits, failures in a row, cooldowns, refused accounts."""

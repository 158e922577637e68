"""What backends have cost, for the caps of their providers."""

"""Everything that answers: providers, engines, and how they are found."""

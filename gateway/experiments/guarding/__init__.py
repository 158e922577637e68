"""Watch running experiments: circuits, and harm limits at their looks."""

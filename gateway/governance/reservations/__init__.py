"""Reserve requests under all limits and budgets that apply to them, or under none."""

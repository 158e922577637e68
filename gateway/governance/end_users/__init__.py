"""End users of clients, for limits and budgets that hold each of them apart."""

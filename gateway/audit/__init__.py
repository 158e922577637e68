"""The audit log: who changed what in this gateway, as events and as a chain of hashed rows."""

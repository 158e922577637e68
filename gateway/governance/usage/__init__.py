"""Reports of usage for chargeback: by key, team, user, tag, model and time."""

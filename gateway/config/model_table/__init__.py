"""Published facts about models: a table in the package, and the rows that a configuration needs."""

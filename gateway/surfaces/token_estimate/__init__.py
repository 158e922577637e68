"""How many tokens a conversation has about, where nothing counts them."""

"""Who may send what, how much, and at what cost."""

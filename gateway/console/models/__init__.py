"""The models of a gateway, for operators: where they route to, what they can, what they cost."""

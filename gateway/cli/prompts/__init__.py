"""`strowger prompts`: versions, their texts, and what has changed."""

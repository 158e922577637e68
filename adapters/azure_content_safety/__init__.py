"""Azure AI Content Safety: moderation."""

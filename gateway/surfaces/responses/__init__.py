"""The Responses surface: OpenAI's Responses API, by the Open Responses specification."""

"""OpenAI's Responses API, at OpenAI and wherever else it is served."""

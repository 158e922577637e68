"""Google: Gemini, through its API key or Vertex AI."""

"""The surface of Google's Gemini API: AI Studio's paths, and Vertex AI's."""

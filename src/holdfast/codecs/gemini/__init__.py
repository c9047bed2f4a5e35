"""Google's Gemini wire, of AI Studio and of Vertex AI."""

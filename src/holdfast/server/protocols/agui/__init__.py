"""AG-UI 1.0, which CopilotKit and other user interfaces speak.

This room must never start a turn twice for one message, and must never take the history of a session
from a client.
"""

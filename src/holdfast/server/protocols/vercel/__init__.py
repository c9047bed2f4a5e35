"""The UI message stream of Vercel's AI SDK, version 1: `useChat` in React, Svelte, Vue and Angular.

This room must never start a turn twice for one message, and must never take the history of a session
from a client.
"""

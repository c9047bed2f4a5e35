"""OpenAI's chat completions wire, which most other providers speak too."""

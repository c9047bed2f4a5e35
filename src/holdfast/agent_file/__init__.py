"""Makes an agent from a TOML file. An error names the line and the key.

A file is shared and stored in version control, so it must never hold a secret: it names the
environment variable of an API key. An error never repeats a value that may be a secret.
"""

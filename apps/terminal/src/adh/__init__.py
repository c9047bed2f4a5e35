"""A coding agent in a terminal: each tool call goes through rules, safety checks and, if these say so, a person.

The application uses only the public face of Holdfast. The rooms, from the lowest: `rules` decides, `shell`
parses commands, `approval` asks and records, `tools` acts, `screen` shows. No room may run a tool around
`approval`.
"""

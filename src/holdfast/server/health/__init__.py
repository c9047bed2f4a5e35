"""Whether the service is well: `/health`, `/ready` and `/metrics`.

Metrics must never contain personal data: no session, no address, no text, no name of a person.
"""

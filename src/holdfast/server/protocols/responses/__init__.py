"""OpenAI's Responses protocol: `POST /v1/responses` and its other routes.

A response is a part of a turn: from its beginning, or from a wait, to the next wait or the end.
"""

"""OpenAI's Chat Completions protocol: `POST /v1/chat/completions` and `GET /v1/models`.

A request is a run of its own, unless it brings the results that a waiting run has asked for.
"""

"""The Chat Completions wire, which most providers support, each with its own differences.

`codec` is the entry point. No code here depends on a provider's name: a difference is a field of
`EndpointProfile`.
"""

"""What the model may call: the `@tool` decorator, its schema, the registry, and the invocation.

This room must never decide whether a call is repeated and must not catch what a tool raises:
it binds arguments, calls, and hands back a value or lets the exception through.
"""

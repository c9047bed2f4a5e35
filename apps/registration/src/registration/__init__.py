"""The registration service: a parent registers a child with a football club by chatting."""

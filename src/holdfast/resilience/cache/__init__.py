"""The cache: gives a saved reply to an equal request."""

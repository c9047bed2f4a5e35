"""The store of a service beside runs."""

"""Hedging: starts a second attempt when the first one is slow."""

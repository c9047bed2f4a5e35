"""Runs that wait for an answer or were interrupted.

This folder must not perform an effect. It says what can continue, and hands it to the engine.
"""

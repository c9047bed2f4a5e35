"""Runs that wait for an answer or were interrupted.

This folder must not perform an effect. It finds the runs that can continue, and hands them to the engine.
"""

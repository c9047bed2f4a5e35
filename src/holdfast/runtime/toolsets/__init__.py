"""Toolsets: the tools that they offer, and their resources.

This folder must not run a tool.
"""

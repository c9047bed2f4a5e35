"""Questions of a turn: how they are asked, who may answer, and their records.

This folder must not run a tool or call a model.
"""

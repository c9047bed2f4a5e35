"""Questions of a turn: how they are asked, who may answer, and what of them is saved.

This folder must not run a tool or call a model.
"""

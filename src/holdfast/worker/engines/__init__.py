"""Dispatch engines, which carry the jobs of the inbox to workers, one engine a file.

Only this room imports the packages of engines, and imports one when an engine is made. An engine must
never keep anything that the inbox does not know: its jobs may be lost at any time.
"""

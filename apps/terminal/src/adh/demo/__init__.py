"""The demo: the real screen in a sandbox project, with an emulated model that works, fails and is tricked.

It must never need a key or a network, and must never read or change a file outside its own folder.
"""

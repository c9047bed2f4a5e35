"""What a turn shows to a person, step by step: the part that protocols for user interfaces share.

This room is pure. It must never word an event of a protocol.
"""

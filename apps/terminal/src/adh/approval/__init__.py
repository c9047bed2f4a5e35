"""Approval: the way of every call from the rules to the run, in code that no prompt can change.

A call is judged by the rules, asked about where they say so, judged again with the answer, checked, written to
the audit log, run, and written to the log again. This room must never run a call that was not judged, and
must never take a missing answer for a yes.
"""

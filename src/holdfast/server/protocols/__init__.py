"""Other people's protocols over the event log: each a pure fold of stream items, and its routes.

A protocol must never hold a truth of its own: its ids, numbers and answers can be computed again from
the journal by any process.
"""

"""Sessions as a user sees them: listed, searched, forked, rewound, compacted, moved and forgotten.

A session is a fold of its journal, so this room must never keep anything of its own, and must never
change or drop a record: what is taken back is said by a further record.
"""

"""The store: transactions on SQLite or PostgreSQL, and one module of plain functions per subject.

This room must never call a provider or a model, and must never choose the next step.
"""

from registration.store.database import Database, open_database
from registration.store.errors import (
    ConstraintViolated,
    DatabaseUnavailable,
    ProgressChanged,
    SchemaRefused,
    StatementFailed,
    StoreError,
)
from registration.store.transaction import Transaction

__all__ = [
    "ConstraintViolated",
    "Database",
    "DatabaseUnavailable",
    "ProgressChanged",
    "SchemaRefused",
    "StatementFailed",
    "StoreError",
    "Transaction",
    "open_database",
]

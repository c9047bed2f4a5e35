"""The databases of the store's tests, for the outbox."""

from apps.registration.tests.store.conftest import database, new_url, url

__all__ = ["database", "new_url", "url"]

"""What all tests of the service share with the library's: the event loop, the examples, and PostgreSQL."""

from tests.conftest import anyio_backend, postgres, url

__all__ = ["anyio_backend", "postgres", "url"]

"""What all tests of the terminal agent share with the library's: the event loop and the number of examples."""

from tests.conftest import anyio_backend

__all__ = ["anyio_backend"]

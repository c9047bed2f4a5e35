"""The client of the address book."""

from __future__ import annotations

from msgspec import Struct

from registration.providers.connection import ProviderClient


class Address(Struct, frozen=True):
    """A postal address."""

    house: str
    line_1: str
    town: str
    city: str
    postcode: str
    full: str

    def __repr__(self) -> str:
        return "Address(***)"


class FoundAddress(Struct, frozen=True):
    """The answer of the address book: no address is an answer, too."""

    address: Address | None


class AddressBook(ProviderClient):
    """Looks up addresses.

    Args:
        endpoint: address, token and time limits.
    """

    PROVIDER = "addresses"

    async def look_up(self, postcode: str, house: str) -> Address | None:
        """Return the address of a house, or None if the book does not have it.

        Args:
            postcode: such as `HF12AB`; spaces and case do not matter.
            house: a number or a name.

        Raises:
            Refused: the book does not answer this request.
            Unanswered: there was no answer.
        """
        # A POST: the address of a person must not stand in a URL.
        body = {"postcode": postcode, "house": house}
        return (await self._create("/v1/addresses/search", body, FoundAddress)).address

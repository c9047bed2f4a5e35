"""The emulated address book: every address of its table is found, however it is written."""

import re

import aiohttp
import pytest

from registration.emulators import AddressEmulator, serve
from registration.emulators.address_emulator import STREETS, list_addresses, normalize
from registration.providers import AddressBook, Refused
from registration.settings import Endpoint, Secret

TOKEN = "token-of-the-service"
POSTCODE = re.compile(r"[A-Z]{1,2}[0-9]{1,2}[A-Z]?[0-9][A-Z]{2}")


def test_the_table_is_sound() -> None:
    addresses = list(list_addresses())
    assert len(STREETS) >= 36
    assert len(addresses) > 900
    assert all(POSTCODE.fullmatch(one.postcode) for one in addresses)
    keys = [normalize(one.postcode, one.house) for one in addresses]
    assert len(set(keys)) == len(keys)


async def test_look_up() -> None:
    emulator = AddressEmulator(TOKEN)
    async with (
        serve(emulator.app) as address,
        AddressBook(Endpoint(address=address, token=Secret(TOKEN))) as book,
    ):
        found = await book.look_up("HF12AB", "7")
        assert found is not None
        assert found.line_1 == "7 Mill Lane"
        assert found.full == "7 Mill Lane, Northgate, Holdford, HF1 2AB"
        assert found.postcode == "HF12AB"
        for postcode, house in (("hf1 2ab", " No. 7 "), ("HF12AB", "number 7"), ("Hf12aB", "No7")):
            assert await book.look_up(postcode, house) == found
        mill = await book.look_up("HF1 2AB", "the  mill HOUSE")
        assert mill is not None
        assert mill.line_1 == "The Mill House, Mill Lane"
        for postcode, house in (("HF12AB", "31"), ("HF99ZZ", "7"), ("", ""), ("SW1A1AA", "10")):
            assert await book.look_up(postcode, house) is None
        with pytest.raises(Refused, match="invalid"):
            await book.look_up("HF12AB", "7" * 101)
        async with aiohttp.ClientSession() as session, session.get(address) as response:
            assert "HF1 2AB" in await response.text()

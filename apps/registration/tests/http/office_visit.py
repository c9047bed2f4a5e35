"""A person in the office, as a browser without scripts: a cookie, pages, and forms."""

from __future__ import annotations

import re
from html import unescape

import aiohttp
from apps.registration.tests.flow.chat_club import KEYS
from msgspec import Struct

_INPUT = re.compile(r"<input ([^>]*)>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


class PageForm(Struct, frozen=True):
    """A form of a page: where it goes, and the values of its hidden inputs."""

    action: str
    values: dict[str, str]


class Shown(Struct, frozen=True):
    """A page."""

    status: int
    text: str
    headers: dict[str, str]

    def form(self, action: str, **values: str) -> PageForm:
        """Return the form that goes to an address and has these values."""
        for one in re.findall(r"<form.*?</form>", self.text, re.DOTALL):
            attributes = dict(_ATTRIBUTE.findall(one.partition(">")[0]))
            inputs = [dict(_ATTRIBUTE.findall(found)) for found in _INPUT.findall(one)]
            hidden = {i["name"]: unescape(i["value"]) for i in inputs if i.get("type") == "hidden"}
            if unescape(attributes["action"]) == action and values.items() <= hidden.items():
                return PageForm(action, hidden)
        raise AssertionError(f"no form to {action} with {values}")


class Office:
    """A browser at the office.

    Args:
        http: sends the requests; it keeps cookies.
        address: of the service.
    """

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self.http = http
        self.address = address

    async def open(self, path: str, *, follow: bool = True) -> Shown:
        """Open a page."""
        async with self.http.get(self.address + path, allow_redirects=follow) as response:
            return Shown(response.status, await response.text(), dict(response.headers))

    async def send(self, form: PageForm, *, follow: bool = True, **values: str) -> Shown:
        """Send a form with what was typed."""
        data = {**form.values, **values}
        async with self.http.post(
            self.address + form.action, data=data, allow_redirects=follow
        ) as response:
            return Shown(response.status, await response.text(), dict(response.headers))

    async def sign_in(self, key: str = KEYS["REGISTRATION_ADMIN_KEY"], by: str = "Anna") -> Shown:
        """Sign in."""
        page = await self.open("/office/sign-in")
        return await self.send(page.form("/office/sign-in"), key=key, by=by)

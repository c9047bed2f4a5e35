"""A parent who registers a child: types, looks at the phone, pays, sends a drawn photo, and does not give up."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from io import BytesIO

from PIL import Image, ImageDraw

from registration.emulators.inboxes import InboxMessage
from registration.play.children import Child
from registration.play.page import Page, Shown, StuckError

PAYMENT_LINK = re.compile(r"https?://\S+/pay/\S+")
_PHOTO, _DONE = 34, 35
_NUMBER = 33
_MOST_TIMES = 15
_READING_SECONDS = 0.4
_SMS_SECONDS = 180.0


class Parent:
    """A parent.

    Args:
        child: who is registered.
        place: the number of the child.
        page: the page of the service.
        read_inbox: returns the text messages that arrived anywhere.
    """

    def __init__(
        self, child: Child, place: int, page: Page, read_inbox: Callable[[], Sequence[InboxMessage]]
    ) -> None:
        self.child = child
        self.page = page
        self._place = place
        self._read_inbox = read_inbox
        self._asked: Counter[int] = Counter()
        self._said_before: set[int] = set()
        self._paid = False

    async def register(self) -> None:
        """Register the child. Raises StuckError."""
        await self.page.begin()
        shown = await self.page.say(self.child.code)
        while shown.step != _DONE:
            await asyncio.sleep(_READING_SECONDS)
            shown = await self._go_on(shown)
        if not self._paid:
            await self._pay()

    async def _go_on(self, shown: Shown) -> Shown:
        step = shown.step
        if step is None:
            raise StuckError("the code is not accepted")
        self._asked[step] += 1
        if self._asked[step] > _MOST_TIMES:
            raise StuckError(f"step {step} is asked without end")
        if step >= self.child.pays_at and not self._paid:
            await self._pay()
        if step == _PHOTO:
            return await self._send_photo()
        return await self.page.say(self._choose_words(step, shown))

    def _choose_words(self, step: int, shown: Shown) -> str:
        if step in self.child.before and step not in self._said_before:
            self._said_before.add(step)
            return self.child.before[step]
        if self.child.identity and not shown.has_saved:
            return self.child.identity
        if step == _NUMBER and self._asked[step] > 1:
            offered = [one for one in re.findall(r"\d+", shown.reply) if one != "7"]
            return offered[self._place % len(offered)] if offered else str(10 + self._place)
        return self.child.answers[step]

    async def _send_photo(self) -> Shown:
        is_pitch = self.child.pitch_first and self._asked[_PHOTO] == 1
        await self.page.send_photo(draw_pitch() if is_pitch else draw_portrait(self._place))
        return await self.page.look()

    async def _pay(self) -> None:
        link = await self._wait_for_link()
        if self.child.cancels_first:
            await self.page.pay(link, "cancel")
        await self.page.pay(link, "pay")
        self._paid = True

    async def _wait_for_link(self) -> str:
        number = f"+44{self.child.phone.removeprefix('0')}"
        try:
            async with asyncio.timeout(_SMS_SECONDS):
                while True:
                    for message in self._read_inbox():
                        found = PAYMENT_LINK.search(message.text)
                        if message.to == number and found is not None:
                            return found[0]
                    await asyncio.sleep(0.5)
        except TimeoutError:
            raise StuckError("the text message with the link does not come") from None


def draw_portrait(place: int) -> bytes:
    """Return a JPEG of a face; of another one for each place."""
    image = Image.new("RGB", (480, 600), (205, 215, 235))
    draw = ImageDraw.Draw(image)
    shirt = (150 + 10 * place, 40, 60)
    draw.ellipse((60, 430, 420, 760), fill=shirt)
    draw.ellipse((130, 110, 350, 430), fill=(225, 180 - 6 * place, 150))
    draw.pieslice((120, 80, 360, 380), 180, 360, fill=(70, 45, 30))
    for left in (180, 260):
        draw.ellipse((left, 250, left + 36, 272), fill=(40, 40, 60))
    draw.arc((190, 300, 290, 380), 20, 160, fill=(150, 50, 50), width=8)
    return _encode(image)


def draw_pitch() -> bytes:
    """Return a JPEG of a pitch."""
    image = Image.new("RGB", (600, 480), (40, 140, 50))
    draw = ImageDraw.Draw(image)
    draw.rectangle((40, 40, 560, 440), outline=(240, 240, 240), width=6)
    draw.ellipse((230, 170, 370, 310), outline=(240, 240, 240), width=6)
    return _encode(image)


def _encode(image: Image.Image) -> bytes:
    file = BytesIO()
    image.save(file, "JPEG", quality=88)
    return file.getvalue()

"""A parent at the page: what they write, and what they see."""

from __future__ import annotations

from typing import Any


class Parent:
    """A parent at the page.

    Args:
        page: the page in a browser.
    """

    def __init__(self, page: Any) -> None:
        self.page = page

    def arrive(self, *texts: str) -> None:
        """Begin a conversation elsewhere with messages, which takes less time, and open it here."""
        send = self.page.request.post
        address = self.page.url.rstrip("/")
        begun = send(f"{address}/sessions", data={}).json()
        headers = {"Authorization": f"Bearer {begun['token']}"}
        for text in texts:
            message = {"user_message": text, "session_id": begun["session_id"]}
            assert send(f"{address}/chat", data=message, headers=headers).ok
        session = {"id": begun["session_id"], "token": begun["token"]}
        keep = "session => localStorage.setItem('registration.session', JSON.stringify(session))"
        self.page.evaluate(keep, session)
        self.page.reload()

    def write(self, text: str) -> None:
        """Write a message and send it, without waiting for its answer."""
        self.page.get_by_label("Your message").fill(text)
        self.page.keyboard.press("Enter")

    def wait_answered(self) -> str:
        """Wait until the last message was answered; return the answer."""
        # A function that the browser polls would need `eval`, which the page's policy forbids.
        self.page.locator("body:has(#send:enabled):has(#talk > .club:last-child)").wait_for()
        return self.lines()[-1][1]

    def say(self, *texts: str) -> str:
        """Send messages one after the other; return the last answer."""
        answer = ""
        for text in texts:
            self.write(text)
            self.page.locator("#talk .line.parent", has_text=text).first.wait_for()
            answer = self.wait_answered()
        return answer

    def lines(self) -> list[tuple[str, str]]:
        """Return who says what in the conversation."""
        read = "all => all.map(one => [one.classList[1], one.querySelector('p').lastChild.data])"
        return [(by, text) for by, text in self.page.locator("#talk .line").evaluate_all(read)]

    def written(self) -> list[str]:
        """Return what the parent wrote."""
        return [text for by, text in self.lines() if by == "parent"]

    def wait_trouble(self, words: str) -> Any:
        """Wait until the page says what does not work; return where it does."""
        trouble = self.page.get_by_role("alert").filter(has_text=words)
        trouble.wait_for()
        return trouble

    def wait_step(self, step: int) -> None:
        """Wait until the page shows a step."""
        self.page.locator("#step", has_text=f"Step {step} of 35").wait_for()

"""What a parent does at the page, while the network, the server and the model fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from apps.registration.tests.conformance.page.browser_club import FailingClub, KillableClub
from apps.registration.tests.conformance.page.parent import Parent
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE, TO_PHOTO
from apps.registration.tests.photos.samples import photo

from holdfast.testing.emulator import Delay, ErrorResponse, Pace

pytestmark = pytest.mark.timeout(180)

OFFLINE = "You are offline"
AWAY = "I cannot reach the club"
HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=1</script>'


def choose_photo(parent: Parent, content: bytes | Path, kind: str = "image/jpeg") -> None:
    """Choose a photo with the + button."""
    file = {"name": "me.jpg", "mimeType": kind, "buffer": content}
    with parent.page.expect_file_chooser() as chooser:
        parent.page.get_by_role("button", name="Add the photo").click()
    chooser.value.set_files(content if isinstance(content, Path) else [file])


def test_a_child_is_registered_by_hand(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    asked: list[Any] = []
    parent.page.on("request", lambda request: asked.append(request))  # noqa: PLW0108
    assert "ten minutes" in parent.lines()[0][1]
    parent.say(*TO_HOUSE)
    parent.wait_step(13)
    parent.page.get_by_role("button", name="Change: Your mobile number").click()
    parent.page.get_by_role("button", name="Keep it as it was").wait_for()
    assert "mobile" in parent.wait_answered()
    parent.say("07700 900999")
    parent.wait_step(13)
    parent.page.locator("#rows", has_text="07700900999").wait_for()
    answer = parent.say(*TO_PHOTO[len(TO_HOUSE) :])
    parent.wait_step(34)
    assert "photo" in answer
    assert parent.page.get_by_role("button", name="Add the photo").is_visible()
    assert parent.page.get_by_role("button", name="Change: Your e-mail address").is_visible()
    assert not parent.page.get_by_role("button", name="Change: Payment day").is_visible()
    session = parent.page.evaluate("JSON.parse(localStorage['registration.session'])")
    for request in asked:
        for secret in (session["token"], "Sarah", "900123", "HF1"):
            assert secret not in request.url
    assert session["id"] not in parent.page.url
    choose_photo(parent, photo())
    parent.page.get_by_role("button", name="Send this photo").click()
    parent.wait_step(35)


def test_a_parent_goes_back_and_keeps_what_was_there(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.say(*TO_HOUSE[:4])
    parent.page.get_by_role("button", name="Go back").click()
    parent.page.get_by_role("button", name="Keep it as it was").click()
    parent.page.locator("#talk .line.club", has_text="stays as it is").wait_for()
    parent.wait_answered()
    parent.page.get_by_role("button", name="Go back").click()
    parent.page.get_by_role("button", name="Keep it as it was").wait_for()
    parent.wait_answered()
    parent.say("15-03-2016")
    parent.page.locator("#rows", has_text="15-03-2016").wait_for()
    parent.wait_step(4)


def test_a_double_click_sends_one_message(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.page.get_by_label("Your message").fill(TO_HOUSE[0])
    parent.page.get_by_role("button", name="Send", exact=True).dblclick()
    parent.wait_answered()
    parent.page.get_by_label("Your message").fill("Sarah Jones")
    parent.page.keyboard.press("Enter")
    parent.page.keyboard.press("Enter")
    parent.wait_answered()
    parent.wait_step(2)
    assert parent.written() == [TO_HOUSE[0], "Sarah Jones"]


def test_the_page_says_what_is_being_done(open_page: Any, club: FailingClub) -> None:
    club.addresses.add("late")
    parent = open_page(club.address)
    parent.arrive(*TO_HOUSE)
    parent.wait_step(13)
    parent.write("12")
    parent.page.get_by_role("status").filter(has_text="I am looking up your address").wait_for()
    assert "Mill Lane" in parent.wait_answered()
    assert not parent.page.locator("#status").inner_text()


def test_the_network_is_lost_before_a_message(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.say(*TO_HOUSE[:3])
    parent.page.context.set_offline(True)
    parent.write("14-03-2016")
    parent.wait_trouble(OFFLINE)
    parent.page.context.set_offline(False)
    parent.wait_answered()
    parent.wait_step(4)
    assert parent.written() == list(TO_HOUSE[:4])
    assert not parent.page.get_by_role("alert").inner_text()


def test_the_network_is_lost_while_a_message_is_answered(open_page: Any, club: FailingClub) -> None:
    club.addresses.add("late")
    parent = open_page(club.address)
    parent.arrive(*TO_HOUSE)
    parent.wait_step(13)
    parent.write("12")
    parent.page.get_by_role("status").filter(has_text="I am looking up your address").wait_for()
    parent.page.context.set_offline(True)
    parent.wait_trouble(OFFLINE)
    parent.page.context.set_offline(False)
    assert "Mill Lane" in parent.wait_answered()
    assert parent.written() == [*TO_HOUSE, "12"]


def test_the_server_is_killed_and_started_again(open_page: Any, killable: KillableClub) -> None:
    parent = open_page(killable.address)
    parent.say(killable.code, "Sarah Jones")
    killable.kill()
    parent.write("Jack Jones")
    parent.wait_trouble(AWAY)
    killable.start()
    assert "born" in parent.wait_answered()
    parent.wait_step(3)
    parent.write("14-03-2017")
    killable.kill()
    killable.start()
    parent.wait_answered()
    parent.wait_step(4)
    assert parent.written() == [killable.code, "Sarah Jones", "Jack Jones", "14-03-2017"]


def test_a_page_that_is_opened_again_goes_on(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.say(*TO_HOUSE[:3])
    before = parent.lines()
    parent.page.reload()
    parent.wait_step(3)
    assert parent.lines() == before
    club.model_fault = Delay(1.0)
    parent.write("14-03-2016")
    parent.page.reload()
    parent.wait_answered()
    parent.wait_step(4)
    assert parent.written() == list(TO_HOUSE[:4])


def test_two_browsers_are_in_one_session(open_page: Any, club: FailingClub) -> None:
    one = open_page(club.address)
    one.say(*TO_HOUSE[:2])
    two = open_page(club.address, storage_state=one.page.context.storage_state())
    two.wait_step(2)
    assert two.lines() == one.lines()
    two.say("Jack Jones")
    one.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    one.wait_step(3)
    assert one.lines() == two.lines()
    # Both write at once: one turn after the other, and each message is answered.
    club.model_fault = Delay(0.5)
    one.write("14-03-2016")
    two.write("boy")
    one.wait_answered()
    two.wait_answered()
    club.model_fault = None
    one.page.reload()
    two.page.reload()
    one.page.locator("#talk .line.parent", has_text="boy").wait_for()
    two.page.locator("#talk .line.parent", has_text="14-03-2016").wait_for()
    assert one.lines() == two.lines()
    assert sorted(one.written()) == sorted([*TO_HOUSE[:4], "boy"])


def test_a_model_that_is_down_is_told_in_plain_words(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    club.model_fault = ErrorResponse("invalid_request")
    parent.write("How do I register?")
    trouble = parent.wait_trouble("Nothing is lost")
    club.model_fault = None
    trouble.get_by_role("button", name="Send it again").click()
    parent.wait_answered()
    assert parent.written() == ["How do I register?"]
    assert not parent.page.get_by_role("alert").inner_text()


def test_a_conversation_is_forgotten(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.say(*TO_HOUSE[:3])
    session = parent.page.evaluate("JSON.parse(localStorage['registration.session'])")
    forget = parent.page.get_by_role("button", name="Forget this conversation")
    forget.click()
    parent.page.get_by_role("button", name="Keep it", exact=True).click()
    assert len(parent.written()) == 3
    forget.click()
    parent.page.get_by_role("button", name="Forget it").click()
    parent.wait_trouble("is forgotten")
    assert parent.written() == []
    assert parent.page.evaluate("localStorage.length") == 0
    assert not parent.page.locator("#rows > div").count()
    gone = parent.page.request.get(
        f"{club.address}/sessions/{session['id']}",
        headers={"Authorization": f"Bearer {session['token']}"},
    )
    assert gone.status == 404
    parent.say(TO_HOUSE[0])
    parent.wait_step(1)


def test_what_a_person_writes_is_only_ever_text(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.say(HOSTILE, *TO_HOUSE[:1], "Sarah Jones", "Jack Jones")
    parent.page.reload()
    parent.wait_step(3)
    assert HOSTILE in parent.written()
    assert parent.page.title() == "Register your child"
    assert parent.page.locator("#talk img, #talk script").count() == 0


def test_a_photo_is_refused_and_another_one_ends_the_registration(
    open_page: Any, club: FailingClub, tmp_path: Path
) -> None:
    parent = open_page(club.address)
    parent.arrive(*TO_PHOTO)
    parent.wait_step(34)
    state = parent.page.locator("#photo-state")
    choose_photo(parent, b"words", "text/plain")
    state.filter(has_text="JPEG").wait_for()
    large = tmp_path / "large.jpg"
    large.write_bytes(bytes(10_000_001))
    choose_photo(parent, large)
    state.filter(has_text="larger than 10 MB").wait_for()
    choose_photo(parent, b"no picture at all" * 100)
    parent.page.get_by_role("button", name="Send this photo").click()
    state.filter(has_text="not a photo I can open").wait_for()
    choose_photo(parent, photo(pitch=True))
    parent.page.get_by_role("img", name="The photo that you chose").wait_for()
    parent.page.get_by_role("button", name="Send this photo").click()
    state.filter(has_text="I can see a pitch").wait_for()
    choose_photo(parent, photo())
    parent.page.get_by_role("button", name="Send this photo").click()
    parent.wait_step(35)
    last = parent.lines()[-1]
    assert last[0] == "club"
    assert not parent.page.locator("#photo").is_visible()
    assert not parent.page.get_by_role("button", name="Add the photo").is_visible()
    parent.page.reload()
    parent.wait_step(35)
    assert parent.lines()[-1] == last


def test_a_photo_is_sent_without_a_network_and_looked_at_after_a_reload(
    open_page: Any, club: FailingClub
) -> None:
    parent = open_page(club.address)
    parent.arrive(*TO_PHOTO)
    parent.wait_step(34)
    club.model_fault = Delay(3.0)
    choose_photo(parent, photo())
    parent.page.context.set_offline(True)
    parent.page.get_by_role("button", name="Send this photo").click()
    parent.page.locator("#photo-state", has_text="could not be sent yet").wait_for()
    parent.page.context.set_offline(False)
    parent.page.locator("#photo-state", has_text="has arrived").wait_for()
    parent.page.reload()
    parent.page.locator("#photo-state", has_text="has arrived").wait_for()
    parent.wait_step(35)


def test_the_last_question_is_seen_beside_a_photo(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.arrive(*TO_PHOTO)
    for width, height in ((1100, 800), (390, 700)):
        parent.page.set_viewport_size({"width": width, "height": height})
        for _ in range(3):
            parent.page.reload()
            parent.wait_step(34)
            choose_photo(parent, photo())
            parent.page.get_by_role("img", name="The photo that you chose").wait_for()
            parent.page.wait_for_timeout(100)
            box = "document.querySelector('#scroll')"
            hidden = f"{box}.scrollHeight - {box}.scrollTop - {box}.clientHeight"
            parent.page.wait_for_function(f"{hidden} < 2")


def test_nothing_is_asked_for_after_a_conversation_is_forgotten(
    open_page: Any, club: FailingClub
) -> None:
    parent = open_page(club.address)
    parent.arrive(*TO_PHOTO)
    parent.wait_step(34)
    club.model_fault = Delay(3.0)
    choose_photo(parent, photo())
    parent.page.get_by_role("button", name="Send this photo").click()
    parent.page.locator("#photo-state", has_text="has arrived").wait_for()
    parent.page.get_by_role("button", name="Forget this conversation").click()
    parent.page.get_by_role("button", name="Forget it").click()
    parent.wait_trouble("is forgotten")
    asked: list[str] = []
    parent.page.on("request", lambda request: asked.append(request.url))
    parent.page.wait_for_timeout(3000)
    assert asked == []
    assert not parent.page.locator("#photo").is_visible()


def test_words_that_were_written_to_a_forgotten_conversation_are_given_back(
    open_page: Any, club: FailingClub
) -> None:
    one = open_page(club.address)
    one.say(*TO_HOUSE[:2])
    two = open_page(club.address, storage_state=one.page.context.storage_state())
    two.wait_step(2)
    two.page.get_by_role("button", name="Forget this conversation").click()
    two.page.get_by_role("button", name="Forget it").click()
    two.wait_trouble("is forgotten")
    one.write("Jack Jones")
    one.wait_trouble("start afresh")
    assert one.page.get_by_label("Your message").input_value() == "Jack Jones"
    assert one.written() == []


def test_an_answer_grows_while_it_is_written(open_page: Any, club: FailingClub) -> None:
    club.model_fault = Pace(0.1)
    parent = open_page(club.address)
    parent.write("How do I register?")
    growing = parent.page.locator("#growing", has_text="Happy to help")
    growing.wait_for()
    whole = parent.wait_answered()
    assert "type the code" in whole
    assert not growing.is_visible()

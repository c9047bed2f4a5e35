"""What a person does in the console, in a browser, against a service whose process is killed meanwhile."""

from __future__ import annotations

import base64
import re

import pytest
from conformance.console.browser import HOSTILE, REPORT

pytestmark = pytest.mark.timeout(180)


def start_chat(page, service, agent: str, message: str) -> None:
    page.goto(f"{service.console}#/new?agent={agent}")
    page.get_by_role("radio", name=re.compile(agent)).check()
    page.get_by_label("Message", exact=True).fill(message)
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="x").or_(page.get_by_label("Session", exact=True)).first.wait_for()


def status_of(page, word: str):
    return page.locator(".session-head .state", has_text=word)


def test_a_report_goes_on_after_the_server_was_killed(page, service) -> None:
    start_chat(page, service, "writer", "Write a report.")
    said = page.locator(".message.model .said")
    page.locator(".message.model .said", has_text="Word 3").wait_for()
    assert "Word 59" not in said.first.inner_text(), "it streams"
    service.kill()
    page.locator(".state", has_text="connecting").first.wait_for()
    service.start()
    status_of(page, "Done").wait_for(timeout=60_000)
    assert said.last.inner_text().strip() == REPORT, "nothing is lost and nothing is there twice"
    assert said.count() == 1


def test_a_question_is_approved_with_one_key(page, service) -> None:
    start_chat(page, service, "support", "Refund A-1.")
    status_of(page, "Waiting for you").wait_for()
    page.keyboard.press("Escape")  # out of the message
    page.keyboard.press("g")
    page.keyboard.press("a")
    card = page.locator(".card")
    card.get_by_text("49.9").wait_for()
    page.keyboard.press("a")
    page.get_by_text("Nothing waits for you").wait_for()
    page.goto(f"{service.console}#/runs")
    page.locator(".run").first.click()
    status_of(page, "Done").wait_for()
    page.get_by_text("refunded 49.90 for A-1").first.wait_for()
    page.locator(".decision", has_text="approved by local").wait_for()


def test_edited_arguments_are_judged_before_they_are_sent(page, service) -> None:
    start_chat(page, service, "support", "Refund A-1.")
    page.get_by_role("button", name="Edit", exact=True).click()
    field = page.get_by_label("Arguments as the tool will get them")
    send = page.get_by_role("button", name="Approve with these")
    for wrong, problem in (
        ("{", "is not JSON"),
        ('{"order": "A-1"}', "amount is missing"),
        ('{"order": "A-1", "amount": "all"}', "amount must be a number"),
    ):
        field.fill(wrong)
        page.locator(".problems", has_text=problem).wait_for()
        assert send.is_disabled()
    field.fill('{"order": "A-1", "amount": 20}')
    page.get_by_text("Changed: amount.").wait_for()
    send.click()
    status_of(page, "Done").wait_for()
    page.get_by_text("refunded 20.00 for A-1").first.wait_for()


def test_a_denial_has_a_reason(page, service) -> None:
    start_chat(page, service, "support", "Refund A-1.")
    page.get_by_role("button", name="Deny").click()
    page.get_by_label("Why not?").fill("Too late.")
    page.keyboard.press("Enter")
    status_of(page, "Done").wait_for()
    page.locator(".decision.bad", has_text="Too late.").wait_for()


def test_two_people_answer_and_one_counts(page, service, browser) -> None:
    start_chat(page, service, "support", "Refund A-1.")
    status_of(page, "Waiting for you").wait_for()
    other = browser.new_context().new_page()
    other.goto(f"{service.console}#/approvals")
    other.get_by_role("button", name="Approve").wait_for()
    # The other page must not hear of it in time.
    other.route("**/api/v1/questions**", lambda route: route.abort())
    page.get_by_role("button", name="Deny").click()
    page.keyboard.press("Enter")
    status_of(page, "Done").wait_for()
    other.get_by_role("button", name="Approve").click()
    other.locator(".messages .error").wait_for()
    assert "first" in other.locator(".messages .error").first.inner_text()
    other.context.close()


def test_a_turn_is_cancelled_and_tried_again(page, service) -> None:
    start_chat(page, service, "writer", "Write a report.")
    page.locator(".message.model .said", has_text="Word 3").wait_for()
    page.get_by_role("button", name="Stop").click()
    status_of(page, "Cancelled").wait_for()
    page.get_by_role("button", name="Retry").click()
    status_of(page, "Running").wait_for()
    status_of(page, "Done").wait_for(timeout=60_000)


def test_a_turn_is_edited_forked_and_compared(page, service) -> None:
    start_chat(page, service, "support", "Refund A-1.")
    page.get_by_role("button", name="Approve", exact=True).click()
    status_of(page, "Done").wait_for()
    page.locator(".turn").hover()
    page.get_by_role("button", name="Edit and fork").click()
    page.get_by_role("dialog").get_by_label("Message").fill("Refund A-1, please.")
    page.get_by_role("button", name="Fork with this message").click()
    page.locator(".message.user", has_text="please").wait_for()
    page.get_by_role("button", name="Deny").click()
    page.keyboard.press("Enter")
    status_of(page, "Done").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Compare").click()
    page.locator(".plainlist a").first.click()
    page.locator("mark.diff-old, mark.diff-new").first.wait_for()
    assert page.locator(".side").count() == 2


def test_a_turn_has_a_link_to_its_trace(page, service) -> None:
    trace = "https://jaeger.example/trace/4bf92f35"
    for session, url in (("traced", trace), ("hostile", "javascript:window.hacked=1")):
        body = {"agent": "support", "message": "Hello.", "session": session}
        page.request.post(
            service.console.replace("/console/", "/api/v1/turns"),
            data={**body, "metadata": {"trace_url": url}},
        )
        page.goto(f"{service.console}#/runs/{session}")
        page.locator(".turn header").wait_for()
        links = page.locator(".turn header a")
        assert links.count() == (1 if url == trace else 0)
    page.goto(f"{service.console}#/runs/traced")
    link = page.locator(".turn header a")
    link.wait_for()
    assert link.get_attribute("href") == trace
    assert "noopener noreferrer" in str(link.get_attribute("rel"))


def test_a_run_is_found_by_its_words(page, service) -> None:
    for message in ("Refund A-1 for Grace.", "Refund A-1 for Ada."):
        start_chat(page, service, "support", message)
        status_of(page, "Waiting for you").wait_for()
    page.get_by_label("Search titles and messages").fill("grace")
    page.locator(".summary", has_text="1 run").wait_for()
    assert "Grace" in page.locator(".run").inner_text()
    page.get_by_role("group", name="State").get_by_role("button", name="Done").click()
    page.get_by_text("No run fits this filter.").wait_for()


def test_dear_runs_are_found_by_their_cost(page, service) -> None:
    service.kill()
    (service.folder / "prices.toml").write_text('["*"]\ninput = 1000\noutput = 10000\n')
    service.options = ("--prices", "prices.toml")
    service.start()
    start_chat(page, service, "support", "Refund A-1 for Grace.")
    status_of(page, "Waiting for you").wait_for()
    start_chat(page, service, "writer", "Write a long report.")
    status_of(page, "Done").wait_for()
    page.locator(".summary", has_text="2 runs").wait_for()
    cost = page.get_by_label("Cost of the last turn, at least")
    cost.fill("3")
    cost.blur()
    page.locator(".summary", has_text="1 run").wait_for()
    (run,) = page.locator(".run").all()
    assert "writer" in run.inner_text()
    assert float(run.get_by_title("cost of the last turn").inner_text()) > 3
    page.goto(f"{service.console}#/health")
    page.get_by_role("columnheader", name="cost").wait_for()


def test_the_journal_is_replayed_event_by_event(page, service) -> None:
    start_chat(page, service, "support", "Refund A-1.")
    page.get_by_role("button", name="Approve", exact=True).click()
    status_of(page, "Done").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    page.locator(".controls .number", has_text="/").wait_for()
    page.keyboard.press("Home")
    page.get_by_role("heading", name="turn_opened").wait_for()
    page.keyboard.press("j")
    page.get_by_role("heading", name="model_replied").wait_for()
    page.wait_for_url(re.compile(r"at=2$"))
    page.reload()
    page.get_by_role("heading", name="model_replied").wait_for()


def test_what_a_model_writes_is_text(page, service) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    start_chat(page, service, "writer", "Be hostile.")
    status_of(page, "Done").wait_for(timeout=60_000)
    said = page.locator(".message.model .said")
    assert "<script>window.hacked = 1</script>" in said.inner_text()
    assert "\u2039U+202E\u203a" in said.inner_text()
    assert said.locator("img, script").count() == 0
    assert said.locator("a[href^=javascript]").count() == 0
    assert page.evaluate("window.hacked") is None
    assert [
        url for url in requests if not url.startswith(service.console.split("/console")[0])
    ] == []
    assert HOSTILE


def test_signing_in_with_a_key_and_out_again(page, service) -> None:
    made = service.run(
        "keys", "create", "--journal", service.journal, "--name", "ann", "--scopes", "admin"
    )
    reader = service.run(
        "keys", "create", "--journal", service.journal, "--name", "bob", "--scopes", "read"
    )
    find = re.compile(r"hf_[\w-]+")
    service.stop()
    service.start()
    page.goto(service.console)
    page.get_by_label("Key", exact=True).fill("hf_" + "x" * 43)
    page.keyboard.press("Enter")
    page.locator(".problems", has_text=re.compile(r"\w")).wait_for()
    page.get_by_label("Key", exact=True).fill(find.search(made)[0])
    page.keyboard.press("Enter")
    page.locator(".who", has_text="ann").wait_for()
    start_chat(page, service, "support", "Refund A-1.")
    page.get_by_role("button", name="Approve", exact=True).click()
    status_of(page, "Done").wait_for()
    page.locator(".decision", has_text="approved by ann").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Key", exact=True).fill(find.search(reader)[0])
    page.keyboard.press("Enter")
    page.locator(".who", has_text="bob").wait_for()
    page.goto(f"{service.console}#/runs")
    page.locator(".run").first.click()
    status_of(page, "Done").wait_for()
    assert page.get_by_label("Message", exact=True).count() == 0, "bob may only read"
    assert page.get_by_role("button", name="Delete").count() == 0


def test_a_redacted_key_shows_states_and_no_texts(page, service) -> None:
    start_chat(page, service, "support", "Refund A-1 for Grace.")
    status_of(page, "Waiting for you").wait_for()
    page.goto("about:blank")
    made = service.run(
        "keys", "create", "--journal", service.journal, "--name", "eve", "--scopes", "read:redacted"
    )
    service.stop()
    service.start()
    page.goto(service.console)
    page.get_by_label("Key", exact=True).fill(re.search(r"hf_[\w-]+", made)[0])
    page.keyboard.press("Enter")
    page.locator(".run").first.click()
    status_of(page, "Waiting for you").wait_for()
    page.locator(".call", has_text="refund").wait_for()
    shown = page.locator("body").inner_text()
    assert "read only, without texts" in shown
    assert "Grace" not in shown
    assert "49.9" not in shown


def test_a_picture_is_sent_and_shown(page, service, tmp_path) -> None:
    red_dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
    (tmp_path / "dot.png").write_bytes(base64.b64decode(red_dot))
    page.goto(f"{service.console}#/new?agent=writer")
    page.get_by_role("radio", name=re.compile("writer")).check()
    page.get_by_label("Pictures").set_input_files(tmp_path / "dot.png")
    page.get_by_role("button", name="Remove dot.png").wait_for()
    page.get_by_label("Message", exact=True).fill("Be hostile about this picture.")
    page.keyboard.press("Enter")
    status_of(page, "Done").wait_for(timeout=60_000)
    picture = page.locator(".message.user img.picture")
    picture.wait_for()
    assert picture.evaluate("(one) => one.naturalWidth") == 1


def test_an_answer_that_is_cut_off_is_no_error_of_the_page(page, service) -> None:
    page.goto(f"{service.console}#/runs")
    page.locator(".summary", has_text="0 runs").wait_for()
    # Its body ends before its length: the connection broke.
    cut = "window.fetch = async () => new Response(new ReadableStream({ start(one) { one.error(new TypeError('Failed to fetch')); } }))"
    page.evaluate(cut)
    page.get_by_role("group", name="State").get_by_role("button", name="Failed").click()
    page.locator(".state", has_text="not reachable").wait_for()


def test_a_page_asks_nothing_while_nothing_happens_and_shows_what_does(page, service) -> None:
    asked: list[str] = []
    with page.expect_response("**/api/v1/changes"):
        page.goto(f"{service.console}#/runs")
    page.locator(".summary", has_text="0 runs").wait_for()
    page.wait_for_timeout(3_000)  # all that a new page asks for has come
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(6_000)
    assert asked == []
    body = {"agent": "support", "message": "Refund A-1.", "session": "ada"}
    assert page.request.post(service.console.replace("console/", "api/v1/turns"), data=body).ok
    page.locator(".run", has_text="Waiting for you").wait_for()
    page.locator(".badge", has_text="1").wait_for()
    page.get_by_role("button", name="Approve", exact=False).first.wait_for()
    assert {url.partition("api/v1/")[2].partition("?")[0] for url in asked} == {"questions"}


HIDE = """(word) => {
  Object.defineProperty(document, "visibilityState", { value: word, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_page_has_no_stream_and_reads_its_lists_when_it_is_seen_again(
    page, service
) -> None:
    with page.expect_response("**/api/v1/changes"):
        page.goto(f"{service.console}#/runs")
    page.locator(".summary", has_text="0 runs").wait_for()
    page.wait_for_timeout(1_000)  # all that a new page asks for has come
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/changes")):
        page.evaluate(HIDE, "hidden")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    body = {"agent": "support", "message": "Refund A-1.", "session": "ada"}
    assert page.request.post(service.console.replace("console/", "api/v1/turns"), data=body).ok
    page.wait_for_timeout(3_000)
    assert asked == []
    page.evaluate(HIDE, "visible")
    page.locator(".run", has_text="Waiting for you").wait_for()
    assert any(url.endswith("/changes") for url in asked)


def test_a_page_whose_stream_is_refused_or_lost_shows_the_runs_all_the_same(page, service) -> None:
    refusal = {"type": "about:blank", "title": "Too Many Requests", "status": 429, "kind": "x"}
    page.route("**/api/v1/changes", lambda route: route.fulfill(status=429, json=refusal))
    body = {"agent": "support", "message": "Refund A-1.", "session": "ada"}
    assert page.request.post(service.console.replace("console/", "api/v1/turns"), data=body).ok
    page.goto(f"{service.console}#/runs")
    page.locator(".run", has_text="Waiting for you").wait_for()
    page.unroute("**/api/v1/changes")
    with page.expect_response("**/api/v1/changes"):  # it is asked for again
        pass
    page.wait_for_timeout(1_000)
    service.kill()
    page.locator(".state", has_text="not reachable").wait_for()
    service.start()
    page.locator(".state", has_text="not reachable").wait_for(state="detached")
    page.locator(".run", has_text="Waiting for you").wait_for()

"""Errors of the openai_responses wire: the vendors' words, and what each must mean."""

from tests.codecs.bodies import Case, failure, name, openai

from holdfast.codecs.openai_responses.errors import classify

# fmt: off
CASES: list[Case] = [
    ("openai", None, {"type": "error", "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "Your input exceeds the context window of this model. Please adjust your input and try again.", "param": "input"}}, "context_window"),
    ("openai", None, {"type": "response.failed", "response": {"id": "r", "status": "failed", "error": {"code": "server_error", "message": "An error occurred while processing your request. You can retry your request, or contact us through our help center at help.openai.com if the error persists. Please include the request ID abc in your message."}}}, "server_error"),
    ("openai", None, {"type": "response.failed", "response": {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Rate limit reached for gpt-4.1 in organization x on tokens per min (TPM): Limit 30000, Used 30000. Please try again in 11.054s."}}}, "rate_limit_retryable"),
    ("openai", 400, openai("Your input image may contain content that is not allowed by our safety system.", "image_generation_user_error", "moderation_blocked"), "content_filtered"),
    ("openai", None, {"type": "error", "code": "image_content_policy_violation", "message": "x"}, "content_filtered"),
    ("openai", None, {"type": "response.failed", "response": {"error": {"code": "vector_store_timeout", "message": "x"}}}, "timeout"),
    ("openai", None, {"type": "error", "error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "You exceeded your current quota"}}, "rate_limit_terminal"),
    ("openai", None, {"type": "error", "sequence_number": 2, "error": {"code": "unknown-error", "message": "Foobar"}}, "server_error"),
    ("openai", None, {"type": "response.failed", "response": {"error": {"code": "failed_to_download_image", "message": "x"}}}, "client_error"),
    ("openai", 400, openai("Previous response with id 'resp_1' not found.", "invalid_request_error", "previous_response_not_found"), "client_error"),
    ("chatgpt", 401, {"detail": "Could not parse your authentication token. Please try signing in again."}, "auth_error"),
]
# fmt: on


def test_the_vendors_words_mean() -> None:
    found = [(name(case), classify(failure(case)).category.value, case[3]) for case in CASES]
    assert [row for row in found if row[1] != row[2]] == []

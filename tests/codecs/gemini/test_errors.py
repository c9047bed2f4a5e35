"""Errors of the gemini wire: the vendors' words, and what each must mean."""

from tests.codecs.bodies import Case, failure, google, name

from holdfast.codecs.gemini.errors import classify

# fmt: off
CASES: list[Case] = [
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 15\nPlease retry in 34.07s.", {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaMetric": "x", "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "quotaValue": "15"}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}), "rate_limit_retryable"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", {"@type": "x", "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}, {"@type": "x", "retryDelay": "34s"}), "rate_limit_terminal"),
    ("google", 400, google(400, "FAILED_PRECONDITION", "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio."), "auth_error"),
    ("google", 403, google(403, "PERMISSION_DENIED", "This API method requires billing to be enabled. Please enable billing on project #1 by visiting", {"reason": "BILLING_DISABLED"}), "rate_limit_terminal"),
    ("google", 403, google(403, "PERMISSION_DENIED", "You do not have permission to access tuned model tunedModels/x"), "auth_error"),
    ("google", 403, google(403, "PERMISSION_DENIED", "Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/p/locations/us/publishers/google/models/x' (or it may not exist).", {"reason": "IAM_PERMISSION_DENIED"}), "auth_error"),
    ("google", 400, google(400, "INVALID_ARGUMENT", "Unable to submit request because the input token count is 1048577 but model only supports up to 1048576. Reduce the input token count and try again."), "context_window"),
    ("google", 400, google(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed (1048576)."), "context_window"),
    ("google", 400, google(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", {"reason": "API_KEY_INVALID"}), "auth_error"),
    ("google", 400, google(400, "INVALID_ARGUMENT", "Please ensure that function call turn comes immediately after a user turn or after a function response turn."), "client_error"),
    ("google", 400, google(400, "INVALID_ARGUMENT", 'Invalid JSON payload received. Unknown name "additionalProperties" at \'tools[0].function_declarations[0].parameters\': Cannot find field.'), "client_error"),
    ("google", 400, google(400, "INVALID_ARGUMENT", "* GenerateContentRequest.contents: contents is not specified"), "client_error"),
    ("google", 400, google(400, "INVALID_ARGUMENT", "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again."), "client_error"),
    ("google", 404, google(404, "NOT_FOUND", "Requested entity was not found."), "client_error"),
    ("google", 404, google(404, "NOT_FOUND", "This model models/gemini-2.0-flash is no longer available to new users. Please update your code to use a newer model for the latest features and improvements."), "model_not_found"),
    ("google", 400, google(400, "INVALID_ARGUMENT", "unexpected model name format"), "client_error"),
    ("google", 499, google(499, "CANCELLED", "The operation was cancelled."), "transient"),
    ("google", 500, google(500, "INTERNAL", "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"), "server_error"),
    ("google", 503, google(503, "UNAVAILABLE", "The service is currently unavailable."), "transient"),
    ("google", 504, google(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."), "timeout"),
    ("google", 403, google(403, "PERMISSION_DENIED", "Requests from referer <empty> are blocked.", {"reason": "API_KEY_HTTP_REFERRER_BLOCKED"}), "auth_error"),
    ("google", 403, google(403, "PERMISSION_DENIED", "Requests to this API generativelanguage.googleapis.com method google.ai.generativelanguage.v1beta.GenerativeService.GenerateContent are blocked.", {"reason": "API_KEY_SERVICE_BLOCKED"}), "auth_error"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0, model: gemini-2.5-pro\nPlease retry in 34.07s.", {"retryDelay": "34s"}), "rate_limit_terminal"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", {"violations": [{"quotaId": "GenerateRequestsPerMinute", "quotaValue": "0"}]}, {"retryDelay": "34s"}), "rate_limit_terminal"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Requests'", {"reason": "RATE_LIMIT_EXCEEDED", "metadata": {"quota_limit_value": "0"}}), "rate_limit_terminal"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: requests, limit: 10, model: gemini-2.5-pro\nPlease retry in 34.07s.", {"violations": [{"quotaId": "GenerateRequestsPerMinute", "quotaValue": "10"}]}), "rate_limit_retryable"),
    ("google", 401, google(401, "UNAUTHENTICATED", "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.", {"reason": "ACCESS_TOKEN_TYPE_UNSUPPORTED"}), "auth_error"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects to manage your project and billing."), "rate_limit_terminal"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "Your project has exceeded its monthly spending cap."), "rate_limit_terminal"),
    ("google", 400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), "auth_error"),
    ("google_vertex", 400, google(400, "FAILED_PRECONDITION", "$grpcMessage", {"@type": "type.googleapis.com/google.rpc.DebugInfo", "detail": "[ORIGINAL ERROR] generic::failed_precondition: User location is not supported for the API use."}), "auth_error"),
    ("google", 400, {"message": "User location is not supported for the API use."}, "auth_error"),
    ("google", 403, google(403, "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API key."), "auth_error"),
    ("google", 400, google(400, "INVALID_ARGUMENT", "Your API key was reported as leaked."), "auth_error"),
    ("google", 403, google(403, "PERMISSION_DENIED", "Generative Language API has not been used in project 1 before or it is disabled.", {"reason": "SERVICE_DISABLED"}), "auth_error"),
    ("google", 400, {"message": "Vertex AI API has not been used in project 1 before or it is disabled."}, "auth_error"),
    ("google", 404, google(404, "NOT_FOUND", "models/x is not found for API version v1beta, or is not supported for generateContent."), "model_not_found"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota. Go to https://aistudio.google.com/apikey to upgrade your quota tier, or submit a quota increase request"), "rate_limit_terminal"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."), "rate_limit_retryable"),
    ("google", 409, google(409, "ABORTED", "Conflict"), "transient"),
    ("google", 503, '{"error": {"code": 429, "message": "Resource exhausted"}}', "transient"),
    ("google", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Generate Content API requests per minute'", {"reason": "RATE_LIMIT_EXCEEDED"}), "rate_limit_retryable"),
]
# fmt: on


def test_the_vendors_words_mean() -> None:
    found = [(name(case), classify(failure(case)).category.value, case[3]) for case in CASES]
    assert [row for row in found if row[1] != row[2]] == []

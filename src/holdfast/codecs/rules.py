"""The error rows that all wires share, because gateways wrap the errors of any vendor in any wire.

The order matters. Texts about content, money and size come before the codes and statuses that
providers use for several errors; rows with only a status come last. Each text was written for a
documented message, and matches within one sentence. This module holds only data.
"""

from __future__ import annotations

from holdfast.codecs.classify import ErrorRule, error_rule
from holdfast.codecs.error_body import ZERO_QUOTA
from holdfast.core.errors import ErrorCategory as Category

# After a server error, a text about the request proves nothing, so 5xx is left out.
_REFUSED = (0, *range(400, 500))
_SIZE = (0, 400, 413, 414, 422, 500)

CONTENT: tuple[ErrorRule, ...] = (
    error_rule(
        Category.CONTENT_FILTERED,
        codes="content_filter content_filtered content_policy_violation responsibleaipolicyviolation "
        "content_policy moderation moderation_blocked safety prohibited_content blocklist "
        "sensitive_words_detected data_inspection_failed datainspectionfailed",
    ),
    error_rule(
        Category.CONTENT_FILTERED,
        statuses=(*_REFUSED, 500),
        text=r"content filter|content[ _]management policy|content[ _]policy|usage polic|safety system|"
        r"usage guidelines|requires moderation|flagged (?:as|by|for)|was flagged|"
        r"inappropriate content|blocked by (?:the )?(?:safety|guardrail)|prohibited use polic|"
        r"content exists risk",
    ),
    # The provider's check of the model's output failed; another attempt may succeed.
    error_rule(
        Category.INVALID_RESPONSE,
        codes="tool_use_failed json_validate_failed output_parse_failed tool_call_generation_failed",
    ),
    error_rule(
        Category.INVALID_RESPONSE, text=r"model (?:produced|generated) (?:invalid|malformed)"
    ),
)

MONEY: tuple[ErrorRule, ...] = (
    # A limit of 0 is a plan without this model: no wait helps, although Google names one.
    error_rule(Category.RATE_LIMIT_TERMINAL, codes=ZERO_QUOTA),
    error_rule(Category.RATE_LIMIT_TERMINAL, statuses=(0, 429), text=r"\blimit:? 0\b(?![.,]?\d)"),
    # google.rpc uses RESOURCE_EXHAUSTED for every limit; the name of the quota contains the period.
    error_rule(Category.RATE_LIMIT_TERMINAL, codes="resource_exhausted", text=r"per[ _]?day"),
    error_rule(
        Category.RATE_LIMIT_TERMINAL,
        codes="resource_exhausted",
        text=r"prepayment|spending|upgrade your quota tier",
        short_wait=False,
    ),
    error_rule(Category.RATE_LIMIT_RETRYABLE, codes="resource_exhausted"),
    error_rule(
        Category.RATE_LIMIT_TERMINAL,
        codes="insufficient_quota insufficient_credit insufficient_credits no_credit "
        "insufficient_balance billing_error billing_hard_limit_reached billing_not_active "
        "exceeded_current_quota_error quota_exceeded usage_limit_reached payment_required "
        "servicequotaexceededexception arrearage",
    ),
    error_rule(Category.RATE_LIMIT_TERMINAL, statuses=(402,)),
    error_rule(
        Category.RATE_LIMIT_TERMINAL,
        statuses=_REFUSED,
        text=r"(?:exceeded|reached) your (?:current |monthly )?quota|quota has been exceeded|"
        r"out of .{0,40}\bquota|(?:account|current|credit|insufficient) balance|"
        r"insufficient[ _](?:funds|credit|quota)|"
        r"(?:out of|no|any|all available|used all|more|included|purchase|add|not enough) credits|"
        r"credits? (?:are|is|has|have been) (?:depleted|exhausted)|spend(?:ing)?[ _-](?:limit|cap)|"
        r"(?:hard|usage|billing) limits?\b|extra usage is required",
    ),
    # A single request exceeds the whole limit, so waiting does not help.
    error_rule(
        Category.RATE_LIMIT_TERMINAL,
        statuses=(0, 413, 429),
        text=r"request too large .{0,200}\bper (?:min|hour|day)|tokens must be reduced in order to run",
    ),
    error_rule(
        Category.RATE_LIMIT_TERMINAL,
        statuses=(0, 429),
        text=r"\b(?:per|a)[ _-]?day\b|byday|\bdaily\b|\b24 hours|(?:per[ _-]?|/ ?)month|monthly",
        short_wait=False,
    ),
)

# Codes with one meaning, whatever the status.
NAMED: tuple[ErrorRule, ...] = (
    error_rule(
        Category.RATE_LIMIT_RETRYABLE,
        codes="rate_limit_exceeded rate_limit_error rate_limit rate_limited ratelimitreached "
        "too_many_requests toomanyrequestsexception throttlingexception throttling "
        "throttlingerror throttled requestlimitexceeded request_limit_exceeded token_quota_reached "
        "request_quota_exceeded",
    ),
    error_rule(
        Category.MODEL_NOT_FOUND,
        codes="model_not_found modelnotfound model_not_available model_not_supported invalid_model "
        "model_decommissioned model_deprecated deploymentnotfound unknown_model "
        "unavailable_model modelerror_notfound",
    ),
    error_rule(
        Category.CONTEXT_WINDOW,
        codes="context_length_exceeded exceed_context_size_error context_window_exceeded "
        "model_context_window_exceeded input_too_long prompt_too_long tokens_limit_reached "
        "too_many_prompt_tokens",
    ),
    error_rule(Category.RATE_LIMIT_RETRYABLE, statuses=(429,)),
    error_rule(
        Category.AUTH_ERROR,
        codes="invalid_api_key api_key_invalid incorrect_api_key authentication_error "
        "invalid_authentication_error invalid_authentication unauthenticated unauthorized "
        "credentials_missing access_token_expired permission_error permission_denied "
        "permission-denied access_denied forbidden service_disabled account_deactivated "
        "api_key_service_blocked consumer_invalid consumer_suspended validation_required "
        "unsupported_country_region_territory ip_not_authorized accessdeniedexception "
        "expiredtokenexception unrecognizedclientexception invalidsignatureexception "
        "missingauthenticationtokenexception incompletesignatureexception token_expired",
    ),
)

# The text of a rate limit names a period, and that of a prompt does not.
_NO_PERIOD = r"(?!.{0,80}\bper[ _-]?(?:second|min|hour|day|month))"

SIZE: tuple[ErrorRule, ...] = (
    # These providers answer a prompt that is too long with a status only.
    error_rule(
        Category.CONTEXT_WINDOW, statuses=(413,), text=r"\A\Z", providers="cerebras mistral"
    ),
    error_rule(
        Category.CONTEXT_WINDOW,
        statuses=_SIZE,
        text=rf"(?<!ly )tokens? limit (?:(?:was|is|has been) )?(?:reached|exceeded|hit)\b{_NO_PERIOD}|"
        rf"(?:reach|exceed|hit|pass)(?:s|es|ed|ing)? (?:the |this |your )?(?:model )?(?:maximum |max )?"
        rf"tokens? limit{_NO_PERIOD}",
    ),
    error_rule(
        Category.CONTEXT_WINDOW,
        statuses=_SIZE,
        text=r"context[ _](?:length|window|size|limit)|(?:prompt|input) (?:is )?too long|"
        r"too long for (?:the )?(?:requested )?model|exceeds? (?:the )?available context|"
        r"maximum (?:prompt|input) (?:length|tokens)|prompt has too many tokens|too many (?:input |prompt )?tokens|"
        r"input token count|(?:prompt|input) tokens? (?:count )?.{0,60}(?:exceed|limit)|"
        r"exceeds? the (?:maximum )?(?:number of tokens|token limit)|exceed(?:s|ed)? (?:the )?model(?:'s)? "
        r"(?:token limit|maximum)|reduce the length of (?:the|your) (?:messages|prompt|input)|"
        r"expected maxlength: \d+, actual|`inputs` tokens|input (?:length|sequence).{0,80}exceed|"
        r"max_model_len|maximum model length|>= ?n_ctx",
    ),
)

ACCESS: tuple[ErrorRule, ...] = (
    error_rule(
        Category.AUTH_ERROR,
        statuses=_REFUSED,
        text=r"api[ _-]?key (?:not (?:valid|found)|is (?:invalid|missing|not valid)|(?:has )?expired)|"
        r"(?:invalid|incorrect|missing|no|wrong) (?:x-)?api[ _-]?key|authentication (?:fails|failed|error)|"
        r"no auth credentials|user location is not supported|must be verified|"
        r"organization has been (?:disabled|restricted)|account .{0,60}(?:disabled|suspended|deactivated)|"
        r"has not been used in project|reported as leaked|"
        r"(?:invalid|expired) (?:access|auth\w{0,12}|bearer|api|id|jwt|security|session|oauth2?) token|"
        # Without one of these words, a token may be a piece of the prompt.
        r"(?:invalid|expired) token(?: (?:provided|supplied))?[.!]?(?:\n|\Z)|"
        r"api key has been (?:disabled|revoked|deactivated)|not authorized to (?:invoke|perform)|"
        r"(?:missing|invalid) authorization|login fail",
    ),
)

_NAME = (
    r"(?:(?:id|name|version|identifier|for this resource) )?"
    r"[`'\"\[(]{0,2}[\w.:/@-]{0,120}[`'\"\])]{0,2}"
)
_ABSENT = (
    r"(?:(?:was|were|is|are|could|can|does|do|has|have|been|be|already) ){0,3}(?:not (?:been )?(?:be )?(?:found|exist|available|supported\b|"
    r"deployed|a valid)|cannot be found|no longer (?:available|supported|exists)|unavailable\b|removed|deprecated|decommissioned|"
    r"retired|discontinued|shut down|sunset|reached (?:the|its) end)"
)
MODEL: tuple[ErrorRule, ...] = (
    error_rule(
        Category.MODEL_NOT_FOUND,
        statuses=(0, 400, 403, 404, 410, 422),
        text=r"(?:invalid|unknown|no such|unsupported|unrecognized) model\b|not a valid model|model not found|"
        r"models? identifier .{0,20}invalid|try pulling it first|is not found for api version|"
        r"supported (?:api )?model(?: name)?s are|end of its life|"
        # The model has another name here, that of an inference profile.
        r"on-demand throughput (?:isn.t|is not) supported",
    ),
    error_rule(
        Category.MODEL_NOT_FOUND,
        statuses=(0, 400, 403, 404, 410, 422),
        text=rf"\b(?:model|deployment)s?[ :/]{{1,2}}{_NAME}\s{{0,2}}{_ABSENT}",
    ),
    error_rule(
        Category.MODEL_NOT_FOUND,
        statuses=(0, 400, 403, 404),
        text=r"not have access to (?:the )?(?:requested )?model|access to the model",
    ),
    error_rule(Category.MODEL_NOT_FOUND, statuses=(404, 410), text=r"\bmodels?\b"),
)

STATUS: tuple[ErrorRule, ...] = (
    # The request was complete when it was sent, so it was cut in transit.
    error_rule(
        Category.SERVER_ERROR, statuses=(400,), text=r"not valid json: (?:unexpected end|eof)"
    ),
    error_rule(Category.TIMEOUT, statuses=(400,), text=r"timed out generating"),
    error_rule(Category.AUTH_ERROR, statuses=(401, 403, 407)),
    error_rule(Category.TIMEOUT, statuses=(408, 504, 522, 524, 598, 599)),
    # The vendors' clients repeat 409 (a lock) and 425; 499 is a request that a proxy saw as cancelled.
    error_rule(Category.TRANSIENT, statuses=(409, 425, 499, 503, 529)),
    error_rule(Category.SERVER_ERROR, statuses=(424,)),
    error_rule(Category.CLIENT_ERROR, statuses=(501, 505, *range(300, 500))),
    error_rule(
        Category.TRANSIENT,
        statuses=tuple(range(500, 600)),
        codes="overloaded_error unavailable service_unavailable",
    ),
    error_rule(Category.SERVER_ERROR, statuses=tuple(range(500, 600))),
)

# Errors inside a stream have no status: the type decides, then the text.
IN_STREAM: tuple[ErrorRule, ...] = (
    error_rule(
        Category.TRANSIENT,
        codes="overloaded_error overloaded engine_overloaded unavailable service_unavailable "
        "service_unavailable_error serviceunavailableexception modelnotreadyexception",
    ),
    error_rule(
        Category.TIMEOUT,
        codes="timeout timeout_error request_timeout deadline_exceeded modeltimeoutexception",
    ),
    error_rule(
        Category.SERVER_ERROR,
        codes="api_error server_error internal internal_error internal_server_error "
        "internalserverexception modelstreamerrorexception modelerrorexception unknown-error",
    ),
    error_rule(
        Category.CLIENT_ERROR,
        codes="invalid_request_error invalid_argument invalid_request failed_precondition "
        "validationexception validation_error not_found_error not_found request_too_large "
        "bad_request out_of_range unimplemented not_supported_error resourcenotfoundexception",
    ),
    error_rule(
        Category.RATE_LIMIT_RETRYABLE, text=r"rate[ -]?limit|too many requests|throttl|quota"
    ),
    error_rule(Category.TIMEOUT, text=r"timeout|timed out|deadline"),
    error_rule(
        Category.TRANSIENT, text=r"overload|unavailable|capacity|try again|connection|network"
    ),
    error_rule(Category.SERVER_ERROR),
)

SHARED: tuple[ErrorRule, ...] = (
    *CONTENT,
    *MONEY,
    *NAMED,
    *SIZE,
    *ACCESS,
    *MODEL,
    *STATUS,
    *IN_STREAM,
)

"""The values that the parts of a registration exchange: its state, readings, replies, and effects."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from registration.club.codes import RegistrationCode
from registration.club.fees import Fees
from registration.club.redaction import Redacted

Effect = Literal[
    "find_registration",
    "look_up_parent_address",
    "look_up_child_address",
    "request_payment",
    "save_registration",
    "send_payment_link",
    "tell_club",
    "check_kit",
    "reserve_shirt",
    "check_photo",
    "update_registration",
]
Kind = Literal[
    "asked", "asked_again", "answered_question", "changed", "not_changed", "working", "done"
]
Further = Literal["resume", "identity", "medical_detail", "which_field"]


class Reading(Redacted, frozen=True):
    """The reading of a message, by a model or by code; `take` decides how the registration goes on.

    Args:
        understood: Whether the message answers the open question.
        value: The answer, in the parent's words.
        wants_to_change: The field that the parent corrects; `value` is its new value, if they gave one.
        question: The parent's own question.
    """

    understood: bool
    value: str | None = None
    wants_to_change: str | None = None
    question: str | None = None


class Said(Redacted, frozen=True):
    """The finished text of a reply; a model may word it in its own way.

    Args:
        kind: Why this is said. `working`: an effect is pending and the text is shown meanwhile.
        text: The text.
        question: The parent's question, which a model should answer before the text.
    """

    kind: Kind
    text: str
    question: str | None = None


class Terms(Struct, frozen=True):
    """The facts about the club in the texts.

    Args:
        contact: The e-mail address to write to when somebody is stuck.
        fees: The amounts.
    """

    contact: str = "admin@club.example"
    fees: Fees = Fees()


class Offer(Redacted, frozen=True):
    """A registration of the same code and name that was found, until the parent shows that it is theirs.

    Args:
        registration: Its id.
        step: The step at which it goes on.
        answers: The saved answers.
    """

    registration: str
    step: int
    answers: Mapping[str, object]


class Progress(Redacted, frozen=True):
    """The whole state of a registration; plain data, as JSON by msgspec.

    Args:
        code: The code that the parent typed.
        step: The number of the current step.
        answers: The validated values by field.
        tries: How many answers to the open question were not valid.
        pending: The effect that the server performs next, before it reads another message.
        back_to: The step to return to when a correction is done.
        registration: The id of the record, from the first effect of step 29 on.
        further: The question that stands in place of the step's own.
        offer: A registration that the parent may resume.
        outcomes: Whether each effect of the journey succeeded.
        changed: The fields that were corrected and not confirmed since.
        terms: The facts about the club in the texts.
    """

    code: RegistrationCode
    step: int
    answers: Mapping[str, object] = field(default_factory=dict)
    tries: int = 0
    pending: Effect | None = None
    back_to: int | None = None
    registration: str | None = None
    further: Further | None = None
    offer: Offer | None = None
    outcomes: Mapping[str, bool] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    terms: Terms = Terms()


class Facts(Redacted, frozen=True):
    """The facts for the choice of the next step or effect."""

    code: RegistrationCode
    answers: Mapping[str, object]
    outcomes: Mapping[str, bool]
    correcting: bool = False

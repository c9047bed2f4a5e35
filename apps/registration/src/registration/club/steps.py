"""The 35 steps as a table: the question, the validator of the answer, and the next step."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from registration.club.answers.checked import Asked, Checked, Validator, accept
from registration.club.answers.choices import (
    check_gender,
    check_relationship,
    check_yes_or_no,
)
from registration.club.answers.club_matters import (
    check_kit_size,
    check_payment_day,
    check_played_last_season,
    check_shirt_number,
    show_payment_day,
    show_played,
)
from registration.club.answers.contact import (
    check_address,
    check_child_email,
    check_child_phone,
    check_house,
    check_name,
    check_parent_email,
    check_parent_phone,
    check_postcode,
    show_address,
)
from registration.club.answers.dates import check_child_born, check_parent_born
from registration.club.answers.medical import check_detail, check_medical, show_medical
from registration.club.codes import is_sixteen_or_over
from registration.club.progress import Effect, Facts, Further

Condition = Callable[[Facts], bool]
LAST_STEP = 35


def always(facts: Facts) -> bool:
    """Hold for all facts."""
    return True


def succeeded(effect: Effect) -> Condition:
    """Return the condition that an effect was performed and succeeded."""
    return lambda facts: facts.outcomes.get(effect, False)


def answered(field: str, value: object) -> Condition:
    """Return the condition that a field has a value."""
    return lambda facts: facts.answers.get(field) == value


class Branch(Struct, frozen=True):
    """Where a step leads.

    Args:
        to: The number of the next step.
        when: The condition in a few words, for the documents; empty when it always holds.
        holds: The condition. The first branch whose condition holds is taken.
    """

    to: int
    when: str = ""
    holds: Condition = always


class Duty(Struct, frozen=True):
    """An effect that the server performs after a valid answer.

    Args:
        effect: Its name.
        when: The condition in a few words; empty when it always holds.
        holds: The condition.
    """

    effect: Effect
    when: str = ""
    holds: Condition = always


class Step(Struct, frozen=True):
    """One question of the journey.

    Args:
        number: Its number, from 1 to 35.
        field: The field of the answers that it fills; empty when it fills none.
        title: Its name in a few words, for the progress and the summary.
        asks: The question, with `{child}`, `{parent}`, `{team}` and other words to fill in.
        check: The validator of the answer; None when the step asks nothing.
        readable: Whether code can read the answer from the words alone.
        example: An answer of the right form.
        why: Why the club asks; the answer to "why do you need this?" when no model can give one.
        rule: The accepted answers, in a few words, for the documents.
        duties: The effects that follow a valid answer, in order.
        next: Where it leads.
        show: Returns a value as text, which the validator accepts again.
    """

    number: int
    field: str
    title: str
    asks: str
    check: Validator | None
    readable: bool
    example: str
    why: str
    rule: str
    duties: tuple[Duty, ...] = ()
    next: tuple[Branch, ...] = ()
    show: Callable[[object], str] = str


def check_any_text(text: str, asked: Asked) -> Checked:
    """Accept any text."""
    return accept(text, text.strip())


def show_name(name: object) -> str:
    """Return a name with its parts joined."""
    return f"{name['first']} {name['last']}" if isinstance(name, Mapping) else ""


def show_yes_or_no(answer: object) -> str:
    """Return a bool as a word."""
    return "Yes" if answer else "No"


def is_new(facts: Facts) -> bool:
    """Return whether the code is for a new player."""
    return facts.code.kind == "200"


def needs_kit(facts: Facts) -> bool:
    """Return whether kit is due: always for a player who was not here last season."""
    return not facts.answers.get("played_last_season") or facts.outcomes.get("check_kit", False)


KIT_BRANCHES = (
    Branch(32, "kit is due", needs_kit),
    Branch(34, "no kit, code 200", is_new),
    Branch(35, "no kit, code 100"),
)
KIT_DUTY = Duty("check_kit", "played here last season", answered("played_last_season", True))

_TABLE = (
    Step(
        1, "parent_name", "Your name",
        "Can I take your first and last name so I know how to refer to you?",
        check_name, True, "Sarah Jones",
        "We keep the name of a parent or guardian for every player.",
        "first and last name; letters, ' and -, in any alphabet; no initials",
        next=(Branch(2),), show=show_name,
    ),
    Step(
        2, "child_name", "Your child's name",
        "Thank you, {parent}. What are your child's first and last name?",
        check_name, True, "Jack Jones",
        "It is the name on the team sheet and with the league.",
        "as 1; a registration begun before is offered for resuming",
        duties=(Duty("find_registration", "code 200", lambda facts: is_new(facts) and not facts.correcting),),
        next=(Branch(3),), show=show_name,
    ),
    Step(
        3, "child_born", "Date of birth",
        "When was {child} born?",
        check_child_born, True, "14-03-2015",
        "The league sorts players into age groups by date of birth.",
        "a date, day first; 2007 or later; fits the age group within a year",
        next=(Branch(4),),
    ),
    Step(
        4, "gender", "Gender",
        "Is {child} male or female? You can also prefer not to say.",
        check_gender, True, "Female",
        "The league asks for it. You are welcome not to say.",
        "Male, Female or Not disclosed",
        next=(Branch(5),),
    ),
    Step(
        5, "medical", "Medical issues",
        "Does {child} have any medical issues that our managers should know about? If so, please list them.",
        check_medical, True, "Asthma, nut allergy",
        "So that our managers can look after {child} at training and at matches.",
        "no, or a list; one further question about a serious issue",
        next=(Branch(6),), show=show_medical,
    ),
    Step(
        6, "played_last_season", "Played for us last season",
        "Did {child} play for our club last season? If not, tell me which team it was, if any.",
        check_played_last_season, True, "No, Urmston Rovers",
        "It tells us whether {child} needs a kit, and whether another club must release {child}.",
        "yes or no; with a no, another team if there was one",
        next=(Branch(7),), show=show_played,
    ),
    Step(
        7, "relationship", "Your relationship",
        "What is your relationship to {child}: mother, father, guardian, or other?",
        check_relationship, True, "Mother",
        "We need to know who may decide for {child}.",
        "Mother, Father, Guardian or Other",
        next=(Branch(8),),
    ),
    Step(
        8, "parent_phone", "Your mobile number",
        "What is your mobile number, {parent}?",
        check_parent_phone, True, "07700 900123",
        "We send the payment link to it, and ring it if {child} is unwell.",
        "UK mobile: 07 and 9 digits, or +44",
        next=(Branch(9),),
    ),
    Step(
        9, "parent_email", "Your e-mail address",
        "And your e-mail address?",
        check_parent_email, True, "sarah@example.com",
        "The club sends news and fixtures by e-mail.",
        "one @ and a dot behind it; lower case",
        next=(Branch(10),),
    ),
    Step(
        10, "consent", "E-mails and messages",
        "May the club send you e-mails and text messages about {child}'s football?",
        check_yes_or_no, True, "Yes",
        "We only write to people who agree. You can say no and still register.",
        "yes or no; both go on",
        next=(Branch(11),), show=show_yes_or_no,
    ),
    Step(
        11, "parent_born", "Your date of birth",
        "What is your own date of birth, {parent}?",
        check_parent_born, True, "02-11-1985",
        "The league asks for it, to know that a grown-up registers {child}.",
        "a date, day first; 1900 or later; at least 16 years ago",
        next=(Branch(12),),
    ),
    Step(
        12, "parent_postcode", "Your postcode",
        "What is your postcode?",
        check_postcode, True, "M41 5AB",
        "The league asks for the address of every family.",
        "UK postcode; stored in capitals without a space",
        next=(Branch(13),),
    ),
    Step(
        13, "parent_house", "Your house",
        "And the number or name of your house?",
        check_house, True, "12",
        "With the postcode it gives me your address, so that you need not type it.",
        "any number or name; then the address is looked up",
        duties=(Duty("look_up_parent_address"),),
        next=(Branch(15, "address found", succeeded("look_up_parent_address")), Branch(14, "nothing found")),
    ),
    Step(
        14, "parent_address", "Your address",
        "Could you type your full address for me: house, street, town and postcode?",
        check_address, True, "12 High Street, Urmston, M41 5AB",
        "The league asks for the address of every family.",
        "house, street, town and UK postcode",
        next=(Branch(15),), show=show_address,
    ),
    Step(
        15, "parent_address_right", "Your address is right",
        "I have {parent_address}. Is this right?",
        check_yes_or_no, True, "Yes",
        "I looked it up by postcode and house, and want to be sure.",
        "yes or no",
        next=(Branch(16, "yes", answered("parent_address_right", True)), Branch(14, "no")), show=show_yes_or_no,
    ),
    Step(
        16, "same_address", "Same address",
        "Does {child} live at the same address?",
        check_yes_or_no, True, "Yes",
        "The league asks where the player lives.",
        "yes or no",
        next=(Branch(22, "yes", answered("same_address", True)), Branch(18, "no")), show=show_yes_or_no,
    ),
    Step(
        18, "child_postcode", "{child}'s postcode",
        "What is the postcode where {child} lives?",
        check_postcode, True, "M41 7CD",
        "The league asks where the player lives.",
        "as 12",
        next=(Branch(19),),
    ),
    Step(
        19, "child_house", "{child}'s house",
        "And the number or name of the house?",
        check_house, True, "Rose Cottage",
        "With the postcode it gives me the address, so that you need not type it.",
        "as 13",
        duties=(Duty("look_up_child_address"),),
        next=(Branch(21, "address found", succeeded("look_up_child_address")), Branch(20, "nothing found")),
    ),
    Step(
        20, "child_address", "{child}'s address",
        "Could you type {child}'s full address for me: house, street, town and postcode?",
        check_address, True, "Rose Cottage, Mill Lane, Flixton, M41 7CD",
        "The league asks where the player lives.",
        "as 14",
        next=(Branch(21),), show=show_address,
    ),
    Step(
        21, "child_address_right", "{child}'s address is right",
        "I have {child_address} for {child}. Is this right?",
        check_yes_or_no, True, "Yes",
        "I looked it up by postcode and house, and want to be sure.",
        "yes or no",
        next=(Branch(22, "yes", answered("child_address_right", True)), Branch(20, "no")), show=show_yes_or_no,
    ),
    Step(
        22, "", "Age group", "", None, False, "", "",
        "code decides; nothing is asked and no model is called",
        next=(
            Branch(23, "U16 or older", lambda facts: is_sixteen_or_over(facts.code.age_group)),
            Branch(28, "younger"),
        ),
    ),
    Step(
        23, "child_phone", "{child}'s mobile number",
        "As {child} is 16 or nearly so, I also need {child}'s own mobile number. What is it?",
        check_child_phone, True, "07700 900456",
        "Older players hear about matches themselves.",
        "as 8; not the parent's",
        next=(Branch(24),),
    ),
    Step(
        24, "child_email", "{child}'s e-mail address",
        "And {child}'s own e-mail address?",
        check_child_email, True, "jack@example.com",
        "Older players hear about matches themselves.",
        "as 9; not the parent's",
        next=(Branch(28),),
    ),
    Step(
        28, "confirmed", "Everything is right",
        "Here is what I have:\n{summary}\nIs everything right?",
        check_yes_or_no, True, "Yes",
        "It goes to the league as it stands here.",
        "yes or no; with a no, the field to change",
        duties=(
            Duty("update_registration", "already registered", lambda facts: facts.outcomes.get("save_registration", False)),
        ),
        next=(
            Branch(35, "already registered", succeeded("save_registration")),
            Branch(29, "yes"),
        ),
        show=show_yes_or_no,
    ),
    Step(
        29, "payment_day", "Payment day",
        "The fee is {signing_fee} once, then {monthly_fee} a month from September to May ({sibling_fee} for brothers and sisters). On which day of the month "
        "shall we take it: 1 to 31, or the last day?",
        check_payment_day, True, "15",
        "The monthly fee is taken by Direct Debit on the day that suits you.",
        "1 to 31, or -1 for the last day",
        duties=(
            Duty("request_payment"),
            Duty("save_registration"),
            Duty("send_payment_link", "payment requested and saved", lambda facts: facts.outcomes.get("request_payment", False)),
        ),
        next=(Branch(30, "message sent", succeeded("send_payment_link")), Branch(31, "message not sent")),
        show=show_payment_day,
    ),
    Step(
        30, "sms_received", "Payment link",
        "I have sent a text message with the payment link to {parent_phone}. Has it arrived?",
        check_yes_or_no, True, "Yes",
        "The registration is complete when the payment is set up with that link.",
        "yes or no; both go on",
        duties=(Duty("tell_club", "no message arrived", answered("sms_received", False)), KIT_DUTY),
        next=KIT_BRANCHES, show=show_yes_or_no,
    ),
    Step(
        31, "", "Payment link later",
        "I could not send the payment link just now. Nothing is lost: we will send it to {parent_phone} later. "
        "Shall we go on?",
        check_any_text, True, "Yes",
        "The registration is complete when the payment is set up with that link.",
        "anything goes on",
        duties=(KIT_DUTY,),
        next=KIT_BRANCHES,
    ),
    Step(
        32, "kit_size", "Kit size",
        "{child} needs a kit. Which size shall we order: {sizes}? For {child}'s age I would suggest {size}.",
        check_kit_size, True, "9/10",
        "The shirt, shorts and socks are ordered in this size.",
        "5/6 to 13/14, S to 3XL",
        next=(Branch(33),),
    ),
    Step(
        33, "shirt_number", "Shirt number",
        "Which shirt number would {child} like, from 1 to 49? Goalkeepers wear 1 or 12.",
        check_shirt_number, True, "7",
        "Nobody else in the team and age group has the same number.",
        "1 to 49; goalkeepers 1 or 12; free in team and age group",
        duties=(Duty("reserve_shirt"),),
        next=(
            Branch(33, "number taken", lambda facts: not facts.outcomes.get("reserve_shirt", False)),
            Branch(34, "code 200", is_new),
            Branch(35, "code 100"),
        ),
    ),
    Step(
        34, "photo", "Photo",
        "Last thing: please upload a passport-style photo of {child} with the + button.",
        check_any_text, False, "",
        "The league's player card shows it. It is proof of identity only.",
        "a picture by the + button; a text is answered with how to do it",
        next=(Branch(35, "photo accepted", succeeded("check_photo")), Branch(34, "photo rejected")),
    ),
    Step(
        35, "", "Done",
        "All done: {child} is registered with {team}, once the payment is set up; if it is already, nothing is left to "
        "do. Thank you, {parent}! If you have a question or your contact details change, just tell me.",
        check_any_text, False, "",
        "",
        "questions; contact data may change through 28",
    ),
)  # fmt: skip
STEPS: Mapping[int, Step] = MappingProxyType({step.number: step for step in _TABLE})

# Questions that stand in place of a step's own for a moment; the number is that of the step.
FURTHER: Mapping[Further, Step] = MappingProxyType({
    "resume": Step(
        2, "", "Carry on",
        "It looks as if a registration for {child} was begun before. If it was yours, type the mobile number or "
        "e-mail address that you gave, and we carry on from there. If not, just say no.",
        check_any_text, True, "07700 900123",
        "I show saved details to the person who gave them, and to nobody else.",
        "the mobile number or e-mail address of the saved registration, or no",
    ),
    "identity": Step(
        28, "", "Is it you?",
        "Welcome back! Before I show what we have for {child}: what is the mobile number or e-mail address that "
        "you gave us last season?",
        check_any_text, True, "07700 900123",
        "I show saved details to the person who gave them, and to nobody else.",
        "the mobile number or e-mail address of the saved record",
    ),
    "medical_detail": Step(
        5, "medical", "Medical details",
        "Thank you for telling me. Where is any medicine kept, and what must our managers know about it?",
        check_detail, False, "Her EpiPen is in the front pocket of her bag",
        "So that our managers know what to do at once.",
        "any text",
    ),
    "which_field": Step(
        28, "", "What to change",
        "No problem. Which of these shall I change?",
        check_any_text, True, "My mobile number",
        "Tell me the one that is not right, and I will ask for it again.",
        "the name of a field",
    ),
})  # fmt: skip

STEP_OF: Mapping[str, int] = MappingProxyType({
    **{step.field: step.number for step in _TABLE if step.field},
    "previous_team": 6,
})  # fmt: skip

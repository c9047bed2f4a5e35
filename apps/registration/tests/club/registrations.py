"""A parent for tests: good answers for every step, and outcomes for every effect."""

from collections.abc import Mapping
from datetime import date

from registration.club.codes import RegistrationCode
from registration.club.journey import begin, finish_effect, take
from registration.club.progress import Effect, Progress, Reading, Said

TODAY = date(2025, 8, 1)
NEW = RegistrationCode("200", "Lions", "u10s", "2526")
OLDER = RegistrationCode("200", "Lions", "u16s", "2526")
RETURNING = RegistrationCode("100", "Tigers", "u10s", "2526", "Jack", "Jones")
ADDRESS = {
    "house": "12",
    "line_1": "12 High Street",
    "town": "Urmston",
    "city": "",
    "postcode": "M415AB",
    "full": "12 High Street, Urmston, M41 5AB",
}
ANSWERS: Mapping[int, str] = {
    1: "Sarah Jones",
    2: "Jack Jones",
    3: "14-03-2016",
    4: "boy",
    5: "no",
    6: "yes",
    7: "mum",
    8: "07700 900123",
    9: "sarah@example.com",
    10: "yes",
    11: "02-11-1985",
    12: "M41 5AB",
    13: "12",
    14: "12 High Street, Urmston, M41 5AB",
    15: "yes",
    16: "yes",
    18: "M41 7CD",
    19: "3",
    20: "3 Mill Lane, Flixton, M41 7CD",
    21: "yes",
    23: "07700 900456",
    24: "jack@example.com",
    28: "yes",
    29: "15",
    30: "yes",
    31: "ok",
    32: "9/10",
    33: "7",
    34: "here it comes",
    35: "thanks",
}
FURTHER_ANSWERS = {
    "resume": "no",
    "identity": "07700 900123",
    "medical_detail": "In her bag",
    "which_field": "my email",
}
OUTCOMES: Mapping[Effect, Mapping[str, object]] = {
    "find_registration": {"found": False},
    "look_up_parent_address": {"found": True, "address": ADDRESS},
    "look_up_child_address": {"found": True, "address": ADDRESS},
    "request_payment": {"done": True},
    "save_registration": {"saved": True, "registration": "r1"},
    "send_payment_link": {"sent": True},
    "tell_club": {"told": True},
    "check_kit": {"needed": False},
    "reserve_shirt": {"reserved": True},
    "check_photo": {"accepted": True, "photo": "photos/1.jpg"},
    "update_registration": {"saved": True},
}


def read(value: str) -> Reading:
    """A message that answers the open question."""
    return Reading(understood=True, value=value)


def answer_of(progress: Progress) -> str:
    """A good answer to the open question."""
    if progress.further:
        return FURTHER_ANSWERS[progress.further]
    if progress.step == 3 and progress.code.age_group == "u16s":
        return "14-03-2010"
    return ANSWERS[progress.step]


class Parent:
    """Answers one message after another, and performs the effects between them."""

    def __init__(
        self, code: RegistrationCode = NEW, stored: Mapping[str, object] | None = None
    ) -> None:
        self.progress, self.said = begin(code, stored)
        self.outcomes = dict(OUTCOMES)
        self.performed: list[Effect] = []
        self.steps = [self.progress.step]

    def say(self, value: str) -> Said:
        """Answer the open question."""
        return self.send(read(value))

    def correct(self, field: str, value: str | None = None) -> Said:
        """Say that an earlier answer was wrong."""
        return self.send(Reading(understood=True, value=value, wants_to_change=field))

    def send(self, reading: Reading) -> Said:
        """Send a message, and perform what is pending then."""
        self.progress, self.said = take(self.progress, reading, TODAY)
        self.steps.append(self.progress.step)
        while self.progress.pending:
            self.finish(self.progress.pending)
        return self.said

    def finish(self, effect: Effect) -> None:
        """Perform one effect."""
        self.performed.append(effect)
        self.progress, self.said = finish_effect(self.progress, effect, self.outcomes[effect])
        self.steps.append(self.progress.step)

    def go_to(self, step: int) -> "Parent":
        """Answer until a step is reached."""
        for _ in range(60):
            if self.progress.step == step and not self.progress.further:
                return self
            if self.progress.step == 34:
                self.finish("check_photo")
            else:
                self.say(answer_of(self.progress))
        raise AssertionError(f"step {step} was not reached: {self.steps}")

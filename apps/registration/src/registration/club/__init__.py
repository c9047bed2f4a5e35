"""The rules of the club, without a clock or I/O: codes, steps, answers, what happens next, fees, kit.

`codes.read_code` reads the code that a parent types. `journey.begin` opens a registration, `journey.take` takes what a
message says, and `journey.finish_effect` takes what came of an effect; only they change the step. In between,
`Progress` is the whole state, `wording.open_question` names what is asked now, and `journey.ask_of` returns what its
validator may look at. `plain_reading.read_plainly` stands in for a model. `wording.count_steps` and `wording.summarize`
are for the page, and `payment_days.plan_payments` for the payments.

A room above passes in today's date and what the outside parties answered. This room must never read a clock, a file,
a database or a model, and it must never import another room of the service or the library.
"""

"""The rules of the club, without a clock or I/O: codes, steps, answers, the order of the conversation, fees, kit.

`codes.read_code` reads the code that a parent types. `journey.begin` opens a registration, `journey.take` takes the
reading of a message, and `journey.finish_effect` takes the outcome of an effect; only they change the step. In between,
`Progress` is the whole state, `wording.open_question` names the open question, and `journey.ask_of` returns the facts
for its validator. `plain_reading.read_plainly` stands in for a model. `wording.count_steps` and `wording.summarize`
are for the page, and `fees.plan_payments` for the payments.

A room above passes in today's date and the answers of the outside parties. This room must never read a clock, a file,
a database or a model, and it must never import another room of the service or the library.
"""

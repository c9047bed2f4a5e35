"""The pieces around calls that you make already, here with the SDK of OpenAI.

It needs `pip install openai`. The SDK's own retries are off, because two layers multiply.

It prints:

    retried: Porto is in Portugal.
    read: text, Porto is in Portugal.
    refused: error, auth_error
    meaning of a refused connection: transient, landed: no
"""

import openai

from holdfast.calls import classify, resilient, send_message
from holdfast.testing import Emulator
from holdfast.testing.emulator import ErrorResponse

FAULTS = [
    ErrorResponse("overloaded", {"retry-after-ms": "50"}),
    None,
    None,
    ErrorResponse("bad_key"),
]


def main() -> None:
    """Each piece once."""
    with Emulator(lambda _request: "Porto is in Portugal.", faults=FAULTS) as provider:
        client = openai.OpenAI(base_url=provider.base_url, api_key="any", max_retries=0)

        def ask(question: str) -> openai.types.chat.ChatCompletion:
            return client.chat.completions.create(
                model="demo", messages=[{"role": "user", "content": question}]
            )

        patient_ask = resilient()(ask)
        print("retried:", patient_ask("Where is Porto?").choices[0].message.content)

        answer = send_message(ask, "Where is Porto?")
        print(f"read: {answer.kind}, {answer.text}")

        answer = send_message(ask, "Where is Porto?")
        print(f"refused: {answer.kind}, {answer.category}")
        client.close()

    with openai.OpenAI(base_url="http://127.0.0.1:1", api_key="any", max_retries=0) as nobody:
        try:
            nobody.models.list()
        except openai.APIError as error:
            info = classify(error)
            print(f"meaning of a refused connection: {info.category}, landed: {info.landed}")


if __name__ == "__main__":
    main()

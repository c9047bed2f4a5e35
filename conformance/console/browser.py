"""A browser, and a service whose process can be killed, for the tests of the console."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.free_ports import free_port

from holdfast.testing.emulator import EmulatedRequest, Pace, call
from holdfast.testing.emulator.faults import Fault

HERE = Path(__file__).parent
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

REPORT = " ".join(f"Word {number} of a long report." for number in range(60))
HOSTILE = (
    '<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>\n\n'
    "[click](javascript:window.hacked=1) ![p](https://tracker.example/x.png) "
    "\u202egnp.exe\u202c **bold** `code`"
)

AGENTS = '''
from holdfast import Agent, ToolPermission, tool
from holdfast.resilience.retry.options import RetryOptions


@tool(effect="write")
async def refund(order: str, amount: float) -> str:
    """Give money back."""
    return f"refunded {amount:.2f} for {order}"


@tool(effect="read")
async def look_up(order: str) -> str:
    """Look an order up."""
    return f"order {order}: one lamp"


def make(name, **more):
    return Agent(
        "openai:gpt-5.2", name=name, base_url="BASE_URL", api_key="any",
        retry=RetryOptions(retry_delay=0.1), **more,
    )


agents = [
    make("support", tools=[look_up, refund], middleware=[ToolPermission(allow=["look_up"], ask=["refund"])]),
    make("writer", instructions="You write long reports."),
]
'''


def choose_reply(request: EmulatedRequest) -> object:
    """Refund what is asked for, write what is asked for, or be hostile."""
    if "hostile" in request.text:
        return HOSTILE
    if not request.tools:
        return REPORT
    if request.iteration == 0:
        return [
            "I look.",
            call("look_up", {"order": "A-1"}),
            call("refund", {"order": "A-1", "amount": 49.9}),
        ]
    return "Result: " + "; ".join(result.text for result in request.tool_results)


def choose_faults(request: EmulatedRequest) -> Fault | None:
    """Write reports slowly."""
    return Pace(0.02) if not request.tools else None


class KillableService:
    """`holdfast serve` on one journal and one port, which can be killed and started again.

    Args:
        folder: where the agents and the journal are.
        base_url: the provider.
    """

    def __init__(self, folder: Path, base_url: str) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(AGENTS.replace("BASE_URL", base_url))
        self.journal = f"sqlite:///{folder}/talk.db"
        self.port = str(free_port())
        self.console = ""
        self.options: tuple[str, ...] = ()
        """More arguments of `holdfast serve`, from the next start on."""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process; return when it answers."""
        words = ["serve", "shop:agents", "--journal", self.journal, "--port", self.port]
        self._process = subprocess.Popen(
            [HOLDFAST, *words, *self.options],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, _, value = line.strip().partition(" ")
            if name == "console":
                self.console = f"{value.strip()}/"
                return
        raise AssertionError("the service ended")

    def kill(self) -> None:
        """Kill the process at once, as the system does when memory is short."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Tell the process to stop."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdout is not None:
            process.send_signal(number)
            process.wait(timeout=30)
            process.stdout.close()

    def run(self, *words: str) -> str:
        """Run `holdfast` with arguments, and return what it prints."""
        done = subprocess.run(
            [HOLDFAST, *words], check=True, capture_output=True, text=True, cwd=self.folder
        )
        return done.stdout


@contextmanager
def chromium() -> Iterator[object]:
    """Run the system's Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs the browser chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()

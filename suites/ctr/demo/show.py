"""Runs the demo: the log, the training, the server, what asks it, and the page."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from framework.errors import ConfigError
from suites.ctr.demo.asking import Asker
from suites.ctr.demo.board import Board, Point
from suites.ctr.demo.page import Page
from suites.ctr.demo.parts import PartEnded, Parts
from suites.ctr.demo.plan import Plan, read_state, write_state
from suites.ctr.demo.sources import source_of

_LOOK = 0.5  # seconds between two looks at the parts


def show(plan: Plan, seconds: float | None, port: int, say: Callable[[str], None]) -> Point:
    """Run the demo and return its last figures.

    Args:
        plan: what it does; the folder of an earlier demo is emptied.
        seconds: until it ends; None for Ctrl-C only.
        port: of the page; 0 takes a free one.
        say: gets the address and what happens.

    Raises PartEnded where a part dies, ConfigError for a folder that holds something else, DataError for a log that
    cannot be read. No process is left in any case.
    """
    source_of({"log": plan.log, "data": plan.data}).part(0, 1, 1)  # refused before anything is started
    _fresh(plan)
    board = Board(plan, seconds)
    begin = time.monotonic()
    point: Point = {}
    with _page(board, port) as page, Parts(plan) as parts:
        say(f"ctr-demo: the page is at {page.url}; Ctrl-C ends" + (f", or {seconds:g} s" if seconds else ""))
        try:
            for name in ("log", "training"):
                parts.start(name)
            while seconds is None or time.monotonic() - begin < seconds:
                time.sleep(_LOOK)
                parts.check()
                _next_part(plan, board, parts, say)
                point = board.sample()
        finally:
            if board.asker is not None:
                board.asker.stop()
            write_state(plan.path("figures.json"), board.state())
    return point


def _next_part(plan: Plan, board: Board, parts: Parts, say: Callable[[str], None]) -> None:
    """Start the server once there is an export, and ask it once it answers."""
    if "serving" not in parts.running and plan.path("exported.json").is_file():
        parts.start("serving")
        board.status = "exported; the server starts"
    elif board.asker is None and plan.path("serving.json").is_file() and plan.path("asked.json").is_file():
        state = read_state(plan.path("serving.json"))
        board.asker = Asker(plan, state["url"])
        board.asker.start()
        board.status = "trains, publishes and serves"
        say(f"ctr-demo: the model is served at {state['url']}")
    elif board.asker is not None and not board.asker.is_alive():
        raise PartEnded("ctr-demo: what asks the server ended; the error above says why")


def _page(board: Board, port: int) -> Page:
    try:
        return Page(board, port)
    except OSError as error:
        raise ConfigError(f"ctr-demo: port {port} cannot be had ({error.strerror}); give another with --port") from None


def _fresh(plan: Plan) -> None:
    """Make the folder anew; what is not an earlier demo's is left alone."""
    folder = Path(plan.folder)
    if folder.exists():
        if any(folder.iterdir()) and not (folder / "plan.json").is_file():
            raise ConfigError(f"{folder}: holds something other than an earlier demo; give another --folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    plan.save()

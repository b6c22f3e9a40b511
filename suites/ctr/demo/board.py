"""The figures of the demo over time, from what its parts wrote."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from suites.ctr.demo.asking import Asker
from suites.ctr.demo.plan import Plan, read_state
from suites.ctr.train.progressive import FILE

_MOST = 1200  # points; then every other one goes
_RATE_SECONDS = 5.0  # over which rates of the parts are taken
Point = dict[str, Any]


class Board:
    """Points of figures, taken by `sample` and read by the page's threads.

    Args:
        plan: of the demo.
        seconds: it is to take; None for no end.
    """

    def __init__(self, plan: Plan, seconds: float | None) -> None:
        self._plan, self._seconds = plan, seconds
        self._begin, self._published = time.monotonic(), 0.0
        self._points: list[Point] = []
        self._counts: list[tuple[float, int, int]] = []  # when, rows trained on, signs looked up
        self._every, self._taken = 1, 0
        self._read, self._auc = 0, None
        self._lock = threading.Lock()
        self.status = "starting"
        self.asker: Asker | None = None

    def sample(self) -> Point:
        """Take a point and return it; a figure that is not known yet is None."""
        training, serving = (read_state(self._plan.path(f"{name}.json")) for name in ("training", "serving"))
        log = read_state(self._plan.path("log.json"))
        now = time.monotonic()
        point: Point = {
            "t": now - self._begin,
            "auc": self._progressive(),
            "table": training.get("table"),
            "step": training.get("step"),
            "waiting": max(0, log["rows"] - training["rows"]) if log and training else None,
            "version": serving.get("version"),
            "missed": serving["missed"] / max(1, serving["looked_up"]) if serving else None,
            **self._staleness(now, training, serving),
            **self._rates(now, training.get("rows", 0), serving.get("looked_up", 0)),
            **(self.asker.figures() if self.asker else {}),
            "failed": self.asker.failed if self.asker else 0,
        }
        with self._lock:
            self._taken += 1
            if self._taken % self._every == 0:
                self._points.append(point)
            if len(self._points) > _MOST:
                self._points, self._every = self._points[::2], 2 * self._every
        return point

    def state(self) -> dict[str, Any]:
        """What the page shows: `points`, `status`, and the `log` it is about."""
        with self._lock:
            return {
                "points": list(self._points),
                "status": self.status,
                "log": self._plan.log,
                "seconds": self._seconds,
            }

    def _staleness(self, now: float, training: Point, serving: Point) -> Point:
        """Age in seconds of the version that is served, and steps between it and the training."""
        version = serving.get("version")
        if version is None:
            return {"stale": None, "behind": None}
        exported = read_state(self._plan.path("exported.json"))["at"]  # the first version, of step 0 of the stream
        at, step = training.get("versions", {}).get(version, (exported, 0))
        return {"stale": now - at, "behind": max(0, training.get("step", 0) - step)}

    def _rates(self, now: float, rows: int, looked_up: int) -> Point:
        """Rows that are trained on and signs that serving looks up, a second."""
        self._counts = [c for c in self._counts if c[0] > now - _RATE_SECONDS] + [(now, rows, looked_up)]
        since, rows_then, looked_up_then = self._counts[0]
        if now <= since:
            return {"trained": None, "lookups": None}
        return {"trained": (rows - rows_then) / (now - since), "lookups": (looked_up - looked_up_then) / (now - since)}

    def _progressive(self) -> float | None:
        """AUC of the newest window of rows, before they were trained on."""
        path = self._plan.runs / "stream" / FILE
        if path.is_file():
            with path.open("rb") as file:
                file.seek(self._read)
                whole = file.read().rpartition(b"\n")[0]  # the last line may be half written
            if whole:
                self._read += len(whole) + 1
                self._auc = json.loads(whole.splitlines()[-1])["auc"]
        return self._auc

"""Counts of the work of searches, in units that do not depend on the machine."""

from __future__ import annotations

from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class Work:
    """Counts of one search, or of several after `add`."""

    steps: int = 0  # one run of the model and of the output layer each
    expansions: int = 0  # rows in all of these steps; the paper's "candidate expansions"
    request_steps: int = 0  # the steps of each request, summed: independent of the schedule
    model_rows: int = 0  # with cube pruning: rows that the model was run for
    sub_cubes: int = 0  # with cube pruning: rows that the output layer gave candidates for
    settled: int = 0  # estimated normalizers that were taken again, closer or exactly
    requests: int = 0  # that are done
    saved_steps: int = 0  # request_steps that stopping with live rows spared; each would have gone on to max_length
    python_steps: int = field(default=0, compare=False)  # steps whose model or output layer ran in Python
    reason: str = field(default="", compare=False)  # why they did

    @property
    def merging_rate(self) -> float:
        """Rows for each one that candidates were asked for (CUBE eq. 15); 1 without cube pruning."""
        return self.expansions / self.sub_cubes if self.sub_cubes else 1.0

    def count(self, *counts: int) -> None:
        """Add the counts of one call, in the order of the fields; those that are left out are 0."""
        for name, count in zip(_COUNTS, counts, strict=False):
            setattr(self, name, getattr(self, name) + count)

    def since(self, before: Work) -> Work:
        """The counts that were added since they were `before`."""
        work = Work(**{name: getattr(self, name) - getattr(before, name) for name in _COUNTS})
        work.reason = self.reason if work.python_steps else ""
        return work

    def add(self, other: Work) -> None:
        """Add the counts of another search."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reason = self.reason or other.reason


_COUNTS = tuple(each.name for each in fields(Work) if each.name != "reason")

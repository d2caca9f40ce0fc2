"""What searches cost, in units that do not depend on the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Work:
    """Counts of one search, or of several after `add`."""

    steps: int = 0  # calls of `advance`: one run of the model and of the output layer each
    expansions: int = 0  # rows in all of these steps; the paper's "candidate expansions"
    model_rows: int = 0  # with cube pruning: rows that the model was run for
    sub_cubes: int = 0  # with cube pruning: rows that the output layer gave candidates for
    requests: int = 0  # that are done
    request_steps: int = 0  # the steps of each request, summed: independent of the schedule
    saved_steps: int = 0  # request_steps that stopping with live rows spared; each would have gone on to max_length

    @property
    def merging_rate(self) -> float:
        """Rows for each one that candidates were asked for (CUBE eq. 15); 1 without cube pruning."""
        return self.expansions / self.sub_cubes if self.sub_cubes else 1.0

    def add(self, other: Work) -> None:
        """Add the counts of another search."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

# Replacements for the signatures that nanobind's stub generator cannot derive from the bindings (make stubs).

sharpbeam._core.__prefix__:
    # The native core. Arrays are C-contiguous; a wrong dtype, shape or value raises ValueError.
    # Generated from the bindings: make stubs WRITE=1.
    from typing import TypeAlias
    from numpy.typing import NDArray
    from sharpbeam.types import Floats, Ids, Scores
    # Finished requests: index, steps saved, and of each answer tokens without eos, log
    # probabilities, their sum and its score.
    Answers: TypeAlias = list[tuple[tuple[int, ...], tuple[float, ...], float, float]]
    Done: TypeAlias = list[tuple[int, int, Answers]]
    # Request, state, token, node and length of the rows of the next step [5, n], their scores [n]; counts; finished
    # requests.
    Counts: TypeAlias = tuple[int, int, int, int, int, int]
    Stepped: TypeAlias = tuple[Ids, Scores, Counts, Done | None]

sharpbeam._core.RowLayer.topk:
    def topk(self, hidden: Floats, log_prob: Floats, token: Ids) -> None: ...

sharpbeam._core.RowLayer.unnormalized:
    def unnormalized(self) -> RowLayer | None: ...

sharpbeam._core.Team.__exit__:
    def __exit__(self, *raised: object) -> None: ...

sharpbeam._core.Search.peek:
    def peek(self, request: int, node: int) -> tuple[Answers, list[int]] | None: ...

"""The scoreboard: what each part of the project promised, and whether it holds.

A part is a file or package of this folder with a list `CLAIMS` of `Claim(number, says, target, measure)`. `measure`
takes the `Settings` of the run and returns a `Verdict(holds, figure)`. There are three ways to make one:

* a function that runs the thing now. With `settings.quick` it takes fewer sentences; what takes minutes whatever is
  done is marked `slow=True` and left out of quick runs;
* `recorded("real", judge, model="en-pt")`: the newest line of `bench/results/real.jsonl` with these options, for what
  takes hours or a quiet machine. `judge(line)` returns the verdict;
* `pending(reason)`: nothing measures it yet, or what it needs is not here. The line says "not measured".

A verdict may have the reason of a miss, `because`, where that was measured: a floor, a profile, an experiment. Rows
that hold or have their reason are counted by themselves.

The target is the promise in its own words. A miss stays a miss: it is not reworded, a new claim is added next to it.
"""

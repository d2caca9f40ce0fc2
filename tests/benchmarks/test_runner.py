"""The runner finds every benchmark by its name and title."""

from __future__ import annotations

from bench.__main__ import benchmarks, main


def test_it_lists_benchmarks_by_name_and_title(capsys) -> None:
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed and title for name, (_, title) in benchmarks().items())


def test_an_unknown_benchmark_is_refused_by_name(capsys) -> None:
    assert main(["decode.sped"]) == 2
    assert "decode.sped" in capsys.readouterr().err

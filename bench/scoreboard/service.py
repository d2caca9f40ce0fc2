"""A service that people can run: load from this machine, to the loopback interface only."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from bench.harness import record
from bench.scoreboard.claim import Claim, Settings, Verdict, recorded

TESTS = ("tests/server/test_libretranslate.py", "tests/server/test_page.py")
PACE = "sharpbeam, 64 at three times the pace"


def clients(settings: Settings) -> Verdict:
    """The tests of LibreTranslate's API and of the page; none of them may be skipped."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", *TESTS]
    result = subprocess.run(command, cwd=record.ROOT, capture_output=True, text=True, check=False)
    end = result.stdout.strip().splitlines()[-1].strip("= ")
    return Verdict(None if "skipped" in end else result.returncode == 0, end)


def _over(line: dict[str, Any], other: str) -> tuple[float, str]:
    ours, theirs = (line["figures"].get(f"{name}, 64") for name in ("sharpbeam", other))
    if theirs is None:
        return 0.0, f"{other} was not measured"
    ratio = ours["per_second"] / theirs["per_second"]
    busy = ours["per_cpu_second"] / theirs["per_cpu_second"]
    floor = line.get("floor", {}).get("gain")
    alone = f"; the library alone gains x{floor} from batches" if floor else ""
    where = f"{line['options']['model']}, beam {line['options']['beam_size']}, load {line['load']}"
    return ratio, f"x{ratio:.2f} per second, x{busy:.2f} per processor second of the server{alone} ({where})"


def faster(line: dict[str, Any]) -> Verdict:
    """Throughput over one request at a time."""
    ratio, said = _over(line, "one at a time")
    ours, theirs = (line["figures"][name] for name in ("sharpbeam, 64", "one at a time, 64"))
    request = 1000 / ours["per_cpu_second"] + ours["clients_cpu_ms"]
    most = 1000 * line["cores"] / request / theirs["per_second"]
    because = (
        f"a request takes {request:.2f} ms of a processor with its client's part, "
        f"{1000 / line['floor']['together']:.2f} of them in the library alone: "
        f"{line['cores']} processors that never wait would give x{most:.1f}"
    )
    return Verdict(ratio >= 3, said, "" if ratio >= 3 else because)


def than_libretranslate(line: dict[str, Any]) -> Verdict:
    """Throughput over LibreTranslate's design."""
    ratio, said = _over(line, "libretranslate")
    return Verdict(ratio >= 5 if ratio else None, said)


def latency(line: dict[str, Any]) -> Verdict:
    """p95 of 64 clients that never wait, and of 64 that offer three times what one at a time can do."""
    alone, full, pace = (line["figures"][name] for name in ("sharpbeam, 1", "sharpbeam, 64", PACE))
    ratios = full["p95_ms"] / alone["p50_ms"], pace["p95_ms"] / alone["p50_ms"]
    said = f"x{ratios[0]:.1f} where clients never wait; x{ratios[1]:.1f} at three times the pace of one at a time"
    mean = 1000 * line["options"]["clients"] / (3 * alone["per_second"]) / alone["p50_ms"]
    because = (
        f"by Little's law clients that never wait see a mean of {mean:.0f} lone latencies at 3 times the throughput"
    )
    return Verdict(ratios[0] < 4, said, "" if ratios[0] < 4 else because)


def overload(line: dict[str, Any]) -> Verdict:
    """Ten minutes above capacity."""
    statuses, seconds = line["statuses"], line["options"]["seconds"]
    holds = seconds >= 600 and statuses.keys() <= {"200", "429"} and not line["different"] and line["growth"] <= 0.05
    said = f"{seconds:.0f} s, {statuses}, {line['different']} different answers, memory {line['growth']:+.1%}"
    return Verdict(holds, said)


def round_trip(line: dict[str, Any]) -> Verdict:
    """Documents of each format, and HTML fragments: what breaks ends the run, so a line is of sound ones."""
    options = line["options"]
    documents, fragments, formats = options["documents"], options["fragments"], options["formats"]
    said = f"{documents} documents of each of {', '.join(formats)}; {fragments} fragments; {line['decoders']} decoders"
    return Verdict(documents >= 200 and fragments >= 5000, f"all sound: {said}")


def guards(line: dict[str, Any]) -> Verdict:
    """Planted omissions and false alarms."""
    planted, sound = line["planted"], line["sound"]
    shares = line["found"] / planted, line["repaired"] / planted, line["false_alarms"] / sound
    said = (
        f"{line['found']} found and {line['repaired']} repaired of {planted}; {line['false_alarms']} of {sound} false"
    )
    return Verdict(planted >= 1000 and shares[0] >= 0.9 and shares[1] >= 0.7 and shares[2] <= 0.01, said)


def cluster(line: dict[str, Any]) -> Verdict:
    """Ray with a killed worker."""
    wrong = {name: line[name] for name in ("lost", "doubled", "different")}
    holds = line["sentences"] >= 100_000 and line["killed"] == 1 and not any(wrong.values())
    said = ", ".join(f"{count} {name}" for name, count in wrong.items())
    return Verdict(holds, f"{line['sentences']} sentences, {line['killed']} worker killed: {said}")


def arm(line: dict[str, Any]) -> Verdict:
    """The native tests in emulation."""
    said = f"{line['tests']} tests on each of {line['processors']} processors, {line['checks']} checks"
    holds = line["status"] == 0 and line["processors"] == 3 and line["tests"] > 0 and not line["failed"]
    return Verdict(holds, f"{said}, {line['failed']} failed")


def first_use(line: dict[str, Any]) -> Verdict:
    """A new user's path."""
    steps = ", ".join(f"{name} {seconds:.0f}" for name, seconds in line["steps"].items())
    return Verdict(line["seconds"] < 300, f"{line['seconds']:.0f} s ({steps})")


CLAIMS = [
    Claim("1", "LibreTranslate's client and recorded calls; browser test", "pass; screenshots in docs", clients),
    Claim(
        "2a",
        "throughput with 64 clients over one request at a time",
        "at least x3",
        recorded("service", faster, what="throughput", exact=False),
    ),
    Claim(
        "2b",
        "p95 with 64 clients",
        "below 4x the lone latency",
        recorded("service", latency, what="throughput", exact=False),
    ),
    Claim(
        "2c",
        "throughput over LibreTranslate's design on the same weights",
        "at least x5",
        recorded("service", than_libretranslate, what="throughput", exact=False, peer=True),
    ),
    Claim(
        "3",
        "overload for 10 minutes",
        "each request answered or refused with a reason, memory within 5%, answers byte-identical to the library's",
        recorded("service", overload, what="overload"),
    ),
    Claim(
        "4",
        "200 documents a format there and back; 5,000 fuzzed HTML fragments",
        "structure identical, tags well nested; invariants hold, no exception",
        recorded("service", round_trip, what="round trip"),
    ),
    Claim(
        "5",
        "1,000 planted omissions; NTREX with the Firefox model",
        "at least 90% found, 70% repaired; at most 1% false alarms",
        recorded("service", guards, what="omissions"),
    ),
    Claim(
        "6",
        "Ray: 100,000 sentences over 2 workers with one killed",
        "complete, identical to the serial one",
        recorded("service", cluster, what="cluster"),
    ),
    Claim("7", "NEON table: all kernel tests in emulation", "bit-equal", recorded("service", arm, what="arm")),
    Claim(
        "8",
        "a new user: install, serve, page open, document translated",
        "under 5 minutes",
        recorded("service", first_use, what="first use"),
    ),
]

"""A new user's first minutes: install a wheel, serve a model, open the page, translate a document.

Each step is what the README says, in an empty environment; the time is that of all of them, with the packages fetched.
The wheel is built before (`make wheel`), as a release has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from bench.harness import record
from sharpbeam.errors import SharpbeamError

PAGE = '<p>Guten <b>Morgen</b>. <a href="/zeit">Wie spät</a> ist es?</p>\n'
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run")


def installed(wheel: Path, home: Path) -> Path:
    """The programs of a new environment with the wheel and what serves and reads documents."""
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    install = [
        str(home / "bin/python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "-q",
        f"{wheel}[server]",
    ]
    subprocess.run(install, check=True)
    return home / "bin"


def page_says(url: str, text: str, home: Path) -> str:
    """The translation that a browser shows when `text` is typed into the page."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--user-data-dir={home}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
    try:
        driver.get(url + "/")
        wait = WebDriverWait(driver, 60, 0.05)
        wait.until(lambda _: driver.find_elements("css selector", "#from option"))
        driver.find_element("css selector", "#source").send_keys(text)
        shown = driver.find_element("css selector", "#result")
        wait.until(lambda _: shown.get_property("textContent"))
        return str(shown.get_property("textContent"))
    finally:
        driver.quit()


def main(wheel: Annotated[Path | None, typer.Option(help="default: the one in dist/")] = None) -> None:
    """Do each step, print and record."""
    wheels = [wheel] if wheel else sorted((record.ROOT / "dist").glob("*.whl"))
    if not wheels:
        raise SharpbeamError("there is no wheel in dist/; build one (make wheel), or name one with --wheel.")
    os.environ.pop("PYTHONPATH", None)  # the sources of this project, which a new user does not have
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        place, began = Path(folder), time.perf_counter()

        def mark(step: str) -> None:
            times[step] = round(time.perf_counter() - began - sum(times.values()), 1)

        programs = installed(wheels[-1].resolve(), place / "empty")
        mark("install")
        command = [str(programs / "sharpbeam"), "serve", "de-en", "--port", "0"]
        server = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            said = server.stderr.readline()
            address = re.search(r"at (http://[\d.:]+\d)", said)
            assert address, said
            mark("serve")
            shown = page_says(address[1], "Guten Morgen.", place / "browser")
            mark("page")
        finally:
            server.terminate()
            server.wait(60)
        (place / "page.html").write_text(PAGE, encoding="utf-8")
        translate = [
            str(programs / "sharpbeam"),
            "translate-document",
            "de-en",
            "page.html",
            "--output",
            "page.en.html",
        ]
        subprocess.run(translate, cwd=place, check=True)
        document = (place / "page.en.html").read_text(encoding="utf-8")
        mark("document")
    assert shown == "Good morning.", shown
    assert re.findall(r"<.*?>", document) == re.findall(r"<.*?>", PAGE), document
    figures = {"seconds": round(sum(times.values()), 1), "steps": times, "page": shown, "document": document}
    options = {"what": "first use", "wheel": wheels[-1].name, "model": "de-en"}
    print(record.write("service", figures, threads=1, options=options))

"""The page in a real browser: typing, words, alternatives, files, themes; nothing a person types becomes HTML."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from server.conftest import PATIENCE, serving

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
    "--no-first-run", "--window-size=1200,800",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a window."""
    pytest.importorskip("selenium", reason="selenium is not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs[0])
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(programs[1])))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def url(models: list[str]) -> Iterator[str]:
    """A server of a bundled model."""
    with serving(models) as start:
        yield start([str(ROOT / "models/de-en")]).url


@pytest.fixture
def page(browser: Any, url: str) -> Any:
    """The page of a server with the bundled model."""
    browser.get(url + "/")
    wait(browser, lambda: browser.find_elements("css selector", "#from option"))
    yield browser
    wrong = [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    assert not [line for line in wrong if "400" not in line]


def wait(browser: Any, condition: Callable[[], Any]) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, PATIENCE, 0.05).until(lambda _: condition())


def one(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def result(browser: Any) -> str:
    return str(one(browser, "#result").get_property("textContent"))


def type_text(browser: Any, text: str) -> None:
    one(browser, "#clear").click()
    one(browser, "#source").send_keys(text)


def test_typing_translates(page: Any) -> None:
    type_text(page, "Guten Morgen.")
    wait(page, lambda: result(page) == "Good morning.")
    one(page, "#source").send_keys("\nWie geht es dir?")
    wait(page, lambda: result(page) == "Good morning.\nHow are you?")
    assert "ms" in one(page, "#status").text
    one(page, "#clear").click()
    wait(page, lambda: result(page) == "")


def test_words_show_where_they_come_from_and_what_else_they_could_be(page: Any) -> None:
    from selenium.webdriver import ActionChains, Keys

    type_text(page, "Guten Morgen. 😀 Wie geht es dir?")
    wait(page, lambda: "Good morning" in result(page) and "How" in result(page))
    words = page.find_elements("css selector", ".word")
    ActionChains(page).move_to_element(words[0]).perform()
    wait(page, lambda: page.find_elements("css selector", "#mirror mark"))
    assert one(page, "#mirror mark").get_property("textContent") == "Guten"
    before = result(page)
    words[1].send_keys(Keys.ENTER)  # by keyboard as well as by pointer
    choices = wait(page, lambda: page.find_elements("css selector", "#menu button"))
    assert len(choices) >= 2
    chosen = str(choices[0].get_property("textContent"))
    choices[0].click()
    wait(page, lambda: result(page) != before)
    assert chosen in result(page)
    assert not one(page, "#menu").is_displayed()
    one(page, ".word").click()
    wait(page, lambda: page.find_elements("css selector", "#menu button, #menu p"))
    ActionChains(page).send_keys(Keys.ESCAPE).perform()
    wait(page, lambda: not one(page, "#menu").is_displayed())


def test_what_is_kept_has_no_other_words(page: Any) -> None:
    type_text(page, "Guten Morgen. Siehe https://example.com/x und {name}.")
    wait(page, lambda: "https://example.com/x" in result(page))
    words = {str(word.get_property("textContent")).strip(".") for word in page.find_elements("css selector", ".word")}
    assert "Good" in words and not words & {"https", "example", "com", "x", "name", "{name}", "https://example.com/x"}


def test_uncertain_words_are_shaded(page: Any) -> None:
    type_text(page, "Der Bundeskanzler verhandelte gestern ergebnislos mit Brüssel.")
    wait(page, lambda: page.find_elements("css selector", ".shaded .low, .shaded .mid"))
    one(page, "#shade").click()
    wait(page, lambda: not page.find_elements("css selector", ".shaded .low, .shaded .mid"))


def test_uncertain_sentences_are_marked_and_a_legend_says_how(page: Any) -> None:
    type_text(page, "Guten Morgen. Der Bundeskanzler verhandelte gestern ergebnislos mit Brüssel.")
    wait(page, lambda: page.find_elements("css selector", "#result .sentence.low"))
    sure, unsure = page.find_elements("css selector", "#result .sentence")
    assert sure.get_attribute("class") == "sentence" and not sure.get_attribute("aria-label")
    assert result(page).endswith(str(unsure.get_property("textContent")))
    assert re.fullmatch(r"Not sure sentence, \d+% sure", unsure.accessible_name) and unsure.aria_role == "group"

    def look(element: Any) -> tuple[str, ...]:
        names = ("text-decoration-line", "text-decoration-style", "background-color")
        return tuple(element.value_of_css_property(name) for name in names)

    legend = one(page, "#legend")
    samples = {each.text: look(each) for each in legend.find_elements("css selector", ".sentence")}
    assert samples["Not sure"] == look(unsure)  # the legend has the looks of what it explains
    assert len({looks[1] for looks in samples.values()}) == 2  # and not by colour alone
    assert legend.accessible_name == "What the shading means" and legend.is_displayed()
    one(page, "#shade").click()
    wait(page, lambda: not legend.is_displayed())
    assert look(unsure)[0] == "none"
    one(page, "#shade").click()


def test_the_editor_is_as_high_as_its_text_and_a_legend_needs_one(page: Any) -> None:
    assert not one(page, "#legend").is_displayed() and not one(page, "#copy").is_enabled()
    type_text(page, "Guten Morgen. " * 60)
    wait(page, lambda: "ms" in one(page, "#status").text)
    source = one(page, "#source")
    assert source.get_property("clientHeight") == source.get_property("scrollHeight")
    assert one(page, "#legend").is_displayed() and one(page, "#copy").is_enabled()
    one(page, "#clear").click()
    wait(page, lambda: not one(page, "#legend").is_displayed())


def test_a_server_that_does_not_answer_is_tried_again_and_nothing_old_stays(browser: Any, models: list[str]) -> None:
    with serving(models) as start:
        live = start()
        port = int(live.url.rpartition(":")[2])
        browser.get(live.url + "/")
        wait(browser, lambda: browser.find_elements("css selector", "#from option"))
        type_text(browser, "Balo.")
        wait(browser, lambda: result(browser))
    one(browser, "#source").send_keys(" Mike.")
    wait(browser, lambda: one(browser, "#status").text == "The server does not answer; trying again")
    assert result(browser) == "" and not one(browser, "#copy").is_enabled()
    with serving(models) as start:
        again = start(port=port)
        wait(browser, lambda: result(browser) == again.translate("Balo. Mike.").json()["translatedText"])
        assert one(browser, "#copy").is_enabled()
    browser.get_log("browser")  # of failed requests


def test_text_never_becomes_html(page: Any) -> None:
    attack = '<img src=x onerror="document.title=1"> Guten Morgen <b>dir</b>.'
    type_text(page, attack)
    wait(page, lambda: "ms" in one(page, "#status").text)
    assert one(page, "#source").get_property("value") == attack
    assert not page.find_elements("css selector", "#result img, #result b, #mirror img, #mirror b")
    page.execute_script("document.getElementById('format').value = 'html'")
    page.execute_script("document.getElementById('format').dispatchEvent(new Event('change'))")
    wait(page, lambda: "<b>" in result(page))
    assert not page.find_elements("css selector", "#result img, #result b")
    assert page.title == "Sharpbeam"


def test_a_file_is_translated(page: Any, tmp_path: Path) -> None:
    (tmp_path / "brief.txt").write_text("Guten Morgen.\n", encoding="utf-8")
    one(page, "#file").send_keys(str(tmp_path / "brief.txt"))
    link = wait(page, lambda: page.find_elements("css selector", "#file-status a"))[0]
    script = "const done = arguments[1]; fetch(arguments[0]).then((r) => r.text()).then(done)"
    assert page.execute_async_script(script, link.get_attribute("href")) == "Good morning.\n"
    (tmp_path / "program.exe").write_bytes(b"MZ")
    one(page, "#file").send_keys(str(tmp_path / "program.exe"))
    wait(page, lambda: "format not supported; choose one of .txt" in one(page, "#file-status").text)


def test_the_theme_changes_and_is_kept(page: Any) -> None:
    def colour() -> str:
        return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))

    before = colour()
    one(page, "#theme").click()
    after = colour()
    assert before != after
    page.refresh()
    assert colour() == after
    one(page, "#theme").click()


def test_every_control_has_a_name(page: Any) -> None:
    controls = page.find_elements("css selector", "button, select, input, textarea, a")
    assert len(controls) > 10
    for control in controls:
        if control.is_displayed():
            assert control.accessible_name, control.get_attribute("outerHTML")


def test_the_description_of_the_api_needs_no_other_place(page: Any) -> None:
    page.get(page.current_url + "docs")
    wait(page, lambda: len(page.find_elements("css selector", "table")) >= 3)
    text = one(page, "#endpoints").text
    assert "POST /translate" in text
    assert "POST /v2/translate" in text
    loaded = page.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)")
    assert loaded and all(name.startswith("http://127.0.0.1") for name in loaded)

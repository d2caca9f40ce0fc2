// The page: languages, text in, translation out.
import { ask, Away } from "./server.js";
import { closeMenu, show, shownText } from "./words.js";
import { offerFiles } from "./files.js";

const PAUSE = 250; // milliseconds without a key before the text is sent
const AGAIN = 2000; // milliseconds before another try where the server does not answer
const at = (id) => document.getElementById(id);
const [source, result, from, to, status] = ["source", "result", "from", "to", "status"].map(at);
const remembered = (() => { try { return JSON.parse(localStorage.getItem("languages") || "{}"); } catch { return {}; } })();

let languages = [], limit = -1, timer = 0, running = null;

function say(text, wrong = false) {
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
}

// Says what went wrong, and tries again where the server does not answer.
function failed(error, again) {
  if (!(error instanceof Away)) return say(error.message, true);
  say(`${error.message}; trying again`, true);
  timer = setTimeout(again, AGAIN);
}

// Marks the translation as that of an older text, which is not to be copied.
function outdated(old) {
  result.classList.toggle("old", old);
  at("copy").disabled = old || !shownText();
}

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([code, name]) => new Option(name, code)));
  if (options.some(([code]) => code === chosen)) select.value = chosen;
}

function fillTargets() {
  const all = languages.flatMap((language) => language.targets.filter((code) => code !== language.code));
  const known = from.value === "auto" ? all : languages.find((each) => each.code === from.value)?.targets || all;
  const codes = [...new Set(known)].filter((code) => code !== from.value);
  fill(to, codes.map((code) => [code, names.get(code) || code]), to.value || remembered.to);
}

const names = new Map();

async function start() {
  const [served, settings] = await Promise.all([ask("languages"), ask("frontend/settings")]);
  languages = served;
  limit = settings.charLimit;
  const display = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
  for (const language of languages) names.set(language.code, language.name);
  for (const code of languages.flatMap((language) => language.targets)) {
    if (!names.has(code)) names.set(code, display.of(code.replace("_", "-")) || code);
  }
  const sources = languages.filter((each) => each.targets.some((code) => code !== each.code)).map((language) => [language.code, language.name]);
  fill(from, sources.length > 1 ? [["auto", "Detect"], ...sources] : sources, remembered.from);
  fillTargets();
  at("key-field").hidden = !settings.keyRequired;
  at("format-choice").hidden = false;
  if (settings.filesTranslation) offerFiles(settings.supportedFilesFormat);
  source.addEventListener("input", () => { grow(); later(); });
  at("format").addEventListener("change", translate);
  at("key").addEventListener("change", translate);
  from.addEventListener("change", () => { fillTargets(); chosen(); });
  to.addEventListener("change", chosen);
  grow();
}

function chosen() {
  try { localStorage.setItem("languages", JSON.stringify({ from: from.value, to: to.value })); } catch { /* not kept */ }
  translate();
}

function grow() {
  at("count").textContent = limit > 0 ? `${source.value.length} / ${limit}` : `${source.value.length}`;
  at("mirror").textContent = source.value + "\n"; // makes the editor as high as its text
  closeMenu();
}

function later() {
  clearTimeout(timer);
  running?.abort();
  outdated(true);
  timer = setTimeout(translate, PAUSE);
}

async function translate() {
  clearTimeout(timer);
  running?.abort();
  const call = running = new AbortController(), text = source.value, began = performance.now();
  if (!text.trim()) {
    show("", text, "", "", []);
    outdated(false);
    return say("");
  }
  const format = at("format").value;
  const body = { q: text, source: from.value, target: to.value, format, details: format === "text" };
  try {
    const answer = await ask("translate", body, call.signal);
    const found = answer.detectedLanguage?.language || from.value;
    show(answer.translatedText, text, found, to.value, answer.details || []);
    const flagged = (answer.details || []).filter((sentence) => sentence.flags.length).length;
    const warning = flagged ? `${flagged} uncertain ${flagged > 1 ? "sentences" : "sentence"}, underlined · ` : "";
    const name = names.get(found) || found, sure = answer.detectedLanguage?.confidence;
    if (found === to.value) say(`The text is ${name} already`, true);
    else say(`${warning}${sure === undefined ? "" : `${sure ? "" : "Taken for "}${name} · `}${Math.round(performance.now() - began)} ms`);
    outdated(false);
  } catch (error) {
    if (error.name === "AbortError") return;
    show("", text, "", "", []);
    outdated(false);
    failed(error, translate);
  } finally {
    if (running === call) running = null;
  }
}

at("swap").addEventListener("click", () => {
  const target = to.value, wanted = from.value;
  if (![...from.options].some((option) => option.value === target)) return say("There is no model for the other direction", true);
  const text = shownText();
  from.value = target;
  fillTargets();
  if ([...to.options].some((option) => option.value === wanted)) to.value = wanted;
  source.value = text;
  grow();
  chosen();
});
at("clear").addEventListener("click", () => {
  source.value = "";
  if (at("file-status").classList.contains("wrong")) at("file-status").textContent = "";
  grow();
  translate();
  source.focus();
});
at("copy").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(shownText()); say("Copied"); } catch { say("The browser does not allow it", true); }
});
at("shade").addEventListener("change", () => result.classList.toggle("shaded", at("shade").checked));
result.classList.add("shaded");
outdated(false);
const begin = () => start().then(translate, (error) => failed(error, begin));
begin();

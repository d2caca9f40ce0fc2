// The words of source and translation: shading, alignment, and the menu of other words.
// Text of people only ever becomes text nodes: never HTML.
import { ask } from "./server.js";

const result = document.getElementById("result");
const mirror = document.getElementById("mirror");
const menu = document.getElementById("menu");
const WORD = { low: 0.35, mid: 0.65 }, SENTENCE = { low: 0.4, mid: 0.55 }; // confidence below which each is marked
const SAID = { low: "Not sure", mid: "Less sure" };

let shown = { text: "", source: "", from: "", to: "", sentences: [] };

// Shows a translation. Sentences have `source`, `translation`, `words` and `source_words`, with places in code points.
export function show(text, source, from, to, sentences) {
  closeMenu();
  shown = { text, source, from, to, sentences };
  highlight([]);
  const parts = [];
  let end = 0, sourceEnd = 0;
  for (const sentence of sentences) {
    const begin = text.indexOf(sentence.translation, end);
    if (begin < 0) continue;
    parts.push(text.slice(end, begin), spanOf(sentence, sourceEnd));
    end = begin + sentence.translation.length;
    const found = source.indexOf(sentence.source, sourceEnd);
    if (found >= 0) sourceEnd = found + sentence.source.length;
  }
  result.replaceChildren(...parts, text.slice(end));
}

export function shownText() { return shown.text; }

function level(confidence, below) {
  return confidence < below.low ? "low" : confidence < below.mid ? "mid" : "";
}

// A sentence; one that is not sure says so, to the eye and to a screen reader.
function spanOf(sentence, sourceEnd) {
  const span = document.createElement("span"), found = sentence.flags?.length ? "low" : level(sentence.confidence, SENTENCE);
  span.className = `sentence ${found}`.trim();
  if (found) {
    span.setAttribute("role", "group");
    span.setAttribute("aria-label", `${SAID[found]} sentence, ${sentence.flags?.join(", ") || `${Math.round(100 * sentence.confidence)}% sure`}`);
  }
  span.append(...wordsOf(sentence, sourceEnd));
  return span;
}

function wordsOf(sentence, sourceEnd) {
  const letters = Array.from(sentence.translation), kept = keptPlaces(sentence), parts = [];
  let end = 0;
  for (const word of sentence.words.length ? sentence.words : plainWords(sentence.translation)) {
    if (word.end <= word.begin || kept.some(([begin, stop]) => begin < word.end && word.begin < stop)) continue;
    const span = document.createElement("span");
    span.className = `word ${level(word.confidence, WORD)}`.trim();
    span.textContent = letters.slice(word.begin, word.end).join("");
    span.tabIndex = 0;
    span.setAttribute("role", "button");
    span.setAttribute("aria-haspopup", "menu");
    if (word.confidence !== undefined) span.title = `${Math.round(100 * word.confidence)}% sure`;
    const mark = () => highlight(placesOf(sentence, word, sourceEnd));
    span.addEventListener("pointerenter", mark);
    span.addEventListener("focus", mark);
    span.addEventListener("pointerleave", () => highlight([]));
    span.addEventListener("blur", () => highlight([]));
    span.addEventListener("click", () => openMenu(span, sentence, word));
    span.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); openMenu(span, sentence, word); }
    });
    parts.push(letters.slice(end, word.begin).join(""), span);
    end = word.end;
  }
  return [...parts, letters.slice(end).join("")];
}

// Places [begin, end), in code points, of what a translation keeps byte for byte: addresses, code, placeholders.
function keptPlaces({ source, translation }) {
  return plainWords(translation).map(({ begin, end }) => [begin, end, Array.from(translation).slice(begin, end).join("")])
    .filter(([, , text]) => /[@/\\<>{}$%_]|\w[.:]\w/.test(text) && source.includes(text.replace(/[.,;:!?]$/, "")));
}

// Places [begin, end) in the source text, in UTF-16 units, of the words that a translated one comes from.
function placesOf(sentence, word, sourceEnd) {
  const start = shown.source.indexOf(sentence.source, sourceEnd);
  if (start < 0) return [];
  const letters = Array.from(sentence.source), units = (count) => letters.slice(0, count).join("").length;
  return (word.source || [])
    .map((index) => sentence.source_words[index])
    .filter((place) => place && place.end > place.begin)
    .map((place) => [start + units(place.begin), start + units(place.end)]);
}

function highlight(places) {
  const text = shown.source, parts = [];
  let end = 0;
  for (const [begin, stop] of places) {
    const mark = document.createElement("mark");
    mark.textContent = text.slice(begin, stop);
    parts.push(text.slice(end, begin), mark);
    end = stop;
  }
  mirror.replaceChildren(...parts, text.slice(end) + "\n");
}

async function openMenu(span, sentence, word) {
  closeMenu();
  span.classList.add("open");
  const box = span.getBoundingClientRect();
  menu.hidden = false;
  menu.style.left = `${Math.max(8, Math.min(box.left, innerWidth - 320)) + scrollX}px`;
  menu.style.top = `${box.bottom + 6 + scrollY}px`;
  menu.replaceChildren(note("…"));
  const prefix = Array.from(sentence.translation).slice(0, word.begin).join("");
  try {
    const body = { sentence: sentence.source, source: shown.from, target: shown.to, prefix: prefix.trimEnd() };
    const { alternatives } = await ask("alternatives", body);
    if (!span.isConnected) return;
    const others = alternatives.filter((text) => text !== sentence.translation);
    menu.replaceChildren(...(others.length ? others.map((text) => choice(text, prefix, sentence)) : [note("Nothing else")]));
    menu.querySelector("button")?.focus();
  } catch (error) {
    menu.replaceChildren(note(error.message));
  }
}

function note(text) {
  const line = document.createElement("p");
  line.textContent = text;
  return line;
}

function choice(text, prefix, sentence) {
  const button = document.createElement("button"), rest = document.createElement("span");
  const same = text.startsWith(prefix) ? prefix.length : 0;
  const stop = text.slice(same).search(/\s\S*$|\s/);
  const cut = stop > 0 ? same + stop : text.length;
  rest.textContent = text.slice(cut);
  button.type = "button";
  button.setAttribute("role", "menuitem");
  button.append(text.slice(same, cut), rest);
  button.addEventListener("click", () => replace(sentence, text));
  return button;
}

// Puts another translation in the place of a sentence's.
function replace(sentence, translation) {
  const { text, source, from, to, sentences } = shown, index = sentences.indexOf(sentence);
  let begin = 0;
  for (let number = 0; number <= index; number++) {
    begin = text.indexOf(sentences[number].translation, begin);
    if (number < index) begin += sentences[number].translation.length;
  }
  const changed = text.slice(0, begin) + translation + text.slice(begin + sentence.translation.length);
  show(changed, source, from, to, sentences.with(index, { ...sentence, translation, words: [], confidence: undefined }));
  result.focus();
}

function plainWords(text) {
  return [...text.matchAll(/\S+/gu)].map((found) => {
    const first = Array.from(text.slice(0, found.index)).length;
    return { begin: first, end: first + Array.from(found[0]).length, source: [] };
  });
}

export function closeMenu() {
  menu.hidden = true;
  document.querySelector(".word.open")?.classList.remove("open");
}

menu.addEventListener("keydown", (event) => {
  const items = [...menu.querySelectorAll("button")], at = items.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) { event.preventDefault(); items[(at + step + items.length) % items.length]?.focus(); }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || menu.hidden) return;
  const word = document.querySelector(".word.open");
  closeMenu();
  word?.focus();
});
document.addEventListener("pointerdown", (event) => {
  if (!menu.contains(event.target) && !event.target.closest?.(".word")) closeMenu();
});

// Bergamot in Node.js: answers lines of JSON with the translations of their texts, its time and its memory.
//
//   node bergamot.mjs PACKAGE SETTINGS
//
// PACKAGE is the folder of @browsermt/bergamot-translator. SETTINGS is JSON: `model`, `vocabs` and `lex` (or null) are
// files, `config` holds Marian's options. A line {"texts": [...], "size": N} hands over N texts at a time. The answer is
// {"texts": [...], "wall_s", "cpu_s", "peak_mib"}; times are of all threads, and count nothing but the translating.

import {readFileSync} from 'node:fs';
import {createInterface} from 'node:readline';
import {pathToFileURL} from 'node:url';

const [home, settings] = [process.argv[2], JSON.parse(process.argv[3])];
const {BatchTranslator, LatencyOptimisedTranslator, TranslatorBacking} = await import(pathToFileURL(`${home}/translator.js`));

const bytes = (path) => {
  const data = readFileSync(path);
  return data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
};

// The registry and the files of a model, from the disk and not from the network.
class Files extends TranslatorBacking {
  async loadModelRegistery() {
    return [{from: 'aa', to: 'bb', files: {}}];
  }
  async loadTranslationModel() {
    const {model, vocabs, lex, config} = settings;
    const found = [...new Set(vocabs)].map(bytes);
    return {model: bytes(model), shortlist: lex ? bytes(lex) : new ArrayBuffer(0), vocabs: found, qualityModel: null, config};
  }
}

const peakMib = () => Number(readFileSync('/proc/self/status', 'utf8').match(/VmHWM:\s*(\d+)/)[1]) / 1024;
const request = (text) => ({from: 'aa', to: 'bb', text, html: false});
const translators = new Map(); // by how many texts are handed over at a time

const translate = async (texts, size) => {
  if (!translators.has(size)) {
    const options = {workers: 1, batchSize: size, cacheSize: 0};
    const Kind = size === 1 ? LatencyOptimisedTranslator : BatchTranslator;
    translators.set(size, new Kind(options, new Files(options)));
  }
  const translator = translators.get(size);
  const answers = [];
  for (let first = 0; first < texts.length; first += size) {
    const found = await Promise.all(texts.slice(first, first + size).map((text) => translator.translate(request(text))));
    answers.push(...found.map((one) => one.target.text));
  }
  return answers;
};

for await (const line of createInterface({input: process.stdin})) {
  const {texts, size} = JSON.parse(line);
  const [wall, cpu] = [process.hrtime.bigint(), process.cpuUsage()];
  const answers = await translate(texts, size);
  const used = process.cpuUsage(cpu);
  const wallS = Number(process.hrtime.bigint() - wall) / 1e9;
  const answer = {texts: answers, wall_s: wallS, cpu_s: (used.user + used.system) / 1e6, peak_mib: peakMib()};
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);

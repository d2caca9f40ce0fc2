"""Token identity of families: answers against `generate` of transformers in float32, on models made for it.

Each family has a model of an unusual shape with random weights and tokenizers of Tatoeba. For every way to search each
sentence's tokens have to be the same, and its score within 1e-4 (of itself, where it is larger than 1). What differs is
a tie where scores are that close, or where a choice on the way is narrower in double precision than what rounding to
float32 changes in the log probabilities of `generate` itself; anything else is a mistake.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from parity.identity import HOME, Difference, apart
from support.fairseq_models import write_mbart, write_small100, write_tc_big
from support.t5_models import FAMILIES as T5_FAMILIES
from support.t5_models import write_t5

from bench.flags import Data, Sentences
from bench.harness import record
from bench.harness.testset import DATA, test_file, test_pairs
from sharpbeam import Translator
from sharpbeam.convert.conversion import read_model
from sharpbeam.decoding.inputs import encode_texts
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.text.lines import column_pairs, file_digest
from sharpbeam.types import Request

SIZE, BATCH, END = 2000, 40, 11.0
SHAPE = {"d_model": 60, "encoder_ffn_dim": 100, "decoder_ffn_dim": 76, "max_position_embeddings": 130}
NAMES = ("beam", "penalty", "early", "least", "most", "ngram")
WAYS: tuple[tuple[int, float, bool | str, int, int, int], ...] = (
    (1, 1.0, False, 0, 30, 0),
    (1, 1.0, False, 5, 12, 2),
    (4, 1.0, False, 0, 30, 0),
    (4, 2.0, True, 8, 24, 3),
    (5, 0.6, "never", 0, 30, 0),
    (5, -1.0, False, 3, 10, 2),
    (10, 1.0, True, 0, 20, 0),
)
Lines = tuple[list[str], list[str]]


def _of_t5(name: str) -> tuple[Callable[[Path, Lines], Any], dict[str, str]]:
    languages = {"target_language": "en"} if name == "MADLAD-400" else {}
    return lambda to, text: write_t5(to, text[0] + text[1], name, 7, SIZE, d_model=60, d_ff=100), languages


# The name of a family -> what writes a folder of it, and the options that select its languages.
FAMILIES: Mapping[str, tuple[Callable[[Path, Lines], Any], dict[str, str]]] = {
    "mbart-50": (
        lambda to, text: write_mbart(to, text[0] + text[1], True, 4, SIZE, **SHAPE),
        {"source_language": "de_DE", "target_language": "en_XX"},
    ),
    "mbart-cc25": (
        lambda to, text: write_mbart(to, text[0] + text[1], False, 5, SIZE, **SHAPE),
        {"source_language": "de_DE"},
    ),
    "small-100": (
        lambda to, text: write_small100(to, text[0] + text[1], 4, SIZE, **SHAPE, end=END),
        {"target_language": "en"},
    ),
    "tc-big": (
        lambda to, text: write_tc_big(to, *text, True, 3, (SIZE, SIZE), **SHAPE, end=END),
        {"target_language": "eng"},
    ),
    "tc-big, two vocabularies": (
        lambda to, text: write_tc_big(to, *text, False, 3, (SIZE, SIZE), **SHAPE, end=END),
        {},
    ),
    **{name.lower(): _of_t5(name) for name in T5_FAMILIES},
}


class Pair:
    """One model in both engines."""

    def __init__(self, family: str, data: str) -> None:
        write, self.languages = FAMILIES[family]
        self.folder = HOME / family.replace(", ", "-").replace(" ", "-")
        if not (self.folder / "model.safetensors").is_file():
            pairs = list(column_pairs(test_file(data, "tatoeba/eng-deu.train.tsv.gz"), 1, 0))[:20000]
            write(self.folder, ([source for source, _ in pairs], [target for _, target in pairs]))
        import torch
        from transformers import AutoModelForSeq2SeqLM

        torch.set_num_threads(1)
        whole = self.folder / "whole"
        self.model: Any = AutoModelForSeq2SeqLM.from_pretrained(whole if whole.is_dir() else self.folder).eval()
        ours = self.folder.with_name(self.folder.name + "-ours")
        read_model(str(self.folder)).save(ours, "the same in ours")
        self.ours = Translator(ours, machine=MachineOptions(threads=1, exact=True))

    def compare(self, texts: list[str], way: tuple[Any, ...]) -> tuple[list[Difference], dict[str, float]]:
        """The sentences on which they differ; the largest difference of other scores, and how much answers vary."""
        beam, penalty, early, least, most, ngram = way
        options: Any = {"length_penalty": penalty, "early_stopping": early} if beam > 1 else {}
        own: Any = {"beam_size": beam, "min_length": least, "max_length": most, "no_repeat_ngram_size": ngram}
        answers = self.ours.translate(texts, raw=True, **own, **options, **self.languages)
        inputs = encode_texts(self.ours.loaded, texts, None, DecodeOptions().changed(**self.languages))  # type: ignore[arg-type]
        requests = [each.request for each in inputs if each.request is not None]
        assert len(requests) == len(texts)
        theirs = self._generate(requests, way, options)
        piece, differing, furthest = self.ours.loaded.target.piece, [], 0.0
        for request, answer, (messages, score) in zip(requests, answers, theirs, strict=True):
            expected, result = [piece(token) for token in messages], list(answer.tokens)
            if expected != result:
                narrowest = self.narrowest(request, way, min(len(expected), len(result)) + 1)
                differing.append(
                    Difference(answer.source, result, expected, answer.score, score, narrowest, rounding=1.0)
                )
            elif np.isfinite(score):
                furthest = max(furthest, apart(score, answer.score))
        tokens = [answer.tokens for answer in answers]
        varied = {"furthest_score": furthest, "different_answers": len(set(tokens))}
        return differing, varied | {"lengths": len(set(map(len, tokens)))}

    def _generate(
        self, requests: list[Request], way: tuple[Any, ...], options: dict[str, Any]
    ) -> list[tuple[list[int], float]]:
        """Tokens and score of `generate` for each request; sources of one length together, so that none is padded."""
        import torch

        beam, _, _, least, most, ngram = way
        by_length: dict[int, list[int]] = defaultdict(list)
        for place, request in enumerate(requests):
            by_length[len(request.source)].append(place)
        batches = [same[i : i + BATCH] for same in by_length.values() for i in range(0, len(same), BATCH)]
        result: list[tuple[list[int], float]] = [([], 0.0)] * len(requests)
        for batch in batches:
            sources = torch.tensor(np.stack([requests[place].source for place in batch]), dtype=torch.long)
            prefix = requests[batch[0]].prefix
            out = self.model.generate(
                input_ids=sources, attention_mask=torch.ones_like(sources), num_beams=beam, min_new_tokens=least,
                max_new_tokens=most, no_repeat_ngram_size=ngram, do_sample=False, return_dict_in_generate=True,
                forced_bos_token_id=None if prefix is None else int(prefix.token[0]), output_scores=True, **options,
            )  # fmt: skip
            scores = out.sequences_scores.tolist() if beam > 1 else [float("nan")] * len(batch)
            eos = self.ours.loaded.model.eos_id
            for place, row, score in zip(batch, out.sequences.tolist(), scores, strict=True):
                result[place] = row[1 : row.index(eos, 1) if eos in row[1:] else None], score
        return result

    def narrowest(self, request: Request, way: tuple[Any, ...], steps: int) -> float:
        """How narrowly a hypothesis was kept in `steps` steps, in double precision: its lead over the next one.

        In units of twice what rounding changes in the sum of log probabilities, so far and at most, in transformers.
        """
        import torch

        beam, _, _, least, most, ngram = way
        loaded, exact = self.ours.loaded, copy.deepcopy(self.model).double()
        forced = [] if request.prefix is None else request.prefix.token.tolist()
        source = torch.tensor(request.source[None], dtype=torch.long)
        kept, result, noise = [([loaded.model.bos_id, *forced], 0.0)], float("inf"), 0.0
        with torch.no_grad():
            for length in range(len(forced), min(steps, most - 1)):
                ids = torch.tensor([tokens for tokens, _ in kept])
                arguments = {"input_ids": source.expand(len(kept), -1), "decoder_input_ids": ids}
                log_probs, rounded = (model(**arguments).logits[:, -1].log_softmax(-1) for model in (exact, self.model))
                step = float((log_probs - rounded).abs().max())
                noise = step if beam == 1 else noise + step  # greedy search compares no sums
                scores = log_probs + torch.tensor([[score] for _, score in kept])
                scores[:, list(loaded.suppressed)] = -torch.inf
                for row, (tokens, _) in enumerate(kept):
                    for i in range(1, len(tokens) - ngram + 1 if ngram else 0):
                        if tokens[i : i + ngram - 1] == tokens[len(tokens) - ngram + 1 :]:
                            scores[row, tokens[i + ngram - 1]] = -torch.inf
                if length < least:
                    scores[:, loaded.model.eos_id] = -torch.inf
                best, place = scores.flatten().topk(2 * beam + 1)
                gap = best[beam - 1] - best[beam]
                if beam > 1:  # eos may take places of the best
                    gap = min(gap, best[2 * beam - 1] - best[2 * beam])
                result = min(result, float(gap) / (2 * noise))
                parent, token = place // scores.shape[1], place % scores.shape[1]
                went = zip(parent.tolist(), token.tolist(), best.tolist(), strict=True)
                kept = [([*kept[p][0], t], s) for p, t, s in went if t != loaded.model.eos_id][:beam]
        return result


def misses(family: str, data: str, sentences: int) -> list[dict[str, Any]]:
    """A record for each way to search; `wrong` of all of them should be 0. A way is not run twice on one commit."""
    texts, pair, result = test_pairs(data, sentences)[0], Pair(family, data), []
    digest = file_digest(pair.folder / "model.safetensors")
    for way in WAYS:
        options: dict[str, Any] = {"way": dict(zip(NAMES, way, strict=True)), "family": family, "weights": digest}
        options |= {"sentences": len(texts)}
        line = record.find("identity", options)
        if line is None:
            differing, figures = pair.compare(texts, way)
            counts = {"ties": sum(one.tie for one in differing), "wrong": sum(not one.tie for one in differing)}
            listed = {"differing": [vars(one) for one in differing[:20]]}
            messages = {"same": len(texts) - len(differing), **counts, **figures, **listed}
            line = record.write("identity", messages, threads=1, options=options)
        result.append(line)
    return result


def main(
    data: Data = DATA,
    family: Annotated[str, typer.Option(help=f"one of {', '.join(FAMILIES)}; default: all")] = "",
    sentences: Sentences = 1000,
) -> None:
    """Measure, print and record."""
    wrong = ties = 0
    for name in [family] if family else FAMILIES:
        for line in misses(name, data, sentences):
            figures = {figure: line[figure] for figure in FIGURES}
            print(json.dumps({"family": name, **line["options"]["way"], **figures}))
            wrong, ties = wrong + line["wrong"], ties + line["ties"]
    print(f"{wrong} wrong, {ties} ties")


FIGURES = ("same", "ties", "wrong", "furthest_score", "different_answers", "lengths")

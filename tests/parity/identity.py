"""Token identity: our answers against `generate` of transformers on the same weights, in float32, many sentences.

The model is a MarianMT folder of Hugging Face (`--folder`), converted here; without one a random model is made, with
SentencePiece models of Tatoeba and words that end. For every way to search, each sentence's tokens have to be the same
and its score within 1e-4 (of itself, where it is larger than 1: a length penalty of -1 multiplies by the length). Where
tokens differ, both are listed with their scores, and with how narrowly a hypothesis was kept on the way. Scores below
1e-4 apart, and a choice that floats are too short for, are ties, which rounding may break either way; anything else is
a mistake.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Data, Sentences
from bench.harness import record
from bench.harness.testset import DATA, test_file, test_pairs
from sharpbeam import Translator
from sharpbeam.convert.conversion import read_model
from sharpbeam.options.decode import MachineOptions
from sharpbeam.text.lines import column_pairs, file_digest
from sharpbeam.text.sentencepiece import train_sentencepiece

HOME = record.ROOT / "build" / "bench" / "identity"
CLOSE = 1e-4
ROUNDING = 2.0**-22  # of a sum of log probabilities: four units in the last place of a float
PREFIX = "Tom"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# beam_size, length_penalty, early_stopping, min_length, max_length, with a forced prefix
WAYS = (
    (1, 1.0, False, 0, 40, False),
    (1, 1.0, False, 5, 10, False),
    (4, 1.0, False, 0, 40, False),
    (4, 0.0, True, 0, 40, False),
    (5, 0.6, True, 0, 40, False),
    (5, 1.0, "never", 0, 40, False),
    (5, 2.0, False, 4, 12, False),
    (5, -1.0, False, 0, 40, False),
    (10, 1.0, True, 0, 40, False),
    (5, 0.0, False, 0, 40, True),
)


@dataclass(frozen=True)
class Difference:
    """A sentence on which the two do not say the same."""

    text: str
    ours: list[str]
    theirs: list[str]
    our_score: float
    their_score: float
    narrowest: float  # as from `Pair.narrowest`
    rounding: float = ROUNDING  # a choice that is narrower than this may go either way

    @property
    def tie(self) -> bool:
        """Whether the answers are as good as each other, or rounding decides which of two hypotheses lives on."""
        return apart(self.our_score, self.their_score) < CLOSE or self.narrowest < self.rounding


def apart(one: float, other: float) -> float:
    """How far two scores are apart, as a share of the larger where that is above 1: floats have seven digits."""
    return abs(one - other) / max(1.0, abs(one), abs(other))


def random_model(data: str) -> Path:
    """A folder of MarianMT with random weights, made where it is not there yet."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    folder = HOME / "random"
    if (folder / "model.safetensors").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    train = list(column_pairs(test_file(data, "tatoeba/eng-deu.train.tsv.gz"), 1, 0))[:30000]
    pieces = ["</s>", "<unk>"]
    for side, name in enumerate(("source.spm", "target.spm")):
        (folder / name).write_bytes(train_sentencepiece((pair[side] for pair in train), name, 4000, 1.0, 1))
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(str(folder / name))
        pieces += [processor.IdToPiece(i) for i in range(4, processor.GetPieceSize())]
    pieces = [*dict.fromkeys(pieces), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    pad = len(pieces) - 1
    torch.manual_seed(1)
    sizes: dict[str, Any] = {
        f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 3), ("ffn_dim", 256))
    }
    heads: dict[str, Any] = {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
    special: dict[str, Any] = {
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
    }
    config = MarianConfig(
        vocab_size=len(pieces), d_model=64, scale_embedding=True, activation_function="swish", init_std=0.25,
        max_position_embeddings=512, **sizes, **heads, **special,
    )  # fmt: skip
    model: Any = MarianMTModel(config)  # only saved, so dropout does not matter
    with torch.no_grad():
        model.model.shared.weight.mul_(0.6)
        model.final_logits_bias.normal_(0.0, 0.5)
        model.final_logits_bias[0, 0] = 6.0
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)
    return folder


class Pair:
    """One model in both engines."""

    def __init__(self, folder: Path, threads: int) -> None:
        import torch
        from transformers import MarianMTModel

        torch.set_num_threads(threads)
        read_model(str(folder)).save(HOME / "ours", "the same in ours")
        self.ours = Translator(HOME / "ours", machine=MachineOptions(threads=threads))
        self.theirs: Any = MarianMTModel.from_pretrained(folder)  # in evaluation mode

    def compare(self, texts: list[str], way: tuple[Any, ...]) -> tuple[list[Difference], float]:
        """The sentences on which they differ, and the largest difference of the scores on the others."""
        beam, penalty, early, least, most, prefixed = way
        options = {"length_penalty": penalty, "early_stopping": early} if beam > 1 else {}
        prefix = PREFIX if prefixed else None
        answers = self.ours.translate(
            texts, raw=True, beam_size=beam, min_length=least, max_length=most, target_prefix=prefix, **options
        )
        vocabulary, differing, furthest = self.ours.loaded.target, [], 0.0
        for text, answer in zip(texts, answers, strict=True):
            tokens, score = self._generate(text, beam, least, most, prefix, options)
            theirs, ours = [vocabulary.piece(token) for token in tokens], list(answer.tokens)
            if ours != theirs:
                shared = min(len(ours), len(theirs)) + 1
                narrowest = self.narrowest(text, beam, least, shared, prefix)
                differing.append(Difference(text, ours, theirs, answer.score, score, narrowest))
            elif np.isfinite(score):
                furthest = max(furthest, apart(score, answer.score))
        return differing, furthest

    def narrowest(self, text: str, beam: int, least: int, steps: int, prefix: str | None) -> float:
        """How close the best candidate that was left out came to the last one that was kept, in `steps` steps.

        In double precision, as a share of their sum of log probabilities: below ROUNDING either may be kept, and all
        that comes after differs.
        """
        import torch

        model = self.theirs.double()
        special = model.generation_config
        source = torch.tensor([[*self.ours.loaded.source.encode(text), special.eos_token_id]])
        forced = self.ours.loaded.target.encode(prefix) if prefix else []
        kept, result = [([special.decoder_start_token_id, *forced], 0.0)], float("inf")
        with torch.no_grad():
            for length in range(len(forced), steps):
                ids = torch.tensor([tokens for tokens, _ in kept])
                logits = model(input_ids=source.expand(len(kept), -1), decoder_input_ids=ids).logits[:, -1]
                logits[:, model.config.pad_token_id] = -torch.inf
                scores = logits.log_softmax(-1) + torch.tensor([[score] for _, score in kept])
                if length < least:
                    scores[:, special.eos_token_id] = -torch.inf
                best, place = scores.flatten().topk(2 * beam + 1)
                gap = min(best[beam - 1] - best[beam], best[2 * beam - 1] - best[2 * beam])
                result = min(result, float(gap / best[beam].abs()))
                parent, token = place // scores.shape[1], place % scores.shape[1]
                went = zip(parent.tolist(), token.tolist(), best.tolist(), strict=True)
                kept = [([*kept[p][0], t], s) for p, t, s in went if t != special.eos_token_id][:beam]
        self.theirs.float()
        return result

    def _generate(
        self, text: str, beam: int, least: int, most: int, prefix: str | None, options: dict[str, Any]
    ) -> tuple[list[int], float]:
        """Tokens and score of `generate`; greedy search gives no score."""
        import torch

        model = self.theirs
        start, eos = model.generation_config.decoder_start_token_id, model.generation_config.eos_token_id
        forced = self.ours.loaded.target.encode(prefix) if prefix else []
        out = model.generate(
            input_ids=torch.tensor([[*self.ours.loaded.source.encode(text), eos]]),
            decoder_input_ids=torch.tensor([[start, *forced]]),
            min_new_tokens=max(least - len(forced), 0), max_new_tokens=most - len(forced), num_beams=beam,
            do_sample=False, return_dict_in_generate=True, output_scores=True, **options,
        )  # fmt: skip
        ids = [token for token in out.sequences[0].tolist()[1:] if token not in (eos, start)]
        return ids, float(out.sequences_scores[0]) if beam > 1 else float("nan")


def misses(folder: str | None, data: str, sentences: int) -> list[dict[str, Any]]:
    """A record for each way to search; `wrong` of all of them should be 0.

    Each way is recorded as soon as it is done, and found again by a run that continues an interrupted one.
    """
    theirs = Path(folder) if folder else random_model(data)
    weights = next(path for name in WEIGHTS if (path := theirs / name).is_file())
    texts, _ = test_pairs(data, sentences)
    result, pair = [], None
    for way in WAYS:
        options = {
            "way": dict(zip(("beam", "penalty", "early", "least", "most", "prefix"), way, strict=True)),
            "weights": file_digest(weights),
            "sentences": len(texts),
        }
        line = record.find("identity", options)
        if line is None:
            pair = pair or Pair(theirs, 1)
            differing, furthest = pair.compare(texts, way)
            figures = {
                "same": len(texts) - len(differing),
                "ties": sum(one.tie for one in differing),
                "wrong": sum(not one.tie for one in differing),
                "furthest_score": furthest,
                "differing": [vars(one) for one in differing[:20]],
            }
            line = record.write("identity", figures, threads=1, options=options)
        result.append(line)
    return result


def main(
    data: Data = DATA,
    folder: Annotated[
        str | None, typer.Option(help="a MarianMT folder of Hugging Face; default: random weights")
    ] = None,
    sentences: Sentences = 1000,
) -> None:
    """Measure, print and record."""
    result = misses(folder, data, sentences)
    for line in result:
        print(json.dumps(line, ensure_ascii=False))
    wrong = sum(line["wrong"] for line in result)
    print(f"{len(result)} ways, {wrong} wrong, {sum(line['ties'] for line in result)} ties")

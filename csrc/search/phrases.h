// Phrases that an answer has to contain (terms of a glossary), and what a hypothesis has of them: Post & Vilar (2018),
// "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural Machine Translation", section 3.
//
// A phrase has one form or more, each a run of tokens; one of them is enough. A hypothesis is read from its first token
// on. Where its last tokens are a form of a phrase that it lacks, the phrase is met, and reading continues after it, so
// no token counts twice. Otherwise the longest suffix that is a prefix of such a form counts as begun: a token that
// does not continue it discards the partial match, as in the paper, except for a suffix that begins a form.
//
// The search (search/beam.h) adds the tokens of `append_next` to the candidates of a row, whatever their rank, with the
// log probability that the output layer has for them. It divides the beam among banks, one for each number of tokens
// met, so that hypotheses which lack some are not pushed off. The beam has K places, or one for each bank if that is
// more, up to 64; banks share them, and leave what they do not use to others (search/banks.h). Answers have all
// phrases; where none can, those that met the most are taken.
//
// A met phrase counts as many tokens as its longest form, a begun one those that are there. Right after a phrase no
// token may follow that would continue its last word ("home", "less").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sharpbeam {

class Phrases {
 public:
  using Form = std::vector<int32_t>;

  // The phrases that a hypothesis has.
  struct Progress {
    std::vector<uint8_t> met;  // [phrases]
    Form begun;                // the last tokens, where they begin a form
    bool whole = false;        // whether the last token ended a phrase
    int64_t done = 0;          // tokens of the phrases that are met

    int64_t tokens() const { return done + static_cast<int64_t>(begun.size()); }
  };

  Phrases() = default;
  // The forms of each phrase, and for each token but eos whether it continues a word, [vocab] or empty. Throws
  // std::invalid_argument for a phrase without forms, a form without tokens, an id that is eos or not from 0 to
  // vocab - 1, and another size.
  Phrases(const std::vector<std::vector<Form>>& phrases, std::span<const uint8_t> joins, int32_t eos, int64_t vocab);

  bool empty() const { return forms_.empty(); }
  int64_t tokens() const { return tokens_; }  // of all phrases

  // Whether `token` must not come next.
  bool bans(const Progress& progress, int32_t token) const {
    return progress.whole && !joins_.empty() && joins_[static_cast<size_t>(token)] != 0;
  }
  // The progress of a hypothesis that has no tokens yet, and what one more token makes of it.
  void begin(Progress& progress) const;
  void add(Progress& progress, int32_t token) const;
  // progress.tokens() after one more token; `scratch` is overwritten.
  int64_t after(const Progress& progress, int32_t token, Progress& scratch) const;
  // The tokens that continue what is begun, or, where nothing is, those that begin a phrase: appended, ascending.
  void append_next(const Progress& progress, std::vector<int32_t>& tokens) const;

 private:
  struct Entry {
    Form form;
    size_t phrase;
  };

  std::vector<Entry> forms_;
  std::vector<int64_t> size_;   // [phrases] tokens of the longest form
  std::vector<int32_t> known_;  // all tokens of forms, ascending
  std::vector<uint8_t> joins_;  // [vocab] or empty
  int64_t tokens_ = 0;
};

}  // namespace sharpbeam

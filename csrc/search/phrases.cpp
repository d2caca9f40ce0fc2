#include "search/phrases.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sharpbeam {
namespace {

void make_set(std::vector<int32_t>& list, size_t begin) {
  std::sort(list.begin() + static_cast<int64_t>(begin), list.end());
  list.erase(std::unique(list.begin() + static_cast<int64_t>(begin), list.end()), list.end());
}

}  // namespace

Phrases::Phrases(const std::vector<std::vector<Form>>& phrases, std::span<const uint8_t> joins, int32_t eos,
                 int64_t vocab)
    : joins_(joins.begin(), joins.end()) {
  if (!joins.empty() && static_cast<int64_t>(joins.size()) != vocab)
    throw std::invalid_argument("joins has " + std::to_string(joins.size()) +
                                " entries; it must have one for each of " + std::to_string(vocab) + " tokens");
  if (!joins_.empty()) joins_[static_cast<size_t>(eos)] = 0;
  for (const std::vector<Form>& forms : phrases) {
    size_t longest = 0;
    for (const Form& form : forms) {
      for (const int32_t token : form)
        if (token < 0 || token >= vocab || token == eos)
          throw std::invalid_argument("a token of a phrase is " + std::to_string(token) + "; it must be from 0 to " +
                                      std::to_string(vocab - 1) + ", and not eos");
      if (form.empty()) throw std::invalid_argument("a form of a phrase has no tokens");
      longest = std::max(longest, form.size());
      known_.insert(known_.end(), form.begin(), form.end());
      forms_.push_back({form, size_.size()});
    }
    if (forms.empty()) throw std::invalid_argument("a phrase has no forms");
    size_.push_back(static_cast<int64_t>(longest));
    tokens_ += static_cast<int64_t>(longest);
  }
  make_set(known_, 0);
}

void Phrases::begin(Progress& progress) const {
  progress.met.assign(size_.size(), 0);
  progress.begun.clear();
  progress.done = 0;
  progress.whole = false;
}

void Phrases::add(Progress& progress, int32_t token) const {
  Form& run = progress.begun;
  progress.whole = false;
  run.push_back(token);
  if (!std::binary_search(known_.begin(), known_.end(), token)) run.clear();
  for (; !run.empty(); run.erase(run.begin())) {  // the longest run first
    bool begins = false;
    for (const auto& [form, phrase] : forms_) {
      if (progress.met[phrase] || run.size() > form.size() || !std::equal(run.begin(), run.end(), form.begin()))
        continue;
      begins = true;
      if (run.size() < form.size()) continue;
      progress.met[phrase] = 1;
      progress.done += size_[phrase];
      progress.whole = true;
      run.clear();
      return;
    }
    if (begins) return;
  }
}

int64_t Phrases::after(const Progress& progress, int32_t token, Progress& scratch) const {
  if (!std::binary_search(known_.begin(), known_.end(), token)) return progress.done;
  scratch = progress;
  add(scratch, token);
  return scratch.tokens();
}

void Phrases::append_next(const Progress& progress, std::vector<int32_t>& tokens) const {
  const size_t before = tokens.size(), begun = progress.begun.size();
  for (const auto& [form, phrase] : forms_)
    if (!progress.met[phrase] && begun < form.size() &&
        std::equal(progress.begun.begin(), progress.begun.end(), form.begin()))
      tokens.push_back(form[begun]);
  make_set(tokens, before);
}

}  // namespace sharpbeam

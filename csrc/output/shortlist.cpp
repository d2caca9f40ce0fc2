#include "output/shortlist.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace sharpbeam {

Shortlist::Shortlist(const ShortlistView& view, int64_t vocab)
    : always_(view.always, view.always + view.always_count),
      start_(view.start, view.start + view.sources + 1),
      vocab_(vocab) {
  if (always_.empty()) throw std::invalid_argument("always has no tokens; a set must have at least one");
  check_token_set(always_, vocab, "always");
  for (size_t s = 0; s < start_.size(); ++s) {
    if (start_[s] < (s == 0 ? 0 : start_[s - 1]) || (s == 0 && start_[s] != 0)) {
      throw std::invalid_argument("start[" + std::to_string(s) + "] is " + std::to_string(start_[s]) +
                                  "; start must rise from 0");
    }
  }
  token_.assign(view.token, view.token + start_.back());
  check_tokens(token_.data(), static_cast<int64_t>(token_.size()), vocab);
}

void Shortlist::find(const LayerRequest& request, std::vector<int32_t>& tokens) const {
  const int64_t sources = static_cast<int64_t>(start_.size()) - 1;
  tokens = always_;
  for (const int32_t each : request.source) {
    if (each < 0 || each >= sources) {
      throw std::invalid_argument("a source token is " + std::to_string(each) + "; the shortlist knows 0 to " +
                                  std::to_string(sources - 1));
    }
    tokens.insert(tokens.end(), token_.begin() + start_[each], token_.begin() + start_[each + 1]);
  }
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

void PackedTokens::pack(const float* weight, const float* biases, int64_t dim) {
  bias.reserve(round_up(size(), kPanel));
  pack_tokens(weight, biases, dim, tokens, reserved(packed, packed_size(dim, size())), bias.get());
}

void RequestSets::enter(const LayerRequest& request) {
  if (sets_.count(request.index) != 0) {
    throw std::invalid_argument("request " + std::to_string(request.index) + " is in flight already; evict it first");
  }
  Set set;
  if (!spare_.empty()) {
    set = std::move(spare_.back());
    spare_.pop_back();
  }
  layer_.shortlist().find(request, set.tokens);
  const PackedTokens& always = layer_.always();
  set.others.tokens.clear(), set.place.clear();
  auto next = always.tokens.begin();
  for (const int32_t token : set.tokens) {
    const bool other = next == always.tokens.end() || *next != token;
    const int64_t place = other ? always.stride() + set.others.size() : next++ - always.tokens.begin();
    if (other) set.others.tokens.push_back(token);
    set.place.push_back(static_cast<int32_t>(place));
  }
  set.others.pack(layer_.weight(), layer_.bias(), layer_.dim());
  apart_.reserve(kRowsAtOnce * (always.stride() + set.others.stride()));
  logits_.reserve(std::ssize(set.tokens));
  sets_.emplace(request.index, std::move(set));
  spare_.reserve(sets_.size());  // so that `leave` need not allocate
}

void RequestSets::leave(const int32_t* request, int64_t count) {
  for (int64_t i = 0; i < count; ++i) set_of(request[i]);
  for (int64_t i = 0; i < count; ++i) {
    const auto found = sets_.find(request[i]);
    if (found == sets_.end()) continue;  // named twice
    spare_.push_back(std::move(found->second));
    sets_.erase(found);
  }
}

const RequestSets::Set& RequestSets::set_of(int32_t request) const {
  const auto found = sets_.find(request);
  if (found != sets_.end()) return found->second;
  throw std::invalid_argument("request is " + std::to_string(request) + ", which was not admitted or is evicted");
}

class ShortlistLayer::Run final : public LayerRun {
 public:
  explicit Run(const ShortlistLayer& layer) : layer_(layer), sets_(layer) {}

  int64_t dim() const override { return layer_.dim_; }
  int64_t vocab() const override { return layer_.vocab_; }

 private:
  void enter(const LayerRequest& request) override { sets_.enter(request); }
  void leave(const int32_t* request, int64_t count) override { sets_.leave(request, count); }
  void find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) override {
    check_k(k, vocab());
    sets_.for_each_row(rows, [&](int64_t row, TokenSet set, float* logits) {
      rank_set(*layer_.table_, logits, set, k, log_prob + row * k, token + row * k);
    });
  }
  void find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) override {
    check_tokens(token, rows.rows, vocab());
    sets_.for_each_row(rows, [&](int64_t row, TokenSet set, const float* logits) {
      log_prob[row] = log_prob_in_set(*layer_.table_, logits, set, token[row]);
    });
  }

  const ShortlistLayer& layer_;
  RequestSets sets_;
};

ShortlistLayer::ShortlistLayer(Array weight, Array bias, int64_t vocab, int64_t dim, Shortlist shortlist,
                               const Kernels& table)
    : weight_(std::move(weight)),
      bias_(std::move(bias)),
      vocab_(vocab),
      dim_(dim),
      shortlist_(std::move(shortlist)),
      table_(&table) {
  check_sizes(vocab, dim);
  always_.tokens = shortlist_.always();
  always_.pack(weight_.get(), bias_.get(), dim);
}

std::unique_ptr<LayerRun> ShortlistLayer::open() const { return std::make_unique<Run>(*this); }

}  // namespace sharpbeam

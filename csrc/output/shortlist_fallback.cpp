#include "output/shortlist_fallback.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "output/floors.h"
#include "output/scratch.h"

namespace sharpbeam {

class ShortlistFallbackLayer::Run final : public LayerRun {
 public:
  explicit Run(const ShortlistFallbackLayer& layer) : layer_(layer), sets_(layer.sets_) {}

  int64_t dim() const override { return layer_.dim(); }
  int64_t vocab() const override { return layer_.vocab(); }

 private:
  struct Row {
    ShortlistTest::Outside outside;
    float total;   // NaN: the test has none
    double floor;  // of the log probabilities that matter
  };

  void enter(const LayerRequest& request) override { sets_.enter(request); }
  void leave(const int32_t* request, int64_t count) override { sets_.leave(request, count); }
  void find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) override;
  void find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) override;

  // Calls visit(row, set, logits) for each row, whose total is in `row_` then.
  template <typename Visit>
  void for_each_row(const LayerRows& rows, Visit visit);
  // Raises the floors of all rows to what a beam search can use, by the candidates [rows, k].
  void set_floors(const LayerRows& rows, int64_t k, const float* log_prob, const int32_t* token);
  // The rows named by `falling_` of `rows`, gathered; with their part of the beam, if any.
  LayerRows gather(const LayerRows& rows, BeamView& beam);
  void ask(const LayerRows& part, int64_t k, bool normalize, float* log_prob, int32_t* token);
  void rank_again(int64_t k, float total, float* log_prob, int32_t* token);

  const Kernels& table() const { return layer_.sets_.table(); }

  const ShortlistFallbackLayer& layer_;
  RequestSets sets_;
  Buffer units_, hidden_, floor_, found_;
  std::vector<Row> row_;
  std::vector<int32_t> falling_, request_, token_;
  std::vector<double> score_, scores_;
  std::vector<char> whole_;
  std::vector<std::pair<float, int32_t>> ranked_;
};

template <typename Visit>
void ShortlistFallbackLayer::Run::for_each_row(const LayerRows& rows, Visit visit) {
  const ShortlistTest& test = layer_.test_;
  float* units = reserved(units_, rows.rows * test.units());
  Row* row = reserved(row_, rows.rows);
  test.look(table(), rows.hidden, rows.rows, units);
  sets_.for_each_row(rows, [&](int64_t r, TokenSet set, float* logits) {
    const int64_t size = static_cast<int64_t>(set.size());
    const float log_mass = table().log_sum_exp(logits, size);
    float best;
    int32_t at;
    table().top_k(logits, size, 1, &best, &at);
    row[r].outside = test.predict(units + r * test.units(), best, log_mass);
    row[r].total = test.log_total(row[r].outside, log_mass);
    row[r].floor = kNever;
    visit(r, set, logits);
  });
  layer_.seen_.fetch_add(rows.rows, std::memory_order_relaxed);
}

LayerRows ShortlistFallbackLayer::Run::gather(const LayerRows& rows, BeamView& beam) {
  const int64_t count = static_cast<int64_t>(falling_.size());
  LayerRows part{reserved(hidden_, count * dim()), count};
  float *hidden = hidden_.get(), *floor = reserved(floor_, count);
  request_.resize(falling_.size()), score_.resize(falling_.size()), whole_.resize(falling_.size());
  const bool whole = rows.narrowed() && rows.beam->whole != nullptr;
  for (size_t i = 0; i < falling_.size(); ++i) {
    const int64_t r = falling_[i];
    std::copy_n(rows.hidden + r * dim(), dim(), hidden + static_cast<int64_t>(i) * dim());
    floor[i] = static_cast<float>(row_[static_cast<size_t>(r)].floor);
    request_[i] = rows.request[r];
    if (rows.narrowed()) score_[i] = rows.beam->score[r];
    if (whole) whole_[i] = rows.beam->whole[r];
  }
  part.request = request_.data(), part.floor = floor;
  if (rows.narrowed()) {
    beam = *rows.beam;
    beam.score = score_.data(), beam.open = nullptr, beam.wanted = nullptr;  // which are of all rows
    beam.whole = whole ? whole_.data() : nullptr;
    part.beam = &beam;
  }
  layer_.fallen_back_.fetch_add(count, std::memory_order_relaxed);
  return part;
}

// Into `found_` and `token_`, and on to the rows' places.
void ShortlistFallbackLayer::Run::ask(const LayerRows& part, int64_t k, bool normalize, float* log_prob,
                                      int32_t* token) {
  float* found = reserved(found_, part.rows * k);
  int32_t* tokens = reserved(token_, part.rows * k);
  layer_.fallback_->rank(part, k, normalize, found, tokens);
  for (int64_t i = 0; i < part.rows; ++i) {
    const int64_t at = falling_[static_cast<size_t>(i)] * k;
    std::copy_n(found + i * k, k, log_prob + at);
    std::copy_n(tokens + i * k, k, token + at);
  }
}

// Logits become log probabilities, in whose order candidates stand. No token is likelier than 1, though the mass that
// was expected outside may be too small.
void ShortlistFallbackLayer::Run::rank_again(int64_t k, float total, float* log_prob, int32_t* token) {
  ranked_.clear();
  for (int64_t i = 0; i < k; ++i) ranked_.emplace_back(total - log_prob[i], token[i]);
  std::sort(ranked_.begin(), ranked_.end());
  for (int64_t i = 0; i < k; ++i) {
    log_prob[i] = std::min(-ranked_[static_cast<size_t>(i)].first, 0.0f);
    token[i] = ranked_[static_cast<size_t>(i)].second;
  }
}

void ShortlistFallbackLayer::Run::set_floors(const LayerRows& rows, int64_t k, const float* log_prob,
                                             const int32_t* token) {
  for_each_floor(
      rows, 0, rows.rows, scores_,
      [&](int64_t r, auto take) {
        for (int64_t i = r * k; i < (r + 1) * k && log_prob[i] > kNever; ++i) take(token[i], log_prob[i]);
      },
      [](int64_t) { return 0.0; },
      [&](int64_t r, double floor) {
        double& mine = row_[static_cast<size_t>(r)].floor;
        mine = std::max(mine, floor);
      });
}

void ShortlistFallbackLayer::Run::find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) {
  check_k(k, vocab());
  falling_.clear();
  for_each_row(rows, [&](int64_t r, TokenSet set, float* logits) {
    const int64_t size = static_cast<int64_t>(set.size()), some = std::min(k, size);
    float* to = log_prob + r * k;
    int32_t* tokens = token + r * k;
    const float total = row_[static_cast<size_t>(r)].total;
    std::fill(to, to + k, kNever);
    std::fill(tokens, tokens + k, 0);
    if (std::isnan(total)) return falling_.push_back(static_cast<int32_t>(r));
    rank_log_probs(table(), logits, set.data(), size, total, some, to, tokens);
    for (int64_t i = 0; i < some; ++i) to[i] = std::min(to[i], 0.0f);
  });
  if (rows.narrowed()) set_floors(rows, k, log_prob, token);
  BeamView beam;
  if (!falling_.empty()) {
    ask(gather(rows, beam), k, true, log_prob, token);
    if (rows.narrowed()) set_floors(rows, k, log_prob, token);
  }
  falling_.clear();
  for (int64_t r = 0; r < rows.rows; ++r) {
    Row& row = row_[static_cast<size_t>(r)];
    if (std::isnan(row.total)) continue;
    // In logits from here on: the least that is among the k best, or can matter to the search.
    const int64_t wanted = rows.beam != nullptr && rows.beam->wanted != nullptr ? rows.beam->wanted[r] : k;
    row.floor = std::max<double>(row.floor, log_prob[r * k + wanted - 1]) + row.total;
    if (layer_.test_.sure(row.outside, row.floor)) continue;
    row.floor -= 1e-6 * (1.0 + std::fabs(row.floor));  // sums were rounded
    falling_.push_back(static_cast<int32_t>(r));
  }
  if (falling_.empty()) return;
  LayerRows part = gather(rows, beam);
  part.beam = nullptr;
  ask(part, k, false, log_prob, token);
  for (const int32_t r : falling_) rank_again(k, row_[static_cast<size_t>(r)].total, log_prob + r * k, token + r * k);
}

void ShortlistFallbackLayer::Run::find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) {
  check_tokens(token, rows.rows, vocab());
  falling_.clear();
  const ShortlistLayer& own = layer_.sets_;
  for_each_row(rows, [&](int64_t r, TokenSet, const float*) {
    const float total = row_[static_cast<size_t>(r)].total;
    if (std::isnan(total)) return falling_.push_back(static_cast<int32_t>(r));
    table().gather_dot(own.weight(), own.bias(), rows.hidden + r * dim(), 1, token + r, 1, dim(), log_prob + r, 1);
    log_prob[r] = std::min(log_prob[r] - total, 0.0f);
  });
  if (falling_.empty()) return;
  BeamView beam;
  const LayerRows part = gather({rows.hidden, rows.rows, rows.request}, beam);
  float* found = reserved(found_, part.rows);
  int32_t* tokens = reserved(token_, part.rows);
  for (int64_t i = 0; i < part.rows; ++i) tokens[i] = token[falling_[static_cast<size_t>(i)]];
  layer_.fallback_->score(part, tokens, true, found);
  for (int64_t i = 0; i < part.rows; ++i) log_prob[falling_[static_cast<size_t>(i)]] = found[i];
}

ShortlistFallbackLayer::ShortlistFallbackLayer(Array weight, Array bias, int64_t vocab, int64_t dim,
                                               Shortlist shortlist, const ShortlistTestView& test,
                                               const RowLayer* fallback, const Kernels& table)
    : sets_(std::move(weight), std::move(bias), vocab, dim, std::move(shortlist), table),
      test_(test, dim),
      fallback_(dynamic_cast<const NormalizingLayer*>(fallback)) {
  if (fallback_ == nullptr) throw std::invalid_argument("fallback is a layer that cannot leave its normalizer out");
  if (fallback->vocab() != vocab || fallback->dim() != dim) {
    throw std::invalid_argument("fallback is for [" + std::to_string(fallback->vocab()) + ", " +
                                std::to_string(fallback->dim()) + "]; it must be for the same output matrix");
  }
}

std::unique_ptr<LayerRun> ShortlistFallbackLayer::open() const { return std::make_unique<Run>(*this); }

}  // namespace sharpbeam

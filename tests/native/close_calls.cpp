// Beam search over estimated normalizers: the answers of exact ones, however the estimates are off within their errors,
// where the sum of some is within the root of the sum of the squares of what is stated.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "check.h"
#include "search/beam.h"
#include "search/cube.h"
#include "search/sampling.h"

namespace {

using namespace sharpbeam;

constexpr int32_t kEos = 2;
constexpr int64_t kVocab = 30, kRequests = 3;

constexpr float kStated = 3.5f;  // times the errors: what all rows of both of two hypotheses may add up to, about

enum class Off { kNowhere, kHigh, kLow, kBoth };

// The state is a hash of all tokens so far; the log probability of a token is a hash of it and the state. No two are
// equal. Normalizers are estimated as 0 and some error, closer ones as 0 and an eighth of it.
struct EstimatingForward : Forward {
  EstimatingForward(Off how, float share, bool also_closer = false)
      : off(how), stated(share), has_eighths(also_closer) {}
  int64_t dim() const override { return 1; }
  bool estimates() const override { return off != Off::kNowhere; }
  bool rough() const override { return estimates(); }
  bool has_closer() const override { return has_eighths; }

  const float* step(const int32_t*, const int32_t* state, const int32_t* token, int64_t rows,
                    int32_t* states) override {
    hidden.resize(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      states[row] = (31 * state[row] + 7 * token[row] + 3) % 99991;
      hidden[static_cast<size_t>(row)] = static_cast<float>(states[row]);
    }
    return hidden.data();
  }

  void topk(const float* given, const int32_t*, int64_t rows, int64_t k, const BeamView*, const Estimates* found,
            float* log_prob, int32_t* token) override {
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int32_t> order(kVocab);
      for (int32_t id = 0; id < kVocab; ++id) order[static_cast<size_t>(id)] = id;
      std::sort(order.begin(), order.end(),
                [&](int32_t a, int32_t b) { return value(given[row], a) > value(given[row], b); });
      for (int64_t i = 0; i < k; ++i) {
        token[row * k + i] = order[static_cast<size_t>(i)];
        log_prob[row * k + i] = value(given[row], token[row * k + i]) - total(given[row]);
      }
    }
    tell(given, rows, found);
  }

  void log_prob(const float* given, const int32_t*, int64_t rows, const int32_t* token, const Estimates* found,
                float* log_prob) override {
    for (int64_t row = 0; row < rows; ++row) log_prob[row] = value(given[row], token[row]) - total(given[row]);
    tell(given, rows, found);
  }

  void closer_totals(const float* given, const int32_t*, int64_t rows, const Estimates& closer) override {
    tell(given, rows, &closer, 0.125f);
    eighths += rows;
  }
  void exact_totals(const float*, const int32_t*, int64_t rows, float* total) override {
    std::fill_n(total, rows, 0.0f);
    exact += rows;
  }
  void retain(const int32_t*, int64_t) override {}

  static uint32_t hash(float state, int32_t token) {
    uint32_t x = static_cast<uint32_t>(state) * 2654435761u + static_cast<uint32_t>(token + 1) * 2246822519u;
    x = (x ^ (x >> 15)) * 3266489917u;
    return x ^ (x >> 13);
  }
  static float value(float state, int32_t token) {
    return -0.5f - (token == kEos ? 2.0f : 6.0f) * static_cast<float>(hash(state, token) >> 8) * 0x1p-24f;
  }
  // Some rows are exact.
  static float error(float state) { return 0.1f * static_cast<float>(hash(state, -7) % 4); }
  float total(float state) const {
    const bool up = off == Off::kHigh || (off == Off::kBoth && hash(state, -9) % 2 == 1);
    return off == Off::kNowhere ? 0.0f : up ? error(state) : -error(state);
  }
  void tell(const float* given, int64_t rows, const Estimates* found, float share = 1.0f) const {
    for (int64_t row = 0; found != nullptr && row < rows; ++row) {
      found->total[row] = share * total(given[row]), found->error[row] = share * stated * error(given[row]);
    }
  }

  Off off;
  float stated;  // times the errors
  bool has_eighths;
  int64_t eighths = 0, exact = 0;  // rows that were asked for
  std::vector<float> hidden;
};

struct Answer {
  std::vector<int32_t> tokens;
  double score;
};

std::unique_ptr<Search> make(const SearchOptions& options) {
  if (options.cube_pruning != CubePruning::kNone) return std::make_unique<CubeSearch>(options);
  return std::make_unique<BeamSearch>(options);
}

// The answers of all requests, in their order; `settled` counts rows.
std::vector<Answer> answers(const SearchOptions& options, EstimatingForward& forward, bool whole,
                            const std::vector<int32_t>& prefix, int64_t& settled) {
  const std::unique_ptr<Search> search = make(options);
  const std::vector<float> log_prob(prefix.size(), -0.5f);
  RowColumns rows;
  for (int32_t request = 0; request < kRequests; ++request) {
    search->begin({request, prefix, log_prob, 0});
    rows.push(request, request, 1, TokenTree::kRoot, 0, 0.0);
  }
  std::map<int32_t, std::vector<Answer>> done;
  while (rows.size() > 0) {
    search->step(forward, rows.view(), whole);
    settled += search->work().settled;
    for (const Done& one : search->done()) {
      for (const Finished& each : one.answers) {
        Answer answer{{}, each.score};
        std::vector<float> values;
        search->tree().path(each.node, answer.tokens, values);
        done[one.request].push_back(answer);
      }
    }
    rows = search->rows();
  }
  std::vector<Answer> all;
  for (const auto& [request, some] : done) all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::vector<Answer> answers(const SearchOptions& options, EstimatingForward&& forward, bool whole,
                            const std::vector<int32_t>& prefix, int64_t& settled) {
  return answers(options, forward, whole, prefix, settled);
}

bool alike(const std::vector<Answer>& a, const std::vector<Answer>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Answer& one, const Answer& other) {
    return one.tokens == other.tokens && std::fabs(one.score - other.score) <= 1e-3;
  });
}

std::vector<SearchOptions> kinds() {
  std::vector<SearchOptions> all;
  for (const int64_t beam : {1, 2, 5}) {
    for (const double penalty : {0.0, 1.0}) {
      for (const auto stop : {EarlyStopping::kTrue, EarlyStopping::kFalse, EarlyStopping::kNever,
                              EarlyStopping::kProven, EarlyStopping::kExhaustive}) {
        SearchOptions options;
        options.return_scores = true, options.eos = kEos, options.vocab = kVocab, options.max_length = 9;
        options.beam_size = beam, options.num_hypotheses = std::min<int64_t>(beam, 2);
        options.length_penalty = penalty, options.early_stopping = stop;
        all.push_back(options);
      }
    }
  }
  const SearchOptions plain = all.back();
  const auto add = [&](auto change) { all.push_back(plain), change(all.back()); };
  add([](SearchOptions& options) { options.finishing = Finishing::kStay; });
  add([](SearchOptions& options) { options.max_score_margin = 2.0; });
  add([](SearchOptions& options) { options.stop_margin = 1.0; });
  add([](SearchOptions& options) { options.repetition_penalty = 1.2; });
  add([](SearchOptions& options) { options.no_repeat_ngram_size = 2; });
  add([](SearchOptions& options) { options.max_children = 2; });
  add([](SearchOptions& options) { options.min_length = 4; });
  add([](SearchOptions& options) { options.forced_eos = true; });
  add([](SearchOptions& options) { options.prefix_bias_beta = 0.3; });
  for (const auto pruning : {CubePruning::kExact, CubePruning::kApproximate}) {
    add([=](SearchOptions& options) { options.cube_pruning = pruning; });
  }
  return all;
}

TEST(close_calls_are_settled) {
  const std::vector<int32_t> prefix{5, 6};
  int64_t settled = 0, broken = 0, none = 0;
  for (const SearchOptions& options : kinds()) {
    for (const bool forced : {false, true}) {
      const auto& given = forced ? prefix : std::vector<int32_t>{};
      const auto wanted = answers(options, {Off::kNowhere, 1.0f}, false, given, none);
      for (const Off off : {Off::kHigh, Off::kLow, Off::kBoth}) {
        for (const bool whole : {false, true}) {
          CHECK(alike(answers(options, {off, kStated}, whole, given, settled), wanted), "beam", options.beam_size);
        }
      }
      broken += !alike(answers(options, {Off::kBoth, 0.01f}, false, given, none), wanted);
    }
  }
  CHECK(settled > 0 && broken > 10, "broken", broken);
  SearchOptions greedy = kinds().front();
  greedy.return_scores = false, none = 0;
  answers(greedy, {Off::kBoth, kStated}, false, {}, none);
  CHECK(none == 0, "greedy", none);
}

TEST(closer_estimates_settle_close_calls_too) {
  int64_t settled = 0, eighths = 0, exact = 0, without = 0;
  for (const SearchOptions& options : kinds()) {
    for (const std::vector<int32_t>& prefix : {std::vector<int32_t>{}, std::vector<int32_t>{5, 6}}) {
      const auto wanted = answers(options, {Off::kNowhere, 1.0f}, false, prefix, settled);
      for (const Off off : {Off::kHigh, Off::kLow, Off::kBoth}) {
        EstimatingForward two(off, kStated, true), one(off, kStated);
        CHECK(alike(answers(options, two, false, prefix, settled), wanted), "beam", options.beam_size);
        answers(options, one, false, prefix, settled);
        eighths += two.eighths, exact += two.exact, without += one.exact;
      }
    }
  }
  CHECK(eighths > 0 && exact > 0 && exact < without, "exact rows", exact);
}

TEST(cancelled_requests_leave_nothing_open) {
  SearchOptions options = kinds().back();
  options.cube_pruning = CubePruning::kNone;
  BeamSearch search(options);
  EstimatingForward forward(Off::kBoth, kStated);
  for (int32_t round = 0; round < 40; ++round) {
    RowColumns rows;
    for (const int32_t request : {2 * round, 2 * round + 1}) {
      search.begin({request, {}, {}, 0});
      rows.push(request, 0, 1, TokenTree::kRoot, 0, 0.0);
    }
    for (int64_t step = 0; step < 3; ++step) {
      search.step(forward, rows.view(), false);
      rows = search.rows();
    }
    CHECK(search.cancel(2 * round) && search.cancel(2 * round + 1) && !search.busy(), "round", round);
  }
  CHECK(search.places() <= 64, "places", search.places());
}

TEST(what_no_hypothesis_rests_on_is_freed) {
  SearchOptions options = kinds().back();
  options.cube_pruning = CubePruning::kNone;
  options.beam_size = 8, options.num_hypotheses = 1, options.max_length = 300, options.min_length = 299;
  BeamSearch search(options);
  EstimatingForward forward(Off::kBoth, kStated);
  search.begin({0, {}, {}, 0});
  RowColumns rows;
  rows.push(0, 0, 1, TokenTree::kRoot, 0, 0.0);
  for (int64_t step = 0; step < 250; ++step) {
    search.step(forward, rows.view(), false);
    rows = search.rows();
  }
  CHECK(search.places() <= 500, "places", search.places());  // of 2,000 rows
}

}  // namespace

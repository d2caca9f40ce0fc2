// Searches: against paths that are recomputed token by token, on arrays that end at a forbidden page.
#include "search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "search/beam.h"
#include "search/cube.h"
#include "search/expansion.h"
#include "search/native_forward.h"
#include "search/sampling.h"
#include "toy_forward.h"

namespace {

using namespace sharpbeam;

std::unique_ptr<Search> make(const SearchOptions& options) {
  if (options.cube_pruning != CubePruning::kNone) return std::make_unique<CubeSearch>(options);
  return std::make_unique<BeamSearch>(options);
}

// Live rows as Python would hold them, every column with an end that must not be passed.
struct Columns {
  explicit Columns(int64_t rows) : request(rows), state(rows), token(rows), node(rows), length(rows), score(rows) {}

  explicit Columns(const RowColumns& rows) : Columns(rows.size()) {
    for (int64_t row = 0; row < rows.size(); ++row) {
      request[row] = rows.request[row];
      state[row] = rows.state[row];
      token[row] = rows.token[row];
      node[row] = rows.node[row];
      length[row] = rows.length[row];
      score[row] = rows.score[row];
    }
  }

  RowView view() const {
    return {request.size(), request.get(), state.get(), token.get(), node.get(), length.get(), score.get()};
  }

  Guarded<int32_t> request, state, token, node, length;
  Guarded<double> score;
};

// Enters requests 0 to count - 1, `each` rows of each at bos.
std::unique_ptr<Columns> begin(Search& search, int64_t count, int64_t each = 1, std::vector<int32_t> prefix = {}) {
  const std::vector<float> log_prob(prefix.size(), -0.5f);
  auto rows = std::make_unique<Columns>(count * each);
  for (int64_t request = 0; request < count; ++request)
    search.begin({static_cast<int32_t>(request), prefix, log_prob, static_cast<uint64_t>(request)});
  for (int64_t row = 0; row < count * each; ++row) {
    rows->request[row] = rows->state[row] = static_cast<int32_t>(row / each);
    rows->token[row] = 1;
    rows->node[row] = TokenTree::kRoot;
    rows->length[row] = 0;
    rows->score[row] = 0.0;
  }
  return rows;
}

using Path = std::pair<std::vector<int32_t>, std::vector<float>>;

Path path_of(const Search& search, int32_t node) {
  Path path;
  search.tree().path(node, path.first, path.second);
  return path;
}

double sum(const std::vector<float>& values) {
  double total = 0.0;
  for (float each : values) total += static_cast<double>(each);
  return total;
}

// Many steps, in which most requests end: each row is its parent and one more token, each token has the log probability
// that the toy gives it, each answer has the sum of its path, and no request is forgotten.
void test_paths(const SearchOptions& options, uint32_t impossible, std::vector<int32_t> prefix = {}) {
  const std::unique_ptr<Search> search = make(options);
  constexpr int32_t kRequests = 9;
  const bool penalized = options.repetition_penalty > 1.0 || options.prefix_bias_beta > 0.0;  // not the sum of the path
  const bool guessed = options.cube_pruning == CubePruning::kApproximate;
  ToyForward forward;
  forward.impossible = impossible;
  forward.ends = 1.0f;
  std::unique_ptr<Columns> live = begin(*search, kRequests, 1, prefix);
  std::map<int32_t, int32_t> states;  // of the first rows: by request
  size_t finished = 0;
  const auto sound = [&](const Path& path, int32_t request) {
    int32_t state = ToyForward::after(request, 1);
    for (size_t i = 0; i < path.first.size(); ++i) {
      const bool forced = i < prefix.size() && options.prefix_bias_beta == 0.0;
      const float wanted = forced ? -0.5f : forward.value(state, path.first[i]);
      CHECK(guessed || path.second[i] == wanted, "any", static_cast<int64_t>(i));
      CHECK(!forced || path.first[i] == prefix[i], "any", static_cast<int64_t>(i));
      state = ToyForward::after(state, path.first[i]);
    }
  };
  for (int64_t step = 0; step <= options.max_length && live->request.size() > 0; ++step) {
    search->step(forward, live->view(), false);
    const RowColumns& rows = search->rows();
    for (int64_t row = 0; row < rows.size(); ++row) {
      const Path path = path_of(*search, rows.node[row]);
      CHECK(path.first.back() == rows.token[row], "any", step);
      CHECK(static_cast<int64_t>(path.first.size()) == rows.length[row], "any", step);
      CHECK(penalized || sum(path.second) == rows.score[row], "any", step);
      sound(path, rows.request[row]);
    }
    for (const Done& done : search->done()) {
      ++finished;
      CHECK(!done.answers.empty() && done.answers.size() <= 2, "any", step);
      for (const Finished& answer : done.answers) {
        const Path path = path_of(*search, answer.node);
        CHECK(penalized || sum(path.second) == answer.log_prob, "any", step);
        sound(path, done.request);
      }
      for (int32_t request : rows.request) CHECK(request != done.request, "any", step);
    }
    live = std::make_unique<Columns>(rows);
  }
  CHECK(finished == kRequests, "any", options.max_length);
}

// An endless stream: nodes of requests that are done are used again.
void test_capacity() {
  SearchOptions options = options_of(4, 30);
  options.early_stopping = EarlyStopping::kExhaustive;
  BeamSearch search(options);
  ToyForward forward;
  int64_t capacity = 0;
  search.begin({1000, {}});  // always in flight, so that the tree is never cleared
  for (int32_t request = 0; request < 60; ++request) {
    search.begin({request, {}});
    auto live = std::make_unique<Columns>(1);
    live->request[0] = live->state[0] = request;
    live->token[0] = 1;
    live->node[0] = TokenTree::kRoot;
    live->length[0] = 0;
    live->score[0] = 0.0;
    while (live->request.size() > 0) {
      search.step(forward, live->view(), false);
      live = std::make_unique<Columns>(search.rows());
    }
    if (request == 20) capacity = search.tree().capacity();
  }
  CHECK(capacity > 0 && search.tree().capacity() == capacity, "any", capacity);
}

// A search of two requests, step by step or as many steps as there are in one call: the same rows, the same work, the
// same answers. No step allocates once a search has seen as many tokens, but for what is done.
void test_steps(const std::string& what, Search& one, Search& whole, ToyForward& forward, ToyForward& other,
                int64_t each, bool warm) {
  const std::vector<int32_t> prefix = {5, 7, 5};
  auto rows = begin(one, 2, each, prefix), all = begin(whole, 2, each, prefix);
  while (rows->request.size() > 0) {
    SearchWork work;
    whole.step(other, all->view(), true);
    while (work.steps < whole.work().steps) {
      const int64_t made = allocated([&] { one.step(forward, rows->view(), false); });
      CHECK(made == 0 || !warm || !one.done().empty(), what.c_str(), made);
      work.steps += one.work().steps;
      work.expansions += one.work().expansions;
      work.request_steps += one.work().request_steps;
      work.model_rows += one.work().model_rows;
      CHECK(one.done().empty() || work.steps == whole.work().steps, what.c_str(), work.steps);
      rows = std::make_unique<Columns>(one.rows());
    }
    CHECK(work.expansions == whole.work().expansions && work.request_steps == whole.work().request_steps, what.c_str(),
          work.steps);
    CHECK(work.model_rows == whole.work().model_rows, what.c_str(), work.steps);
    CHECK(one.rows().state == whole.rows().state && one.rows().score == whole.rows().score, what.c_str(), work.steps);
    CHECK(one.rows().node == whole.rows().node && one.done().size() == whole.done().size(), what.c_str(), work.steps);
    all = std::make_unique<Columns>(whole.rows());
  }
  CHECK(other.retained > 0, what.c_str(), each);
}

template <typename Kind>
void test_steps_of(const std::string& what, const SearchOptions& options, int64_t each, float ends) {
  Kind one(options), whole(options);
  ToyForward forward, other;
  forward.ends = other.ends = ends;
  for (const bool warm : {false, true}) test_steps(what, one, whole, forward, other, each, warm);
}

void test_all_steps() {
  SearchOptions plain = options_of(4, 60);
  plain.early_stopping = EarlyStopping::kExhaustive;
  test_steps_of<BeamSearch>("to the end", plain, 1, -9.0f);
  test_steps_of<BeamSearch>("some end on the way", plain, 1, 0.0f);
  SearchOptions stays = plain;
  stays.finishing = Finishing::kStay;
  stays.max_score_margin = 20.0;
  test_steps_of<BeamSearch>("finished hypotheses stay", stays, 1, 0.0f);
  SearchOptions rules = plain;
  rules.repetition_penalty = 1.3;
  rules.no_repeat_ngram_size = 2;
  rules.min_length = 9;
  test_steps_of<BeamSearch>("rules against repetition", rules, 1, -4.0f);
  SearchOptions bias = plain;
  bias.prefix_bias_beta = 0.9;
  test_steps_of<BeamSearch>("bias towards a prefix", bias, 1, -9.0f);
  for (const MergeBy merge_by : {MergeBy::kWord, MergeBy::kLikeness, MergeBy::kBoth})
    for (const CubePruning kind : {CubePruning::kExact, CubePruning::kApproximate}) {
      SearchOptions cube = plain;
      cube.cube_pruning = kind;
      cube.merge_by = merge_by;
      test_steps_of<CubeSearch>("cube pruning", cube, 1, -9.0f);
    }
  SearchOptions sampling = plain;
  sampling.num_hypotheses = 6;
  sampling.top_p = 0.9;
  sampling.repetition_penalty = 1.2;
  test_steps_of<SamplingSearch>("sampling", sampling, 6, -9.0f);
}

void test_expansion() {
  SearchOptions options = options_of(5, 20);
  options.num_hypotheses = 4;
  Expansion search(options);
  ToyForward forward;
  forward.ends = 9.0f;  // eos would be the likeliest
  auto rows = begin(search, 3, 1, {5, 7});
  for (int64_t step = 0; step < 2; ++step) {
    search.step(forward, rows->view(), false);
    CHECK(search.done().empty() && search.rows().size() == 3, "any", step);
    rows = std::make_unique<Columns>(search.rows());
  }
  search.step(forward, rows->view(), false);
  CHECK(search.done().size() == 3 && search.rows().size() == 0, "any", 3);
  for (const Done& done : search.done()) {
    CHECK(done.answers.size() == 4, "any", done.request);
    double before = 0.0;
    for (const Finished& answer : done.answers) {
      const Path path = path_of(search, answer.node);
      CHECK(path.first.size() == 3 && path.first[0] == 5 && path.first[1] == 7 && path.first[2] != kEos, "any", 3);
      CHECK(answer.score <= before || before == 0.0, "any", done.request);
      before = answer.score;
    }
  }
}

// The numbers of numpy.random.Generator(numpy.random.Philox(key=[11, 22], counter=[0, 0, 0, 3])).random().
void test_philox() {
  Philox random({11, 22}, {0, 0, 0, 3});
  for (const double wanted : {0x1.0c04e7f314fc7p-1, 0x1.802b6d162de32p-1, 0x1.2ff0829422ad1p-1, 0x1.64f7b6569696bp-1,
                              0x1.3744cd9f12a4cp-2, 0x1.54a09991d488cp-1})
    CHECK(random.next() == wanted, "any", 0);
}

void test_cancel() {
  BeamSearch search(options_of(3, 9)), other(options_of(3, 9));
  ToyForward forward;
  auto rows = begin(search, 3), alone = begin(other, 2);
  search.step(forward, rows->view(), false);
  other.step(forward, alone->view(), false);
  CHECK(search.cancel(2) && !search.cancel(2) && !search.cancel(9), "any", 2);
  Columns left(other.rows());
  const int64_t kept = std::count_if(search.rows().request.begin(), search.rows().request.end(),
                                     [](int32_t request) { return request != 2; });
  CHECK(kept == left.request.size(), "any", kept);
  for (int64_t row = 0; row < kept; ++row) left.node[row] = search.rows().node[row];
  search.step(forward, left.view(), false);
  Columns again(other.rows());
  other.step(forward, again.view(), false);
  CHECK(search.rows().token == other.rows().token && search.rows().score == other.rows().score, "any", kept);
}

template <typename Error>
bool refused(Search& search, ToyForward& forward, const Columns& rows, const std::string& message) {
  try {
    search.step(forward, rows.view(), false);
  } catch (const Error& error) {
    return std::string(error.what()).find(message) != std::string::npos;
  }
  return false;
}

void test_mistakes() {
  BeamSearch search(options_of(4, 9));
  ToyForward forward;
  const auto rows = begin(search, 3);
  const auto misused = [&](const std::string& message) {
    return refused<std::invalid_argument>(search, forward, *rows, message);
  };
  rows->request[2] = 0;
  CHECK(misused("rows of request 0 are not side by side"), "any", 0);
  rows->request[2] = 7;
  CHECK(misused("request 7 is not in flight"), "any", 0);
  rows->request[2] = 2;
  for (const int32_t node : {-2, 0, 5000}) {
    rows->node[1] = node;
    CHECK(misused("node " + std::to_string(node) + " is not one of"), "any", node);
  }
  rows->node[1] = TokenTree::kRoot;
  for (const int32_t length : {-1, 9}) {
    rows->length[1] = length;
    CHECK(misused("length is " + std::to_string(length)), "any", length);
  }
  rows->length[1] = 0;
  forward.sound = 1;
  CHECK(refused<BrokenModel>(search, forward, *rows, "request 0: after 0 tokens"), "any", 0);
  search.step(forward, rows->view(), false);
  CHECK(search.rows().size() == 12, "any", 0);
}

}  // namespace

TEST(search) {
  const double none = std::numeric_limits<double>::infinity();
  using enum EarlyStopping;
  for (const EarlyStopping rule : {kTrue, kFalse, kNever, kProven, kExhaustive})
    for (const bool stays : {false, true})
      for (const double margin : {none, 1.0})
        for (const uint32_t impossible : {0u, 30u, 90u}) {
          SearchOptions options = options_of(4, 12);
          options.early_stopping = rule;
          if (stays) options.finishing = Finishing::kStay;
          options.max_score_margin = margin;
          test_paths(options, impossible);
          options.repetition_penalty = 1.5;
          options.min_length = 3;
          test_paths(options, impossible, {5, 9});
          options.repetition_penalty = 1.0;
          options.no_repeat_ngram_size = 2;
          options.max_children = 3;
          test_paths(options, impossible);
        }
  for (const MergeBy merge_by : {MergeBy::kWord, MergeBy::kLikeness, MergeBy::kBoth})
    for (const CubePruning kind : {CubePruning::kExact, CubePruning::kApproximate}) {
      SearchOptions options = options_of(5, 12);
      options.cube_pruning = kind;
      options.merge_by = merge_by;
      test_paths(options, 20, {5, 9});
    }
  SearchOptions bias = options_of(5, 12);
  bias.prefix_bias_beta = 0.7;
  test_paths(bias, 20, {5, 9, 5});
  test_capacity();
  test_all_steps();
  test_expansion();
  test_philox();
  test_cancel();
  test_mistakes();
}

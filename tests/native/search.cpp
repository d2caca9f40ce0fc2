// The bookkeeping of beam search: against paths that are kept beside it, on arrays that end at a forbidden page.
#include "search/beam.h"

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
#include "search/step.h"

namespace {

using namespace sharpbeam;

constexpr int32_t kEos = 2;
constexpr int64_t kBeam = 4, kKeep = 8, kTop = 8;

Beam make(int64_t max_length, double margin, bool stays, Stop rule) {
  std::vector<double> weight(static_cast<size_t>(max_length) + 1), widest(static_cast<size_t>(max_length));
  for (size_t length = 0; length < weight.size(); ++length) weight[length] = static_cast<double>(length ? length : 1);
  for (double& each : widest) each = weight.back();
  const double no_margin = std::numeric_limits<double>::infinity();
  return Beam({kBeam, kKeep, max_length, margin, 0.0, kEos, stays},
              {rule, 2, kBeam, kBeam, rule == Stop::kExhaustive ? kBeam + 1 : 2, no_margin, stays, 0, weight, widest});
}

// Live rows as Python would hold them, every column with an end that must not be passed.
struct Columns {
  explicit Columns(int64_t rows)
      : request(rows), state(rows), node(rows), length(rows), token(rows * kTop), score(rows), log_prob(rows * kTop) {}

  BeamRows rows() const {
    return {{request.size(), kTop, request.get(), length.get(), score.get(), token.get(), log_prob.get()},
            state.get(),
            node.get(),
            log_prob.get()};
  }

  Guarded<int32_t> request, state, node, length, token;
  Guarded<double> score;
  Guarded<float> log_prob;
};

// Rows at bos of `count` requests.
void start(Columns& rows) {
  for (int64_t row = 0; row < rows.request.size(); ++row) {
    rows.request[row] = static_cast<int32_t>(row);
    rows.state[row] = static_cast<int32_t>(row);
    rows.node[row] = TokenTree::kRoot;
    rows.length[row] = 0;
    rows.score[row] = 0.0;
  }
}

void continue_from(const GrownRows& grown, Columns& rows) {
  for (size_t row = 0; row < grown.request.size(); ++row) {
    rows.request[row] = grown.request[row];
    rows.state[row] = grown.state[row];
    rows.node[row] = grown.node[row];
    rows.length[row] = grown.length[row];
    rows.score[row] = grown.score[row];
  }
}

// Candidates best first, some of them equal, some impossible.
void candidates(Columns& rows, double impossible) {
  for (int64_t row = 0; row < rows.request.size(); ++row) {
    float value = 0.0f;
    for (int64_t j = 0; j < kTop; ++j) {
      value -= static_cast<float>(draw_size(0, 2)) * 0.25f;
      const bool none = static_cast<double>(draw_size(0, 99)) < 100 * impossible;
      rows.log_prob[row * kTop + j] = none ? -std::numeric_limits<float>::infinity() : value;
      rows.token[row * kTop + j] = static_cast<int32_t>(j == 1 && draw_size(0, 3) == 0 ? kEos : 3 + j);
    }
  }
}

using Path = std::pair<std::vector<int32_t>, std::vector<float>>;

Path path_of(const Beam& beam, int32_t node) {
  Path path;
  beam.tree().path(node, path.first, path.second);
  return path;
}

double sum(const std::vector<float>& values) {
  double total = 0.0;
  for (float each : values) total += static_cast<double>(each);
  return total;
}

// Many steps, most requests of which end: each row is its parent and one of its parent's candidates, each answer has
// the sum of its path, and no request is forgotten.
void test_paths(int64_t max_length, double margin, bool stays, Stop rule, double impossible) {
  Beam beam = make(max_length, margin, stays, rule);
  constexpr int32_t kRequests = 9;
  auto live = std::make_unique<Columns>(kRequests);
  start(*live);
  beam.begin(live->request.get(), kRequests);
  size_t finished = 0;
  for (int64_t turn = 0; turn <= max_length && live->request.size() > 0; ++turn) {
    candidates(*live, impossible);
    std::map<std::pair<int32_t, int32_t>, Path> before;  // by request and state, which names the row here
    for (int64_t row = 0; row < live->request.size(); ++row) {
      live->state[row] = static_cast<int32_t>(row);
      before[{live->request[row], live->state[row]}] = path_of(beam, live->node[row]);
    }
    beam.advance(live->rows());
    const GrownRows& grown = beam.grown();
    for (size_t row = 0; row < grown.request.size(); ++row) {
      Path path = path_of(beam, grown.node[row]);
      CHECK(path.first.back() == grown.token[row], "any", turn);
      CHECK(static_cast<int64_t>(path.first.size()) == grown.length[row], "any", turn);
      CHECK(sum(path.second) == grown.score[row], "any", turn);
      path.first.pop_back();
      path.second.pop_back();
      CHECK((path == before[{grown.request[row], grown.state[row]}]), "any", turn);
    }
    for (const Done& done : beam.done()) {
      ++finished;
      CHECK(!done.answers.empty() && done.answers.size() <= 2, "any", turn);
      for (const Finished& answer : done.answers) {
        const Path path = path_of(beam, answer.node);
        CHECK(sum(path.second) == answer.log_prob, "any", turn);
      }
      for (int32_t request : grown.request) CHECK(request != done.request, "any", turn);
    }
    auto next = std::make_unique<Columns>(static_cast<int64_t>(grown.request.size()));
    continue_from(grown, *next);
    beam.tidy();
    live = std::move(next);
  }
  CHECK(finished == kRequests, "any", max_length);
}

// An endless stream: nodes of requests that are done are given away again.
void test_room() {
  Beam beam = make(30, std::numeric_limits<double>::infinity(), false, Stop::kExhaustive);
  int64_t room = 0;
  const int32_t resident = 1000;  // one request is always in flight, so that the tree is never cleared
  beam.begin(&resident, 1);
  for (int32_t request = 0; request < 60; ++request) {
    auto live = std::make_unique<Columns>(1);
    start(*live);
    live->request[0] = request;
    beam.begin(&request, 1);
    while (live->request.size() > 0) {
      candidates(*live, 0.0);
      beam.advance(live->rows());
      auto next = std::make_unique<Columns>(static_cast<int64_t>(beam.grown().request.size()));
      continue_from(beam.grown(), *next);
      beam.tidy();
      live = std::move(next);
    }
    if (request == 20) room = beam.tree().room();
  }
  CHECK(room > 0 && beam.tree().room() == room, "any", room);
}

void test_no_allocation_in_a_warm_step() {
  Beam beam = make(1000, 2.0, true, Stop::kExhaustive);
  Columns rows(2 * kBeam);
  const int32_t requests[] = {0, 1};
  beam.begin(requests, 2);
  Columns first(2);
  start(first);
  candidates(first, 0.0);
  beam.advance(first.rows());
  for (int64_t turn = 0; turn < 60; ++turn) {
    if (static_cast<int64_t>(beam.grown().request.size()) != rows.request.size()) break;
    continue_from(beam.grown(), rows);
    for (int64_t i = 0; i < rows.token.size(); ++i) {
      rows.token[i] = static_cast<int32_t>(3 + i % kTop);
      rows.log_prob[i] = -0.01f * static_cast<float>(1 + i % kTop);
    }
    const int64_t made = allocated([&] { beam.advance(rows.rows()); });
    CHECK(made == 0 || turn < 2, "any", turn);
  }
}

// Hidden vectors of one number, made of the token and of the state, which is made of all tokens before.
struct ToyModel : ModelRun {
  int64_t dim() const override { return 1; }
  const Kernels& table() const override { return kernels(); }
  void step(const int32_t*, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles) override {
    for (int64_t row = 0; row < rows; ++row) {
      handles[row] = (31 * state[row] + token[row]) % 1009;
      hidden[row] = static_cast<float>(handles[row]);
    }
  }
  void retain(const int32_t*, int64_t count) override { retained = count; }
  int64_t retained = 0;
};

struct ToyLayer : LayerRun {
  int64_t dim() const override { return 1; }
  int64_t vocab() const override { return 1009; }
  void enter(const LayerRequest&) override {}
  void leave(const int32_t*, int64_t) override {}
  void find_log_prob(const LayerRows&, const int32_t*, float*) override {}
  void find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) override {
    for (int64_t row = 0; row < rows.rows; ++row)
      for (int64_t j = 0; j < k; ++j) {
        log_prob[row * k + j] = -0.01f * static_cast<float>(1 + j) - 0.001f * std::fmod(rows.hidden[row], 7.0f);
        token[row * k + j] = static_cast<int32_t>(j == ends ? kEos : 3 + j);
      }
    if (--sound == 0) log_prob[0] = std::numeric_limits<float>::quiet_NaN();
  }
  int64_t ends = -1;   // the candidate that is eos
  int64_t sound = -1;  // calls until one gives what is no number
};

LiveRows live(const Columns& rows) {
  return {rows.request.size(), rows.request.get(), rows.state.get(), rows.token.get(),
          rows.node.get(),     rows.length.get(),  rows.score.get()};
}

// Turn by turn, or as many as there are in one call: the same rows and the same work, and no warm turn allocates.
void test_turns(int64_t max_length, int64_t ends, int64_t sound) {
  const double none = std::numeric_limits<double>::infinity();
  Beam one = make(max_length, none, false, Stop::kExhaustive), all = make(max_length, none, false, Stop::kExhaustive);
  ToyModel model;
  ToyLayer layer, same;
  layer.ends = same.ends = ends;
  layer.sound = same.sound = sound;
  NativeSteps turns, whole;
  auto rows = std::make_unique<Columns>(2);
  start(*rows);
  rows->token[0] = rows->token[1] = 1;
  one.begin(rows->request.get(), 2);
  all.begin(rows->request.get(), 2);
  const bool first = whole.run(model, same, kTop, true, live(*rows), all);
  CHECK(first == (sound != 1), "any", sound);
  StepWork work{};
  for (int64_t turn = 0; first && turn < whole.work().steps; ++turn) {
    bool went = false;
    const int64_t made = allocated([&] { went = turns.run(model, layer, kTop, false, live(*rows), one); });
    CHECK(went && (made == 0 || turn < 3 || !one.done().empty()), "any", turn);
    CHECK(one.done().empty() || turn + 1 == whole.work().steps, "any", turn);
    work.steps += turns.work().steps;
    work.rows += turns.work().rows;
    work.requests += turns.work().requests;
    rows = std::make_unique<Columns>(static_cast<int64_t>(one.grown().request.size()));
    continue_from(one.grown(), *rows);
    for (size_t row = 0; row < one.grown().token.size(); ++row) rows->token[row] = one.grown().token[row];
  }
  if (!first) return;
  CHECK(whole.work().steps == (sound > 1 ? sound - 1 : max_length), "any", whole.work().steps);
  CHECK(model.retained > 0, "any", model.retained);
  CHECK(work.rows == whole.work().rows && work.requests == whole.work().requests, "any", work.rows);
  CHECK(one.grown().state == all.grown().state && one.grown().score == all.grown().score, "any", work.steps);
  CHECK(one.grown().node == all.grown().node && one.done().size() == all.done().size(), "any", work.steps);
}

bool refused(Beam& beam, const Columns& rows, const std::string& message) {
  try {
    beam.advance(rows.rows());
  } catch (const std::invalid_argument& error) {
    return std::string(error.what()).find(message) != std::string::npos;
  }
  return false;
}

void test_mistakes() {
  Beam beam = make(9, 2.0, false, Stop::kTrue);
  Columns rows(3);
  start(rows);
  beam.begin(rows.request.get(), 3);
  candidates(rows, 0.0);
  rows.request[2] = 0;
  CHECK(refused(beam, rows, "rows of request 0 are not side by side"), "any", 0);
  rows.request[2] = 7;
  CHECK(refused(beam, rows, "request 7 is not in flight"), "any", 0);
  rows.request[2] = 2;
  for (const int32_t node : {-2, 0, 5000}) {
    rows.node[1] = node;
    CHECK(refused(beam, rows, "node " + std::to_string(node) + " is not one of"), "any", node);
  }
  rows.node[1] = TokenTree::kRoot;
  for (const int32_t length : {-1, 9}) {
    rows.length[1] = length;
    CHECK(refused(beam, rows, "length is " + std::to_string(length)), "any", length);
  }
  rows.length[1] = 0;
  beam.advance(rows.rows());
  CHECK(beam.requests() == 3, "any", 0);
}

}  // namespace

TEST(search) {
  const double none = std::numeric_limits<double>::infinity();
  for (const Stop rule : {Stop::kTrue, Stop::kFalse, Stop::kNever, Stop::kProven, Stop::kExhaustive})
    for (const bool stays : {false, true})
      for (const double margin : {none, 1.0})
        for (const double impossible : {0.0, 0.3, 0.9}) test_paths(12, margin, stays, rule, impossible);
  test_room();
  test_no_allocation_in_a_warm_step();
  test_turns(15, -1, -1);  // to the end
  test_turns(15, 2, -1);   // with hypotheses that end on the way
  test_turns(15, -1, 1);   // the first turn, or a later one, meets what is no number
  test_turns(15, -1, 7);
  test_mistakes();
}

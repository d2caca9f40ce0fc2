// The native tests that all models share: random weights; admit, step, retain and evict in random order, each row
// compared with a fresh run of its own; mistakes are thrown before anything changes; a warm step allocates nothing.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "core/team.h"
#include "kernels/table.h"
#include "models/common/sources.h"
#include "models/common/weights.h"

namespace sharpbeam::tests {

// Whether `call` throws std::invalid_argument with `message` in its text.
template <typename Call>
bool refused(Call call, const std::string& message) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return std::string(error.what()).find(message) != std::string::npos;
  }
  return false;
}

class RandomTensors {
 public:
  void add(const std::string& name, std::vector<int64_t> shape) {
    int64_t size = 1;
    for (int64_t n : shape) size *= n;
    std::shared_ptr<float[]> data(new float[size]);
    for (int64_t i = 0; i < size; ++i) data[i] = draw();
    tensors[name] = {Array(data, data.get()), std::move(shape)};
  }
  void linear(const std::string& name, int64_t in, int64_t out) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }
  void cell(const std::string& name, int64_t in, int64_t dim, int64_t gates) {
    add(name + ".input_weight", {gates * dim, in});
    add(name + ".input_bias", {gates * dim});
    add(name + ".hidden_weight", {gates * dim, dim});
    add(name + ".hidden_bias", {gates * dim});
  }

  std::map<std::string, Tensor> tensors;
};

using Ids = std::vector<int32_t>;

inline bool equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same(a.data(), b.data(), static_cast<int64_t>(a.size()));
}

inline int32_t below(int64_t n) { return static_cast<int32_t>(draw_size(0, n - 1)); }

// The tests of one model with vocabularies of these sizes.
template <typename Model, typename Decoding>
class ModelTests {
 public:
  using Shared = std::shared_ptr<const Model>;

  ModelTests(Shared model, int64_t source_vocab, int64_t target_vocab)
      : model_(std::move(model)), source_vocab_(source_vocab), target_vocab_(target_vocab) {}

  void run() const {
    for (int repeat = 0; repeat < 5; ++repeat) random_order();
    mistakes();
    no_allocation_in_a_warm_step();
    Team team(3, 1);
    team.enter();
    random_order();
    no_allocation_in_a_warm_step(3);
    team.leave();
    if constexpr (requires(Decoding& run) { run.longest(nullptr, 0); }) attention();
  }

 private:
  // Exact sizes on the heap, so that the sanitizer sees a write past the end.
  struct Step {
    Step(Decoding& run, const Ids& request, const Ids& state, const Ids& token)
        : width(run.model().config().hidden_dim), hidden(request.size() * width), handles(request.size()) {
      run.step(request.data(), state.data(), token.data(), static_cast<int64_t>(request.size()), hidden.data(),
               handles.data());
    }
    std::vector<float> row(size_t i) const { return {hidden.begin() + i * width, hidden.begin() + (i + 1) * width}; }

    int64_t width;
    std::vector<float> hidden;
    Ids handles;
  };

  static Ids admit(Decoding& run, const Ids& request, const std::vector<Ids>& sources) {
    Ids token, length, handles(request.size());
    for (const Ids& source : sources) {
      token.insert(token.end(), source.begin(), source.end());
      length.push_back(static_cast<int32_t>(source.size()));
    }
    run.admit(request.data(),
              {token.data(), length.data(), static_cast<int64_t>(request.size()), static_cast<int64_t>(token.size())},
              handles.data());
    return handles;
  }

  struct Row {
    int32_t request, handle;
    Ids prefix;
  };

  std::vector<float> fresh(const Ids& source, const Ids& prefix) const {
    Decoding run(model_);
    Ids state = admit(run, {0}, {source});
    std::vector<float> hidden;
    for (int32_t token : prefix) {
      const Step step(run, {0}, state, {token});
      hidden = step.row(0);
      state = step.handles;
    }
    return hidden;
  }

  void random_order() const {
    Decoding run(model_);
    std::map<int32_t, Ids> sources;
    std::vector<Row> rows;
    for (int32_t round = 0; round < 60; ++round) {
      if (const int32_t kind = below(4); kind == 0) {
        Ids request;
        std::vector<Ids> fresh_sources;
        for (int32_t i = below(4); i-- > 0;) {
          Ids source(1 + below(9));
          for (int32_t& token : source) token = below(source_vocab_);
          request.push_back(round * 4 + i);
          fresh_sources.push_back(sources[request.back()] = source);
        }
        const Ids handles = admit(run, request, fresh_sources);
        for (size_t i = 0; i < request.size(); ++i) rows.push_back({request[i], handles[i], {}});
      } else if (kind == 1) {
        std::vector<Row> kept;
        Ids state;
        for (const Row& row : rows)
          if (below(10) < 7 && row.prefix.size() < 6) kept.push_back(row);
        for (const Row& row : kept) state.push_back(row.handle);
        run.retain(state.data(), static_cast<int64_t>(state.size()));
        rows = kept;
      } else if (kind == 2 && !rows.empty()) {
        const int32_t gone = rows[below(rows.size())].request;
        run.evict(&gone, 1);
        std::erase_if(rows, [&](const Row& row) { return row.request == gone; });
      } else if (!rows.empty()) {
        Ids request, state, token;
        std::vector<Row> parents;
        for (int32_t i = below(9); i-- > 0;) {
          parents.push_back(rows[below(rows.size())]);
          request.push_back(parents.back().request);
          state.push_back(parents.back().handle);
          token.push_back(below(target_vocab_));
        }
        const Step step(run, request, state, token);
        for (size_t i = 0; i < parents.size(); ++i) {
          Row row{request[i], step.handles[i], parents[i].prefix};
          row.prefix.push_back(token[i]);
          CHECK(equal(step.row(i), fresh(sources[row.request], row.prefix)), model_->table().name, round);
          rows.push_back(row);
        }
      }
    }
  }

  // The attention of rows together has the bits of each alone; it is a distribution over the row's source; and the new
  // states are those of a step.
  void attention() const {
    const char* table = model_->table().name;
    Decoding run(model_);
    const std::vector<Ids> sources{{1, 2, 3, 4, 5, 6, 7}, {4}, {5, 6, 7}};
    const Ids start = admit(run, {0, 1, 2}, sources);
    const Ids request{0, 0, 1, 2}, state{start[0], start[0], start[1], start[2]}, token{1, 2, 3, 4};
    const int64_t width = run.longest(request.data(), 4);
    CHECK(width == 7, table, width);
    Guarded<float> weights(4 * width);
    Ids after(4);
    run.attend(request.data(), state.data(), token.data(), 4, weights.get(), width, after.data());
    for (int64_t row = 0; row < 4; ++row) {
      const auto size = static_cast<int64_t>(sources[static_cast<size_t>(request[row])].size());
      Guarded<float> alone(size);
      Ids handle(1);
      run.attend(&request[row], &state[row], &token[row], 1, alone.get(), size, handle.data());
      CHECK(same(alone.get(), weights.get() + row * width, size), table, row);
      double sum = 0.0;
      for (int64_t i = 0; i < width; ++i) {
        sum += weights[row * width + i];
        CHECK(weights[row * width + i] >= 0.0f && (i < size || weights[row * width + i] == 0.0f), table, i);
      }
      CHECK(sum > 1.0 - 1e-5 && sum < 1.0 + 1e-5, table, row);
      const Step next(run, {request[row]}, {after[row]}, {3});
      CHECK(equal(next.row(0), fresh(sources[static_cast<size_t>(request[row])], {token[row], 3})), table, row);
    }
    const auto wrong = [&] {
      run.attend(request.data(), state.data(), token.data(), 4, weights.get(), width - 1, after.data());
    };
    CHECK(refused(wrong, "width is 6"), table, 0);
    run.retain(state.data(), 4);
    for (int round = 0; round < 6; ++round) {
      const int64_t made = allocated([&] {
        run.attend(request.data(), state.data(), token.data(), 4, weights.get(), width, after.data());
        run.retain(state.data(), 4);
      });
      CHECK(round < 4 || made == 0, table, round);
    }
  }

  void mistakes() const {
    const char* table = model_->table().name;
    Decoding run(model_);
    const Ids state = admit(run, {0, 1}, {{1, 2, 3}, {4}});
    const int32_t stranger = 9;
    CHECK(refused([&] { Step(run, {9}, state, {1}); }, "request is 9"), table, 0);
    CHECK(refused([&] { Step(run, {0}, {99}, {1}); }, "state 0 is 99"), table, 0);
    CHECK(refused([&] { Step(run, {0}, {-1}, {1}); }, "state 0 is -1"), table, 0);
    CHECK(refused([&] { Step(run, {0, 1}, state, {1, 1000}); }, "token 1 is 1000"), table, 0);
    CHECK(refused([&] { admit(run, {1}, {{1}}); }, "admitted already"), table, 0);
    CHECK(refused([&] { admit(run, {2}, {{}}); }, "0 tokens"), table, 0);
    CHECK(refused([&] { admit(run, {2}, {{1, -1}}); }, "source token 1 is -1"), table, 0);
    CHECK(refused([&] { run.retain(&stranger, 1); }, "state 0 is 9"), table, 0);
    CHECK(refused([&] { run.evict(&stranger, 1); }, "request is 9"), table, 0);
    CHECK(equal(Step(run, {0}, {state[0]}, {5}).row(0), fresh({1, 2, 3}, {5})), table, 0);
  }

  // How much 20 steps of two requests allocate, whose beams narrow and widen again, as `step` takes them, in a run that
  // has had two such requests before.
  template <typename Take>
  int64_t allocated_when_warm(Take step) const {
    Decoding run(model_);
    const Ids both{0, 1};
    allocated_by(run, admit(run, both, {{1, 2, 3, 4, 5}, {6}}), step);
    run.retain(nullptr, 0);
    run.evict(both.data(), 2);
    return allocated_by(run, admit(run, both, {{1, 2, 3, 4, 5}, {6}}), step);
  }

  template <typename Take>
  int64_t allocated_by(Decoding& run, const Ids& start, Take step) const {
    const Ids request{0, 0, 1, 1}, token{1, 2, 3, 4};
    Ids state{start[0], start[0], start[1], start[1]}, handles(4);
    std::vector<float> hidden(4 * model_->config().hidden_dim);
    int64_t made = 0;
    for (int round = 0; round < 20; ++round) {
      const int64_t rows = round % 5 == 4 ? 3 : 4;
      made += allocated([&] {
        step(run, request.data(), state.data(), token.data(), rows, hidden.data(), handles.data());
        run.retain(handles.data(), rows);
      });
      if (rows < 4) handles[3] = handles[2];
      state.swap(handles);
    }
    return made;
  }

  // In a team helpers may begin in the midst of a measured step, and what a thread allocates for itself is counted too:
  // so one of a few `trials` must be without.
  void no_allocation_in_a_warm_step(int trials = 1) const {
    const auto step = [](Decoding& run, auto... given) { run.step(given...); };
    const auto careless = [](Decoding& run, const int32_t* request, auto... given) {
      const Ids copy(request, request + 3);  // what a step must not do
      run.step(request, given...);
    };
    int64_t least = allocated_when_warm(step);
    for (int trial = 1; trial < trials && least > 0; ++trial) least = std::min(least, allocated_when_warm(step));
    CHECK(least == 0, model_->table().name, 0);
    CHECK(allocated_when_warm(careless) > 0 || !kCountsAllocations, model_->table().name, 0);
  }

  Shared model_;
  int64_t source_vocab_, target_vocab_;
};

// Every tensor of the wrong shape, and every missing one, is refused by name.
template <typename Build>
void wrong_weights(const std::map<std::string, Tensor>& tensors, Build build) {
  const char* table = kernels().name;
  for (const auto& [name, tensor] : tensors) {
    std::map<std::string, Tensor> broken = tensors;
    broken[name].shape[0] -= 1;
    CHECK(refused([&] { build(Weights(broken)); }, "'" + name + "' has shape"), table, 0);
    broken.erase(name);
    CHECK(refused([&] { build(Weights(broken)); }, "'" + name + "' is missing"), table, 0);
  }
}

}  // namespace sharpbeam::tests

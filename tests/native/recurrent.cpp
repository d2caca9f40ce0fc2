// The recurrent model: random weights, admit, step, retain and evict in random order, every row against a fresh run of
// its own; mistakes are thrown before anything changes; a warm step allocates nothing.
#include "models/recurrent.h"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

// The address sanitizer tells of every allocation; without it nothing is counted, and that check says nothing.
// (Declared here because g++ ships the function, but not always the header sanitizer/allocator_interface.h.)
#ifdef __SANITIZE_ADDRESS__
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));
#endif

namespace {

using namespace quickbeam;

int64_t allocations = 0;

void count_allocations() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { ++allocations; },
                                            [](const volatile void*) {});
#endif
}

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

RecurrentConfig cube() {
  RecurrentConfig c;
  c.source_vocab_size = 11;
  c.target_vocab_size = 13;
  c.embedding_dim = 6;
  c.encoder_layers = 2;
  c.encoder_dim = 5;
  c.decoder_dim = 9;
  c.attention_dim = 17;
  c.hidden_dim = 7;
  return c;
}

RecurrentConfig sharp() {
  RecurrentConfig c = cube();
  c.target_vocab_size = c.source_vocab_size;
  c.shared_embedding = true;
  c.decoder_cell = DecoderCell::attentional;
  c.attention = AttentionKind::tanh_dot;
  c.fc_layers = 5;
  c.fc_dim = 65;
  c.top = Top::gru;
  c.top_dim = 8;
  c.readout = Readout::none;
  c.hidden_dim = 8;
  return c;
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
  void gru(const std::string& name, int64_t in, int64_t dim) {
    add(name + ".input_weight", {3 * dim, in});
    add(name + ".input_bias", {3 * dim});
    add(name + ".hidden_weight", {3 * dim, dim});
    add(name + ".hidden_bias", {3 * dim});
  }

  std::map<std::string, Tensor> tensors;
};

// The names and shapes of src/quickbeam/models/recurrent/tensors.py.
std::map<std::string, Tensor> random_tensors(const RecurrentConfig& c) {
  RandomTensors all;
  all.add("target_embedding", {c.target_vocab_size, c.embedding_dim});
  if (!c.shared_embedding) all.add("source_embedding", {c.source_vocab_size, c.embedding_dim});
  for (int64_t i = 0; i < c.encoder_layers; ++i)
    for (const char* direction : {"forwards", "backwards"})
      all.gru("encoder." + std::to_string(i) + "." + direction, i ? c.memory_dim() : c.embedding_dim, c.encoder_dim);
  all.linear("decoder.bridge", c.memory_dim(), c.decoder_dim);
  const bool attentional = c.decoder_cell == DecoderCell::attentional;
  all.gru("decoder.first", c.embedding_dim + (attentional ? c.memory_dim() : 0), c.decoder_dim);
  if (!attentional) all.gru("decoder.second", c.memory_dim(), c.decoder_dim);
  all.add("decoder.attention.query_weight", {c.attention_dim, c.decoder_dim + (attentional ? c.embedding_dim : 0)});
  all.add("decoder.attention.key_weight", {c.attention_dim, c.memory_dim()});
  all.add("decoder.attention.key_bias", {c.attention_dim});
  if (c.attention == AttentionKind::mlp) all.add("decoder.attention.score_weight", {c.attention_dim});
  int64_t below = c.decoder_dim;
  for (int64_t i = 0; i < c.fc_layers; ++i, below = c.fc_dim)
    all.linear("decoder.fc." + std::to_string(i), below, c.fc_dim);
  if (c.top == Top::tanh) all.linear("decoder.top", below, c.top_dim);
  if (c.top == Top::gru) all.gru("decoder.top_gru", below, c.top_dim);
  if (c.readout != Readout::none)
    all.linear("decoder.readout", c.stack_dim() + c.memory_dim() + c.embedding_dim, c.hidden_dim);
  return all.tensors;
}

using Words = std::vector<int32_t>;

// Exact sizes on the heap, so that the sanitizer sees a write past the end.
struct Step {
  Step(RecurrentDecoding& run, const Words& request, const Words& state, const Words& token)
      : width(run.model().config().hidden_dim), hidden(request.size() * width), handles(request.size()) {
    run.step(request.data(), state.data(), token.data(), static_cast<int64_t>(request.size()), hidden.data(),
             handles.data());
  }
  std::vector<float> row(size_t i) const { return {hidden.begin() + i * width, hidden.begin() + (i + 1) * width}; }

  int64_t width;
  std::vector<float> hidden;
  Words handles;
};

Words admit(RecurrentDecoding& run, const Words& request, const std::vector<Words>& sources) {
  Words token, length, handles(request.size());
  for (const Words& source : sources) {
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
  Words prefix;
};

std::vector<float> fresh(const std::shared_ptr<const RecurrentModel>& model, const Words& source, const Words& prefix) {
  RecurrentDecoding run(model);
  Words state = admit(run, {0}, {source});
  std::vector<float> hidden;
  for (int32_t token : prefix) {
    const Step step(run, {0}, state, {token});
    hidden = step.row(0);
    state = step.handles;
  }
  return hidden;
}

bool equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same(a.data(), b.data(), static_cast<int64_t>(a.size()));
}

int32_t below(int64_t n) { return static_cast<int32_t>(draw_size(0, n - 1)); }

void random_order(const std::shared_ptr<const RecurrentModel>& model) {
  RecurrentDecoding run(model);
  std::map<int32_t, Words> sources;
  std::vector<Row> rows;
  for (int32_t turn = 0; turn < 60; ++turn) {
    if (const int32_t kind = below(4); kind == 0) {
      Words request;
      std::vector<Words> fresh_sources;
      for (int32_t i = below(4); i-- > 0;) {
        Words source(1 + below(9));
        for (int32_t& token : source) token = below(model->config().source_vocab_size);
        request.push_back(turn * 4 + i);
        fresh_sources.push_back(sources[request.back()] = source);
      }
      const Words handles = admit(run, request, fresh_sources);
      for (size_t i = 0; i < request.size(); ++i) rows.push_back({request[i], handles[i], {}});
    } else if (kind == 1) {
      std::vector<Row> kept;
      Words state;
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
      Words request, state, token;
      std::vector<Row> parents;
      for (int32_t i = below(9); i-- > 0;) {
        parents.push_back(rows[below(rows.size())]);
        request.push_back(parents.back().request);
        state.push_back(parents.back().handle);
        token.push_back(below(model->config().target_vocab_size));
      }
      const Step step(run, request, state, token);
      for (size_t i = 0; i < parents.size(); ++i) {
        Row row{request[i], step.handles[i], parents[i].prefix};
        row.prefix.push_back(token[i]);
        CHECK(equal(step.row(i), fresh(model, sources[row.request], row.prefix)), model->table().name, turn);
        rows.push_back(row);
      }
    }
  }
}

void mistakes(const std::shared_ptr<const RecurrentModel>& model) {
  const char* table = model->table().name;
  RecurrentDecoding run(model);
  const Words state = admit(run, {0, 1}, {{1, 2, 3}, {4}});
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
  CHECK(equal(Step(run, {0}, {state[0]}, {5}).row(0), fresh(model, {1, 2, 3}, {5})), table, 0);
}

void wrong_weights(const RecurrentConfig& config) {
  const char* table = kernels().name;
  const std::map<std::string, Tensor> tensors = random_tensors(config);
  for (const auto& [name, tensor] : tensors) {
    std::map<std::string, Tensor> broken = tensors;
    broken[name].shape[0] -= 1;
    CHECK(refused([&] { RecurrentModel(config, Weights(broken), kernels()); }, "'" + name + "' has shape"), table, 0);
    broken.erase(name);
    CHECK(refused([&] { RecurrentModel(config, Weights(broken), kernels()); }, "'" + name + "' is missing"), table, 0);
  }
}

void no_allocation_in_a_warm_step(const std::shared_ptr<const RecurrentModel>& model) {
  RecurrentDecoding run(model);
  const Words start = admit(run, {0, 1}, {{1, 2, 3, 4, 5}, {6}});
  const Words request{0, 0, 1, 1}, token{1, 2, 3, 4};
  Words state{start[0], start[0], start[1], start[1]}, handles(4);
  std::vector<float> hidden(4 * model->config().hidden_dim);
  for (int turn = 0; turn < 20; ++turn) {
    const int64_t before = allocations;
    run.step(request.data(), state.data(), token.data(), 4, hidden.data(), handles.data());
    run.retain(handles.data(), 4);
    CHECK(turn < 4 || allocations == before, model->table().name, turn);
    state.swap(handles);
  }
}

}  // namespace

void test_recurrent() {
  count_allocations();
  for (const RecurrentConfig& config : {cube(), sharp()}) {
    const Weights weights(random_tensors(config));
    for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
      const auto model = std::make_shared<const RecurrentModel>(config, weights, kernels(*name));
      for (int repeat = 0; repeat < 5; ++repeat) random_order(model);
      mistakes(model);
      no_allocation_in_a_warm_step(model);
    }
    wrong_weights(config);
  }
}

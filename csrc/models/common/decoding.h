// Decoding runs: the admitted requests and the states of their hypotheses, named by handles. For one thread at a time.
// Every call checks its arguments before it changes anything, and throws std::invalid_argument.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "models/common/rows.h"
#include "models/common/sources.h"
#include "models/common/state_pool.h"

namespace sharpbeam {

// The part that the runs of all models share. `Encoded` is the encoding of an admitted request, `Pool` holds the
// states.
template <typename Model, typename Encoded, typename Pool>
class DecodingBase {
 public:
  // Frees every state but the given ones (repeats allowed).
  void retain(const int32_t* state, int64_t count) {
    pool_.check(state, count);
    pool_.retain(state, count);
  }

  // Removes the given requests.
  void evict(const int32_t* request, int64_t count) {
    for (int64_t i = 0; i < count; ++i) encoded(request[i]);  // throws before any is removed
    for (int64_t i = 0; i < count; ++i) requests_.erase(request[i]);
  }

  // The length of the longest source of the rows; 0 without rows.
  int64_t longest(const int32_t* request, int64_t rows) const
    requires requires(const Encoded& source) { source.positions; }
  {
    int64_t result = 0;
    for (int64_t row = 0; row < rows; ++row) result = std::max(result, encoded(request[row]).positions);
    return result;
  }

  const Model& model() const { return *model_; }

 protected:
  DecodingBase(std::shared_ptr<const Model> model, Pool pool) : model_(std::move(model)), pool_(std::move(pool)) {}

  const Encoded& encoded(int32_t request) const {
    const auto found = requests_.find(request);
    if (found == requests_.end()) throw_unknown_request(request);
    return found->second;
  }

  void check_admit(const int32_t* request, const Sources& sources, int64_t vocab_size) const {
    check_sources(request, sources, vocab_size, [&](int32_t asked) { return requests_.count(asked) != 0; });
  }

  // Sets attention [rows, width] to zero; throws std::invalid_argument unless `width` is `longest`.
  void clear_attention(const int32_t* request, int64_t rows, float* attention, int64_t width) const {
    if (width != longest(request, rows))
      throw std::invalid_argument("width is " + std::to_string(width) +
                                  "; it must be the length of the longest source, " +
                                  std::to_string(longest(request, rows)) + ".");
    std::fill_n(attention, rows * width, 0.0f);
  }

  std::shared_ptr<const Model> model_;
  std::unordered_map<int32_t, Encoded> requests_;
  Pool pool_;
};

// A run of a recurrent model, whose states are vectors of one size.
template <typename Model, typename Encoded>
class RecurrentDecoding : public DecodingBase<Model, Encoded, StatePool> {
  using Base = DecodingBase<Model, Encoded, StatePool>;

 protected:
  explicit RecurrentDecoding(std::shared_ptr<const Model> model)
      : Base(model, StatePool(model->config().state_dim())) {}

  // Rows that feed `token` to the states `from`, and write the states `to` (a state may be in both). Valid until states
  // are allocated, or rows are gathered again.
  StepRows gather(const int32_t* token, const int32_t* from, const int32_t* to, int64_t rows) {
    parent_.resize(rows);
    next_.resize(rows);
    const int64_t parents = Base::pool_.gather(from, rows, parents_, parent_.data());
    for (int64_t row = 0; row < rows; ++row) next_[row] = Base::pool_.at(to[row]);
    return {rows, token, nullptr, parent_.data(), parents, parents_.get(), next_.data()};
  }

 private:
  Buffer parents_;               // [U, state_dim]
  std::vector<int32_t> parent_;  // [R]
  std::vector<float*> next_;     // [R]
};

// A run of a recurrent translation model, which has methods `encode` for sources and `step` for rows, and scratch
// memory `Buffers`.
template <typename Model>
class RecurrentTranslationDecoding : public RecurrentDecoding<Model, EncodedSource> {
  using Base = RecurrentDecoding<Model, EncodedSource>;

 public:
  explicit RecurrentTranslationDecoding(std::shared_ptr<const Model> model) : Base(std::move(model)) {}

  // Encodes the sources of `request` [sources.count]; writes the handles of their initial states [sources.count].
  void admit(const int32_t* request, const Sources& sources, int32_t* handles) {
    Base::check_admit(request, sources, Base::model_->config().source_vocab_size);
    const int64_t state_dim = Base::model_->config().state_dim();
    std::vector<float> states(sources.count * state_dim);
    std::vector<EncodedSource> encoded = Base::model_->encode(sources, states.data());
    Base::pool_.take(sources.count, handles);
    for (int64_t i = 0; i < sources.count; ++i) {
      std::copy_n(states.data() + i * state_dim, state_dim, Base::pool_.at(handles[i]));
      Base::requests_.insert_or_assign(request[i], std::move(encoded[i]));
    }
  }

  // Feeds one token to each row: writes hidden [rows, D] and the handles of the new states [rows]. The states that are
  // read stay.
  void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles) {
    run(request, state, token, rows, nullptr, 0, hidden, handles);
  }

  // The same step, but writes the attention weights [rows, width] of each row over its source, zero after the end of
  // the source. Throws std::invalid_argument unless `width` is `longest`.
  void attend(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* attention,
              int64_t width, int32_t* handles) {
    Base::clear_attention(request, rows, attention, width);
    hidden_.reserve(rows * Base::model_->config().hidden_dim);
    run(request, state, token, rows, attention, width, hidden_.get(), handles);
  }

 private:
  void run(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* attention,
           int64_t width, float* hidden, int32_t* handles) {
    Base::pool_.check(state, rows);
    check_tokens("token", token, rows, Base::model_->config().target_vocab_size);
    source_.resize(rows);
    for (int64_t row = 0; row < rows; ++row) source_[row] = &Base::encoded(request[row]);
    if (rows == 0) return;
    Base::pool_.take(rows, handles);
    StepRows step = Base::gather(token, state, handles, rows);
    step.source = source_.data();
    step.attention = attention;
    step.width = width;
    Base::model_->step(step, buffers_, hidden);
  }

  typename Model::Buffers buffers_;
  Buffer hidden_;                             // [R, D] of `attend`, unused
  std::vector<const EncodedSource*> source_;  // [R]
};

}  // namespace sharpbeam

// A model and an output layer of which at least one is Python's, as a search sees them.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "python/arrays.h"
#include "search/forward.h"

namespace sharpbeam {

template <typename T>
nanobind::object array_of(const T* values, int64_t size) {
  auto array = new_array<T>({static_cast<size_t>(size)});
  std::copy_n(values, size, array.data);
  return array.array;
}

// sharpbeam.search.interface.Forward.
class PythonForward : public Forward {
 public:
  PythonForward(nanobind::handle forward, int64_t vocab)
      : vocab_(vocab),
        step_(forward.attr("step")),
        topk_(forward.attr("topk")),
        log_prob_(forward.attr("log_prob")),
        contiguous_(nanobind::module_::import_("numpy").attr("ascontiguousarray")) {
    held_ = nanobind::getattr(forward, "layer", nanobind::none());
    if (held_.is_none()) return;
    native_ = &nanobind::cast<LayerRun&>(held_);
    if (native_->estimates()) layer_ = native_;
  }

  int64_t dim() const override { return dim_; }

  const float* step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                    int32_t* states) override {
    const nanobind::gil_scoped_acquire gil;
    const nanobind::object answer = step_(array_of(request, rows), array_of(state, rows), array_of(token, rows));
    hidden_ = contiguous_(answer[0]);
    const auto hidden = nanobind::cast<AnyArray>(hidden_), handles = nanobind::cast<AnyArray>(contiguous_(answer[1]));
    const float* data = checked<float>(hidden, "hidden", {rows, kAnySize});
    std::copy_n(checked<int32_t>(handles, "state", {rows}), rows, states);
    dim_ = static_cast<int64_t>(hidden.shape(1));
    if (dim_ < 1) throw std::invalid_argument("the hidden vectors are 0 wide; they must be 1 or wider");
    if (native_ != nullptr && native_->dim() != dim_)
      throw std::invalid_argument("the hidden vectors are " + std::to_string(dim_) + " wide; the layer takes " +
                                  std::to_string(native_->dim()));
    return data;  // of hidden_
  }

  bool estimates() const override { return layer_ != nullptr; }
  bool rough() const override { return layer_ != nullptr && layer_->rough(); }
  bool has_closer() const override { return layer_ != nullptr && layer_->has_closer(); }
  void closer_totals(const float* hidden, const int32_t* request, int64_t rows, const Estimates& closer) override {
    layer_->closer_totals({hidden, rows, request, nullptr, nullptr, &closer});
  }
  void exact_totals(const float* hidden, const int32_t* request, int64_t rows, float* total) override {
    layer_->exact_totals({hidden, rows, request}, total);
  }

  void topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, const BeamView* beam,
            const Estimates* estimates, float* log_prob, int32_t* token) override {
    LayerRun* asked = estimates == nullptr ? layer_ : native_;  // Python has no way to fill them in
    if (asked != nullptr) return asked->topk({hidden, rows, request, nullptr, beam, estimates}, k, log_prob, token);
    const nanobind::gil_scoped_acquire gil;
    const nanobind::object top = topk_(matrix(hidden, rows), k, array_of(request, rows));
    const auto log_probs = nanobind::cast<AnyArray>(contiguous_(top.attr("log_prob")));
    const auto tokens = nanobind::cast<AnyArray>(contiguous_(top.attr("token")));
    std::copy_n(checked<float>(log_probs, "log_prob", {rows, k}), rows * k, log_prob);
    std::copy_n(checked<int32_t>(tokens, "token", {rows, k}), rows * k, token);
    const int32_t* wrong = std::find_if(token, token + rows * k, [&](int32_t t) { return t < 0 || t >= vocab_; });
    if (wrong != token + rows * k)
      throw std::invalid_argument("topk has the token " + std::to_string(*wrong) + "; tokens are 0 to " +
                                  std::to_string(vocab_ - 1));
  }

  void log_prob(const float* hidden, const int32_t* request, int64_t rows, const int32_t* token,
                const Estimates* estimates, float* log_prob) override {
    if (layer_ != nullptr)
      return layer_->log_prob({hidden, rows, request, nullptr, nullptr, estimates}, token, log_prob);
    const nanobind::gil_scoped_acquire gil;
    const nanobind::object found = log_prob_(matrix(hidden, rows), array_of(token, rows), array_of(request, rows));
    std::copy_n(checked<float>(nanobind::cast<AnyArray>(contiguous_(found)), "log_prob", {rows}), rows, log_prob);
  }

  void retain(const int32_t*, int64_t) override {}  // the loop does

 private:
  int64_t vocab_;

  // [rows, D]: the array of the last step where these are its rows, else a copy.
  nanobind::object matrix(const float* hidden, int64_t rows) const {
    const auto given = nanobind::cast<AnyArray>(hidden_);
    if (hidden == given.data() && rows == static_cast<int64_t>(given.shape(0))) return hidden_;
    auto array = new_array<float>({static_cast<size_t>(rows), static_cast<size_t>(dim_)});
    std::copy_n(hidden, rows * dim_, array.data);
    return array.array;
  }

  nanobind::object step_, topk_, log_prob_, contiguous_, hidden_, held_;
  LayerRun *native_ = nullptr, *layer_ = nullptr;  // held_, and the same where its normalizers are estimates
  int64_t dim_ = 0;
};

}  // namespace sharpbeam

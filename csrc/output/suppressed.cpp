#include "output/suppressed.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "output/output_matrix.h"
#include "output/scratch.h"

namespace sharpbeam {
namespace {

class SuppressedRun final : public LayerRun {
 public:
  SuppressedRun(std::unique_ptr<LayerRun> run, const std::vector<char>& suppressed, int64_t most)
      : run_(std::move(run)), suppressed_(suppressed), most_(most) {}

  int64_t dim() const override { return run_->dim(); }
  int64_t vocab() const override { return run_->vocab(); }
  bool estimates() const override { return run_->estimates(); }
  bool rough() const override { return run_->rough(); }
  bool has_closer() const override { return run_->has_closer(); }

 private:
  void enter(const LayerRequest& request) override { run_->admit(request); }
  void leave(const int32_t* request, int64_t count) override { run_->evict(request, count); }
  void find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) override;
  void find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) override {
    run_->log_prob(rows, token, log_prob);
  }
  void find_closer_totals(const LayerRows& rows) override { run_->closer_totals(rows); }
  void find_exact_totals(const LayerRows& rows, float* total) override { run_->exact_totals(rows, total); }

  std::unique_ptr<LayerRun> run_;
  const std::vector<char>& suppressed_;
  int64_t most_;
  Buffer log_prob_;              // [R, k + most_]
  std::vector<int32_t> token_;   // [R, k + most_]
  std::vector<int64_t> wanted_;  // [R]
};

void SuppressedRun::find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) {
  check_k(k, vocab());
  const int64_t width = std::min(k + most_, vocab());
  float* all_log_prob = reserved(log_prob_, rows.rows * width);
  int32_t* all_token = reserved(token_, rows.rows * width);
  const auto is_suppressed = [&](int32_t one) { return suppressed_[static_cast<size_t>(one)] != 0; };
  LayerRows asked = rows;
  BeamView beam;
  if (rows.beam != nullptr) {
    beam = *rows.beam;
    beam.excluded = suppressed_;
    asked.beam = &beam;
  }
  if (k == 1) {  // greedy search: hardly ever is the best token a suppressed one, and finding two takes longer
    run_->topk(asked, 1, log_prob, token);
    if (std::none_of(token, token + rows.rows, is_suppressed)) return;
  }
  if (beam.wanted != nullptr) {
    wanted_.assign(beam.wanted, beam.wanted + rows.rows);
    for (int64_t& wanted : wanted_) wanted = std::min(wanted + most_, width);
    beam.wanted = wanted_.data();
  }
  run_->topk(asked, width, all_log_prob, all_token);
  for (int64_t row = 0; row < rows.rows; ++row, log_prob += k, token += k) {
    const float* given = all_log_prob + row * width;
    const int32_t* tokens = all_token + row * width;
    int64_t found = 0;
    float broken = 0.0f;  // a value that is no log probability, which must not go with its token
    for (int64_t i = 0; i < width && found < k; ++i) {
      if (!(given[i] < std::numeric_limits<float>::infinity())) broken = given[i];
      if (is_suppressed(tokens[i])) continue;
      log_prob[found] = given[i];
      token[found++] = tokens[i];
    }
    for (int64_t i = 0; found < k; ++i) {
      if (!is_suppressed(tokens[i])) continue;
      log_prob[found] = kNever;
      token[found++] = tokens[i];
    }
    if (broken != 0.0f) log_prob[0] = broken;
  }
}

}  // namespace

SuppressedLayer::SuppressedLayer(const OutputLayer& layer, const int32_t* suppressed, int64_t count)
    : layer_(layer), suppressed_(static_cast<size_t>(layer.vocab()), false) {
  check_tokens(suppressed, count, vocab());
  for (int64_t i = 0; i < count; ++i) suppressed_[static_cast<size_t>(suppressed[i])] = true;
  most_ = std::count(suppressed_.begin(), suppressed_.end(), true);
}

std::unique_ptr<LayerRun> SuppressedLayer::open() const {
  return std::make_unique<SuppressedRun>(layer_.open(), suppressed_, most_);
}

}  // namespace sharpbeam

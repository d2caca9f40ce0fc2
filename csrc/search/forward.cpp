#include "search/forward.h"

namespace sharpbeam {

Estimates Forward::reserve(int64_t rows) {
  for (auto* each : {&total_, &error_, &exact_}) each->assign(static_cast<size_t>(rows), 0.0f);
  return {total_.data(), error_.data()};
}

int64_t Forward::settle(const float* hidden, const int32_t* request, int64_t rows, int64_t k, float* log_prob) {
  const int64_t open = std::count_if(error_.begin(), error_.end(), [](float error) { return error > 0.0f; });
  if (open == 0) return 0;
  exact_totals(hidden, request, rows, exact_.data());
  for (int64_t i = 0; i < rows * k; ++i) {
    const auto row = static_cast<size_t>(i / k);
    if (error_[row] > 0.0f) log_prob[i] = settled(log_prob[i], static_cast<double>(total_[row]) - exact_[row]);
  }
  return open;
}

int64_t Forward::exact_topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, const BeamView* beam,
                            float* log_prob, int32_t* token) {
  if (!rough()) {
    topk(hidden, request, rows, k, beam, nullptr, log_prob, token);
    return 0;
  }
  const Estimates found = reserve(rows);
  topk(hidden, request, rows, k, beam, &found, log_prob, token);
  return settle(hidden, request, rows, k, log_prob);
}

int64_t Forward::topk_and_totals(const float* hidden, const int32_t* request, int64_t rows, int64_t k,
                                 const BeamView* beam, float* log_prob, int32_t* token, float* total) {
  const Estimates found = reserve(rows);
  topk(hidden, request, rows, k, beam, &found, log_prob, token);
  const int64_t settled = settle(hidden, request, rows, k, log_prob);
  for (int64_t row = 0; row < rows; ++row) total[row] = (error_[row] > 0.0f ? exact_ : total_)[row];
  return settled;
}

int64_t Forward::exact_log_prob(const float* hidden, const int32_t* request, int64_t rows, const int32_t* token,
                                float* found_log_prob) {
  if (!rough()) {
    log_prob(hidden, request, rows, token, nullptr, found_log_prob);
    return 0;
  }
  const Estimates found = reserve(rows);
  log_prob(hidden, request, rows, token, &found, found_log_prob);
  return settle(hidden, request, rows, 1, found_log_prob);
}

}  // namespace sharpbeam

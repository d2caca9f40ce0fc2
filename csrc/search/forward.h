// Model and output layer as a search sees them: the counterpart of Forward in src/sharpbeam/search/interface.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "output/interface.h"

namespace sharpbeam {

struct Sources;  // models/common/sources.h

// A decoding run of a model, as a search sees it: src/sharpbeam/models/interface.py.
class ModelRun {
 public:
  virtual ~ModelRun() = default;
  virtual int64_t dim() const = 0;  // D
  virtual const Kernels& table() const = 0;
  // Encodes the sources of `request` [sources.count]; writes the handles of their initial states [sources.count].
  virtual void admit(const int32_t* request, const Sources& sources, int32_t* handles) = 0;
  // Removes the given requests.
  virtual void evict(const int32_t* request, int64_t count) = 0;
  // Feeds one token to each row: hidden [rows, D] and the handles of the new states [rows].
  virtual void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
                    int32_t* handles) = 0;
  // Frees every state but the named ones (repeats allowed).
  virtual void retain(const int32_t* state, int64_t count) = 0;
};

// The forward pass of one decoding run.
class Forward {
 public:
  virtual ~Forward() = default;
  virtual int64_t dim() const = 0;  // D of the last step
  // Feeds one token to each row: returns hidden [rows, D], valid until the next call of `step`, and the handles of the
  // new states in `states` [rows].
  virtual const float* step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                            int32_t* states) = 0;
  // Whether normalizers are estimates, rough ones, and whether there are closer ones: LayerRun.
  virtual bool estimates() const { return false; }
  virtual bool rough() const { return false; }
  virtual bool has_closer() const { return false; }
  // The k best tokens of each hidden vector [rows, D], best first, and their log probabilities, both [rows, k]. Where
  // `beam` is not null, those that it can use are enough. `estimates` is null unless normalizers are some.
  virtual void topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, const BeamView* beam,
                    const Estimates* estimates, float* log_prob, int32_t* token) = 0;
  // The log probability [rows] of one token [rows] for each hidden vector [rows, D].
  virtual void log_prob(const float* hidden, const int32_t* request, int64_t rows, const int32_t* token,
                        const Estimates* estimates, float* log_prob) = 0;
  // Closer estimates of normalizers, and exact ones [rows], where they are estimates.
  virtual void closer_totals(const float*, const int32_t*, int64_t, const Estimates&) {}
  virtual void exact_totals(const float*, const int32_t*, int64_t, float*) {}
  // topk and log_prob with normalizers that are exact, or close estimates; return how many rows took a sum for it.
  int64_t exact_topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, const BeamView* beam,
                     float* log_prob, int32_t* token);
  // topk with exact normalizers, which are put into `total` [rows] where the layer has them, else 0.
  int64_t topk_and_totals(const float* hidden, const int32_t* request, int64_t rows, int64_t k, const BeamView* beam,
                          float* log_prob, int32_t* token, float* total);
  int64_t exact_log_prob(const float* hidden, const int32_t* request, int64_t rows, const int32_t* token,
                         float* log_prob);
  // Frees every state but the named ones (repeats allowed).
  virtual void retain(const int32_t* state, int64_t count) = 0;

 private:
  Estimates reserve(int64_t rows);
  int64_t settle(const float* hidden, const int32_t* request, int64_t rows, int64_t k, float* log_prob);

  std::vector<float> total_, error_, exact_;  // [R]
};

// A log probability whose normalizer was too large by `by`.
inline float settled(float log_prob, double by) {
  return std::min(static_cast<float>(static_cast<double>(log_prob) + by), 0.0f);
}

}  // namespace sharpbeam

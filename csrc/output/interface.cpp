#include "output/interface.h"

namespace sharpbeam {
namespace {

class RowRun final : public LayerRun {
 public:
  explicit RowRun(const RowLayer& layer) : layer_(layer) {}
  int64_t dim() const override { return layer_.dim(); }
  int64_t vocab() const override { return layer_.vocab(); }
  bool estimates() const override { return layer_.estimates(); }
  bool rough() const override { return layer_.rough(); }
  bool has_closer() const override { return layer_.has_closer(); }

 private:
  void enter(const LayerRequest&) override {}
  void leave(const int32_t*, int64_t) override {}
  void find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) override {
    layer_.topk(rows, k, log_prob, token);
  }
  void find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) override {
    layer_.log_prob(rows, token, log_prob);
  }
  void find_closer_totals(const LayerRows& rows) override { layer_.closer_totals(rows); }
  void find_exact_totals(const LayerRows& rows, float* total) override { layer_.exact_totals(rows, total); }

  const RowLayer& layer_;
};

class Unnormalized final : public RowLayer {
 public:
  explicit Unnormalized(const NormalizingLayer& layer) : layer_(layer) {}
  int64_t dim() const override { return layer_.dim(); }
  int64_t vocab() const override { return layer_.vocab(); }
  int64_t row_cost() const override { return layer_.row_cost(); }
  void topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) const override {
    layer_.rank(rows, k, false, log_prob, token);
  }
  void log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) const override {
    layer_.score(rows, token, false, log_prob);
  }

 private:
  const NormalizingLayer& layer_;
};

}  // namespace

std::unique_ptr<LayerRun> RowLayer::open() const { return std::make_unique<RowRun>(*this); }

std::unique_ptr<RowLayer> NormalizingLayer::unnormalized() const { return std::make_unique<Unnormalized>(*this); }

}  // namespace sharpbeam

#include "output/joined.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "output/output_matrix.h"
#include "output/scratch.h"

namespace sharpbeam {

class JoinedLayer::Run final : public LayerRun {
 public:
  explicit Run(const JoinedLayer& layer) : layer_(layer) {}

  int64_t dim() const override { return layer_.dim_; }
  int64_t vocab() const override { return layer_.vocab_; }

 private:
  struct Request {
    std::vector<int32_t> tokens;                               // of its source
    std::unordered_map<int32_t, std::vector<int32_t>> joined;  // with each cluster that its rows have met
  };

  void enter(const LayerRequest& request) override;
  void leave(const int32_t* request, int64_t count) override;
  void find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) override;
  void find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) override;

  std::unordered_map<int32_t, Request>::iterator find(int32_t request);
  TokenSet join(Request& request, int32_t cluster) const;
  // Calls visit(row, set, logits) for each row.
  template <typename Visit>
  void for_each_row(const LayerRows& rows, Visit visit);

  const JoinedLayer& layer_;
  std::unordered_map<int32_t, Request> requests_;
  Buffer scores_, logits_;  // [kRowsAtOnce, clusters]; of one row's set
};

void JoinedLayer::Run::enter(const LayerRequest& request) {
  if (requests_.count(request.index) != 0) {
    throw std::invalid_argument("request " + std::to_string(request.index) + " is in flight already; evict it first");
  }
  Request entering;
  layer_.shortlist_.find(request, entering.tokens);
  logits_.reserve(round_up(static_cast<int64_t>(entering.tokens.size()) + layer_.most_, kLanes));
  requests_.emplace(request.index, std::move(entering));
}

std::unordered_map<int32_t, JoinedLayer::Run::Request>::iterator JoinedLayer::Run::find(int32_t request) {
  const auto found = requests_.find(request);
  if (found != requests_.end()) return found;
  throw std::invalid_argument("request is " + std::to_string(request) + ", which was not admitted or is evicted");
}

void JoinedLayer::Run::leave(const int32_t* request, int64_t count) {
  for (int64_t i = 0; i < count; ++i) find(request[i]);
  for (int64_t i = 0; i < count; ++i) requests_.erase(request[i]);
}

TokenSet JoinedLayer::Run::join(Request& request, int32_t cluster) const {
  const auto [found, fresh] = request.joined.try_emplace(cluster);
  std::vector<int32_t>& set = found->second;
  if (!fresh) return set;
  const auto begin = layer_.token_.begin() + layer_.start_[static_cast<size_t>(cluster)];
  const auto end = layer_.token_.begin() + layer_.start_[static_cast<size_t>(cluster) + 1];
  const auto own = request.tokens.begin(), own_end = request.tokens.end();
  if (layer_.join_ == Join::either) {
    std::set_union(own, own_end, begin, end, std::back_inserter(set));
  } else {
    std::set_intersection(own, own_end, begin, end, std::back_inserter(set));
    if (set.empty()) set = request.tokens;
  }
  return set;
}

template <typename Visit>
void JoinedLayer::Run::for_each_row(const LayerRows& rows, Visit visit) {
  const Kernels& table = *layer_.table_;
  const int64_t clusters = layer_.clusters_.out(), stride = round_up(clusters, kLanes);
  for (int64_t first = 0; first < rows.rows; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows.rows - first);
    float* scores = reserved(scores_, count * stride);
    layer_.clusters_.matmul(table, rows.hidden + first * dim(), dim(), scores, stride, count);
    for (int64_t r = 0; r < count; ++r) {
      float best;
      int32_t cluster;
      table.top_k(scores + r * stride, clusters, 1, &best, &cluster);  // z(h), L2S eq. 3
      const TokenSet set = join(find(rows.request[first + r])->second, cluster);
      float* logits = reserved(logits_, round_up(static_cast<int64_t>(set.size()), kLanes));
      table.gather_dot(layer_.weight_.get(), layer_.bias_.get(), rows.hidden + (first + r) * dim(), set.data(),
                       static_cast<int64_t>(set.size()), dim(), logits);
      visit(first + r, set, logits);
    }
  }
}

void JoinedLayer::Run::find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) {
  check_k(k, vocab());
  for_each_row(rows, [&](int64_t row, TokenSet set, float* logits) {
    rank_set(*layer_.table_, logits, set, k, log_prob + row * k, token + row * k);
  });
}

void JoinedLayer::Run::find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) {
  check_tokens(token, rows.rows, vocab());
  for_each_row(rows, [&](int64_t row, TokenSet set, const float* logits) {
    log_prob[row] = log_prob_in_set(*layer_.table_, logits, set, token[row]);
  });
}

JoinedLayer::JoinedLayer(Array weight, Array bias, int64_t vocab, int64_t dim, const ScreenView& screen,
                         Shortlist shortlist, Join join, const Kernels& table)
    : weight_(std::move(weight)),
      bias_(std::move(bias)),
      vocab_(vocab),
      dim_(dim),
      most_(0),
      shortlist_(std::move(shortlist)),
      join_(join),
      table_(&table) {
  check_sizes(vocab, dim);
  check_screen(screen, vocab);
  clusters_ = Float32Matrix(screen.weight, screen.clusters, dim, dim, screen.bias);
  start_.assign(screen.start, screen.start + screen.clusters + 1);
  token_.assign(screen.token, screen.token + screen.start[screen.clusters]);
  for (size_t t = 0; t + 1 < start_.size(); ++t) most_ = std::max<int64_t>(most_, start_[t + 1] - start_[t]);
}

std::unique_ptr<LayerRun> JoinedLayer::open() const { return std::make_unique<Run>(*this); }

}  // namespace sharpbeam

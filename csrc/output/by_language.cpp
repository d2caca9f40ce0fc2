#include "output/by_language.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "output/output_matrix.h"
#include "output/scratch.h"

namespace sharpbeam {
namespace {

class Run final : public LayerRun {
 public:
  explicit Run(const LayerByLanguage& layer) : layer_(layer) {
    for (const OutputLayer* each : layer.layers()) runs_.push_back(each->open());
  }

  int64_t dim() const override { return layer_.dim(); }
  int64_t vocab() const override { return layer_.vocab(); }

 private:
  void enter(const LayerRequest& request) override;
  void leave(const int32_t* request, int64_t count) override;
  void find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) override;
  void find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) override;

  size_t scope_of(int32_t request) const;
  // Calls answer(run, part, places): the rows of each scope, gathered, and where they are; a batch of one scope as it
  // is, with null for `places`.
  template <typename Answer>
  void for_each_scope(const LayerRows& rows, Answer answer);
  LayerRows gather(const LayerRows& rows, const int32_t* places, int64_t count);

  const LayerByLanguage& layer_;
  std::vector<std::unique_ptr<LayerRun>> runs_;
  std::unordered_map<int32_t, size_t> scope_;  // of each request in flight
  std::vector<size_t> of_row_;                 // [R]
  std::vector<int32_t> places_, request_, token_, asked_;
  Buffer hidden_, log_prob_;
};

size_t Run::scope_of(int32_t request) const {
  const auto found = scope_.find(request);
  if (found != scope_.end()) return found->second;
  throw std::invalid_argument("request is " + std::to_string(request) + ", which was not admitted or is evicted");
}

void Run::enter(const LayerRequest& request) {
  if (scope_.count(request.index) != 0) {
    throw std::invalid_argument("request " + std::to_string(request.index) + " is in flight already; evict it first");
  }
  const size_t scope = layer_.scope_of(request);
  runs_[scope]->admit(request);
  scope_.emplace(request.index, scope);
}

void Run::leave(const int32_t* request, int64_t count) {
  for (int64_t i = 0; i < count; ++i) scope_of(request[i]);
  for (int64_t i = 0; i < count; ++i) {
    const auto found = scope_.find(request[i]);
    if (found == scope_.end()) continue;  // named twice
    runs_[found->second]->evict(request + i, 1);
    scope_.erase(found);
  }
}

LayerRows Run::gather(const LayerRows& rows, const int32_t* places, int64_t count) {
  float* hidden = reserved(hidden_, rows.rows * dim());
  int32_t* request = reserved(request_, rows.rows);
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(rows.hidden + places[i] * dim(), dim(), hidden + i * dim());
    request[i] = rows.request[places[i]];
  }
  return {hidden, count, request};
}

template <typename Answer>
void Run::for_each_scope(const LayerRows& rows, Answer answer) {
  size_t* scope = reserved(of_row_, rows.rows);
  bool alike = true;
  for (int64_t r = 0; r < rows.rows; ++r) {
    scope[r] = r > 0 && rows.request[r] == rows.request[r - 1] ? scope[r - 1] : scope_of(rows.request[r]);
    alike = alike && scope[r] == scope[0];
  }
  if (rows.rows == 0) return;
  if (alike) {
    LayerRows all = rows;
    all.estimates = nullptr;  // as of rows that are apart
    return answer(*runs_[scope[0]], all, nullptr);
  }
  int32_t* places = reserved(places_, rows.rows);
  for (size_t s = 0; s < runs_.size(); ++s) {
    int64_t count = 0;
    for (int64_t r = 0; r < rows.rows; ++r) {
      if (scope[r] == s) places[count++] = static_cast<int32_t>(r);
    }
    if (count > 0) answer(*runs_[s], gather(rows, places, count), places);
  }
}

void Run::find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) {
  for_each_scope(rows, [&](LayerRun& run, const LayerRows& part, const int32_t* places) {
    if (places == nullptr) return run.topk(part, k, log_prob, token);
    check_k(k, vocab());
    float* found = reserved(log_prob_, rows.rows * k);
    int32_t* tokens = reserved(token_, rows.rows * k);
    run.topk(part, k, found, tokens);
    for (int64_t i = 0; i < part.rows; ++i) {
      std::copy_n(found + i * k, k, log_prob + places[i] * k);
      std::copy_n(tokens + i * k, k, token + places[i] * k);
    }
  });
}

void Run::find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) {
  for_each_scope(rows, [&](LayerRun& run, const LayerRows& part, const int32_t* places) {
    if (places == nullptr) return run.log_prob(part, token, log_prob);
    float* found = reserved(log_prob_, rows.rows);
    int32_t* asked = reserved(asked_, rows.rows);
    for (int64_t i = 0; i < part.rows; ++i) asked[i] = token[places[i]];
    run.log_prob(part, asked, found);
    for (int64_t i = 0; i < part.rows; ++i) log_prob[places[i]] = found[i];
  });
}

}  // namespace

LayerByLanguage::LayerByLanguage(LayerPer per, std::vector<std::string> scopes, std::vector<const OutputLayer*> layers)
    : per_(per), scopes_(std::move(scopes)), layers_(std::move(layers)) {
  if (layers_.empty() || layers_.size() != scopes_.size()) {
    throw std::invalid_argument("there are " + std::to_string(layers_.size()) + " layers for " +
                                std::to_string(scopes_.size()) + " scopes; give one for each, and at least one");
  }
  for (const OutputLayer* each : layers_) {
    if (each->dim() != dim() || each->vocab() != vocab()) {
      throw std::invalid_argument("the layers have different sizes; they must be for one output matrix");
    }
  }
}

std::unique_ptr<LayerRun> LayerByLanguage::open() const { return std::make_unique<Run>(*this); }

size_t LayerByLanguage::scope_of(const LayerRequest& request) const {
  const std::string target(request.target_language);
  const std::string scope = per_ == LayerPer::target ? target : std::string(request.source_language) + "-" + target;
  const auto exact = std::find(scopes_.begin(), scopes_.end(), scope);
  if (exact != scopes_.end()) return static_cast<size_t>(exact - scopes_.begin());
  const auto into = [&](const std::string& other) { return !target.empty() && other.ends_with(scope); };  // "-en"
  if (per_ == LayerPer::direction && request.source_language.empty() &&
      std::count_if(scopes_.begin(), scopes_.end(), into) == 1) {
    return static_cast<size_t>(std::find_if(scopes_.begin(), scopes_.end(), into) - scopes_.begin());
  }
  std::string all;
  for (const std::string& each : scopes_) all += (all.empty() ? "" : ", ") + each;
  throw std::invalid_argument("request " + std::to_string(request.index) + " is for '" + scope +
                              "'; the model has a layer for each of " + all);
}

}  // namespace sharpbeam

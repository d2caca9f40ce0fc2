#include "search/constraints.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace sharpbeam {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// Sorts list[begin:] and takes out repeats.
void make_set(std::vector<int32_t>& list, int64_t begin) {
  std::sort(list.begin() + begin, list.end());
  list.erase(std::unique(list.begin() + begin, list.end()), list.end());
}

// log(exp(a) + exp(b)), for finite b.
double log_add(double a, double b) {
  if (a == b) return a + std::log(2.0);
  return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
}

}  // namespace

Constraints::Constraints(const SearchOptions& options, int64_t keep)
    : options_(options),
      keep_(keep),
      least_(std::min(keep + (options.min_length > 0), options.vocab)),  // one more where eos may be banned
      repetition_(options.repetition_penalty > 1.0 || options.no_repeat_ngram_size > 0),
      bias_(options.prefix_bias_beta > 0.0) {
  if (!bias_) return;
  less_ = std::log1p(-options.prefix_bias_beta);
  more_ = std::log(options.prefix_bias_beta);
}

int64_t Constraints::wanted(const RowView& rows, const std::vector<RequestRows>& requests, const TokenTree& tree) {
  rules_.assign(static_cast<size_t>(rows.rows), {0, 0, 0, 0, kNone, 0.0f, false, 0.0f});
  prefixes_ = false;
  find_next(rows, requests, tree);
  for (const RequestRows& request : requests)
    for (int64_t row = request.first; row < request.last; ++row)
      rules_[static_cast<size_t>(row)].last = rows.length[row] + 1 == request.request->max_length;
  if (repetition_) find_repeats(rows, tree);
  wanted_.clear();
  for (const RowRules& row : rules_) {
    const int64_t more = row.worse_end - row.worse_begin + (bias_ && row.next != kNone);
    wanted_.push_back(std::min(least_ + more, options_.vocab));
  }
  return wanted_.empty() ? least_ : *std::max_element(wanted_.begin(), wanted_.end());
}

// The tokens of each row that get worse, and among them those that are banned.
void Constraints::find_repeats(const RowView& rows, const TokenTree& tree) {
  worse_.clear();
  banned_.clear();
  const int64_t n = options_.no_repeat_ngram_size;
  for (int64_t row = 0; row < rows.rows; ++row) {
    RowRules& rules = rules_[static_cast<size_t>(row)];
    history_.clear();  // last token first
    tree.walk(rows.node[row], [&](int32_t token, float) { history_.push_back(token); });
    rules.banned_begin = static_cast<int64_t>(banned_.size());
    // The n - 1 tokens that precede place j (those after it in this order) are the row's last n - 1, so its token must
    // not follow.
    for (int64_t j = 0; n > 0 && j + n <= static_cast<int64_t>(history_.size()); ++j)
      if (std::equal(history_.begin(), history_.begin() + (n - 1), history_.begin() + (j + 1)))
        banned_.push_back(history_[static_cast<size_t>(j)]);
    make_set(banned_, rules.banned_begin);
    rules.banned_end = static_cast<int64_t>(banned_.size());
    rules.worse_begin = static_cast<int64_t>(worse_.size());
    if (options_.repetition_penalty > 1.0)
      worse_.insert(worse_.end(), history_.begin(), history_.end());
    else
      worse_.insert(worse_.end(), banned_.begin() + rules.banned_begin, banned_.end());
    make_set(worse_, rules.worse_begin);
    rules.worse_end = static_cast<int64_t>(worse_.size());
  }
}

// The next token of its prefix, for each row that is shorter and, with a bias, follows it.
void Constraints::find_next(const RowView& rows, const std::vector<RequestRows>& requests, const TokenTree& tree) {
  for (const RequestRows& request : requests) {
    const std::vector<int32_t>& prefix = request.request->prefix;
    if (prefix.empty()) continue;
    for (int64_t row = request.first; row < request.last; ++row) {
      const int64_t length = rows.length[row];
      if (length >= static_cast<int64_t>(prefix.size())) continue;
      if (bias_ && !follows(tree, rows.node[row], prefix, length)) continue;
      rules_[static_cast<size_t>(row)].next = prefix[static_cast<size_t>(length)];
      rules_[static_cast<size_t>(row)].next_log_prob = request.request->prefix_log_prob[static_cast<size_t>(length)];
      prefixes_ = true;
    }
  }
}

bool Constraints::follows(const TokenTree& tree, int32_t node, const std::vector<int32_t>& prefix, int64_t length) {
  bool same = true;
  tree.walk(node, [&](int32_t token, float) { same &= token == prefix[static_cast<size_t>(--length)]; });
  return same;
}

// Whether the log probability of a row's next token is the output layer's.
bool Constraints::asks(const RowRules& rules) const {
  return rules.next != kNone && (bias_ || std::isnan(rules.next_log_prob));
}

int64_t Constraints::complete(const RowView& rows, Forward& forward, const float* hidden, int64_t k, int32_t* token,
                              float* log_prob) {
  if (!prefixes_) return 0;
  missing_hidden_.clear();
  for (auto* list : {&missing_row_, &missing_token_, &missing_request_}) list->clear();
  const int64_t dim = forward.dim();
  for (int64_t row = 0; row < rows.rows; ++row) {
    const RowRules& rules = rules_[static_cast<size_t>(row)];
    if (!asks(rules)) continue;
    const int32_t* found = token + row * k;
    const float* known = log_prob + row * k;
    const int32_t* end = found + (std::find(known, known + k, kBanned) - known);  // token 0 fills rows up
    if (bias_ && std::find(found, end, rules.next) != end) continue;  // where it is forced, it may rest on an estimate
    missing_hidden_.insert(missing_hidden_.end(), hidden + row * dim, hidden + (row + 1) * dim);
    missing_row_.push_back(static_cast<int32_t>(row));
    missing_token_.push_back(rules.next);
    missing_request_.push_back(rows.request[row]);
  }
  const auto missing = static_cast<int64_t>(missing_row_.size());
  if (missing == 0) return 0;
  missing_log_prob_.resize(missing_row_.size());
  const int64_t settled = forward.exact_log_prob(missing_hidden_.data(), missing_request_.data(), missing,
                                                 missing_token_.data(), missing_log_prob_.data());
  for (size_t i = 0; i < missing_row_.size(); ++i) {
    RowRules& rules = rules_[static_cast<size_t>(missing_row_[i])];
    if (!bias_) {
      check_sound(rows, missing_row_[i], missing_log_prob_[i]);
      rules.next_log_prob = missing_log_prob_[i] == kBanned ? kLeast : missing_log_prob_[i];
      continue;
    }
    const int64_t last = missing_row_[i] * k + k - 1;
    token[last] = missing_token_[i];
    log_prob[last] = missing_log_prob_[i];
  }
  return settled;
}

Candidates Constraints::apply(const RowView& rows, int64_t k, const int32_t* token, const float* log_prob,
                              const float* total) {
  check(rows, k, log_prob);
  if (!repetition_ && !prefixes_ && !options_.forced_eos && options_.min_length == 0 && k <= keep_)
    return {k, token, log_prob, log_prob};
  const auto cells = static_cast<size_t>(rows.rows * k);
  token_.resize(cells);
  log_prob_.resize(cells);
  value_.resize(cells);
  for (int64_t row = 0; row < rows.rows; ++row) {
    row_.resize(static_cast<size_t>(k));
    if (total != nullptr) rules_[static_cast<size_t>(row)].total = total[row];
    for (int64_t i = 0; i < k; ++i) {
      const float value = log_prob[row * k + i];
      row_[static_cast<size_t>(i)] = {token[row * k + i], value, value};
    }
    apply_to(row, rows.length[row] < options_.min_length);
    if (forces_eos(row)) leave_only(options_.eos, 0.0f, row_);
    for (int64_t i = 0; i < k; ++i) {
      const Candidate& candidate = row_[static_cast<size_t>(i)];
      const auto cell = static_cast<size_t>(row * k + i);
      token_[cell] = candidate.token;
      log_prob_[cell] = candidate.log_prob;
      value_[cell] = candidate.value;
    }
  }
  return {k, token_.data(), log_prob_.data(), value_.data()};
}

bool Constraints::forces_next(int64_t row) const { return !bias_ && rules_[static_cast<size_t>(row)].next != kNone; }

// A prefix that is as long as the answer may be is kept.
bool Constraints::forces_eos(int64_t row) const {
  return options_.forced_eos && rules_[static_cast<size_t>(row)].last && !forces_next(row);
}

// The rules for the candidates row_ [k] of one row.
void Constraints::apply_to(int64_t row, bool early) {
  const RowRules& rules = rules_[static_cast<size_t>(row)];
  const bool biased = bias_ && rules.next != kNone;
  bool given = false;  // to one candidate: fillers are token 0, which may be the next one, found or in the last place
  for (Candidate& each : row_) {
    float& value = each.value = value_of(rules, each.token, each.log_prob);
    if (early && each.token == options_.eos) value = kBanned;
    if (!biased) continue;
    const double with_bias = static_cast<double>(value) + less_;
    const bool next = !given && each.token == rules.next && (each.log_prob > kBanned || &each == &row_.back());
    given = given || next;
    value = static_cast<float>(next ? log_add(with_bias, more_) : with_bias);
  }
  if (repetition_ || biased)
    std::sort(row_.begin(), row_.end(), [](const Candidate& a, const Candidate& b) {
      return a.value != b.value ? a.value > b.value : a.token < b.token;
    });
  int64_t allowed = 0;
  for (Candidate& each : row_)
    if (each.value > kBanned && ++allowed > keep_) each.value = kBanned;
  if (!bias_ && rules.next != kNone) leave_only(rules.next, rules.next_log_prob, row_);
}

// The value of a token for the score of a row under the rules against repetition.
float Constraints::value_of(const RowRules& rules, int32_t token, float log_prob) const {
  const auto among = [token](const std::vector<int32_t>& set, int64_t first, int64_t last) {
    return std::binary_search(set.begin() + first, set.begin() + last, token);
  };
  if (among(banned_, rules.banned_begin, rules.banned_end)) return kBanned;
  if (options_.repetition_penalty == 1.0 || !among(worse_, rules.worse_begin, rules.worse_end)) return log_prob;
  return rules.total == 0.0f ? penalized(log_prob) : penalized(log_prob + rules.total) - rules.total;
}

void Constraints::leave_only(int32_t token, float log_prob, std::vector<Candidate>& candidates) {
  for (Candidate& each : candidates) each.value = kBanned;
  candidates.front() = {token, log_prob, log_prob};
}

void Constraints::check_sound(const RowView& rows, int64_t row, float log_prob) {
  if (log_prob < std::numeric_limits<float>::infinity()) return;
  throw BrokenModel("request " + std::to_string(rows.request[row]) + ": after " + std::to_string(rows.length[row]) +
                    " tokens the model gave a log probability that is NaN or +inf; its weights are broken. "
                    "Convert or train the model again.");
}

void Constraints::check(const RowView& rows, int64_t k, const float* log_prob) const {
  bool sound = true;  // without a branch: this is read in every step
  for (int64_t i = 0; i < rows.rows * k; ++i) sound &= log_prob[i] < std::numeric_limits<float>::infinity();
  for (int64_t row = 0; !sound && row < rows.rows; ++row)
    for (int64_t i = row * k; i < (row + 1) * k; ++i) check_sound(rows, row, log_prob[i]);
  if (options_.early_stopping != EarlyStopping::kProven) return;
  for (int64_t row = 0; row < rows.rows; ++row)
    if (log_prob[row * k] > 0.0f)
      throw BrokenModel("the model gave a log probability of " + std::to_string(log_prob[row * k]) +
                        ", above 0: its output layer is not normalized, so early_stopping \"proven\" proves nothing. "
                        "Choose another early_stopping.");
}

}  // namespace sharpbeam

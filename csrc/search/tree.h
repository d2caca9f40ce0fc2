// The tokens of all hypotheses of a run as a tree, so that a step copies no prefix.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace sharpbeam {

// A node is an index, a hypothesis its last node. Nodes belong to a request; when all are used, those of requests that
// are done are used again, so a stream of requests that never ends needs no more memory than those in flight at a time.
class TokenTree {
 public:
  static constexpr int32_t kRoot = -1;     // parent of the first token
  static constexpr int32_t kNoNode = -2;   // of what has not ended
  static constexpr int32_t kSettled = -1;  // open, of a log probability that does not rest on an estimate

  using InFlight = std::function<bool(int32_t)>;

  // Finds `need` more nodes, so that `add` has them. `in_flight` says whose nodes are needed.
  void reserve(int64_t need, const InFlight& in_flight);

  // `open` is a place in OpenScores, where the log probability rests on an estimate.
  int32_t add(int32_t parent, int32_t token, float log_prob, int32_t owner, int32_t open = kSettled) {
    const int32_t node = ordered_ ? next_++ : free_[static_cast<size_t>(next_++)];
    nodes_[static_cast<size_t>(node)] = {parent, token, log_prob, owner, open, length(parent) + 1};
    return node;
  }

  // Calls visit(token, log_prob) for the tokens of a hypothesis, the last one first.
  template <typename Visit>
  void walk(int32_t node, Visit visit) const {
    for (; node != kRoot; node = nodes_[static_cast<size_t>(node)].parent)
      visit(nodes_[static_cast<size_t>(node)].token, nodes_[static_cast<size_t>(node)].log_prob);
  }

  int32_t parent(int32_t node) const { return nodes_[static_cast<size_t>(node)].parent; }
  int32_t open(int32_t node) const { return nodes_[static_cast<size_t>(node)].open; }
  // A log probability that was taken again; it counts as exact until `reopen`.
  void settle(int32_t node, float log_prob) {
    nodes_[static_cast<size_t>(node)].log_prob = log_prob, nodes_[static_cast<size_t>(node)].open = kSettled;
  }
  // Rests on a closer estimate, at the place `open`.
  void reopen(int32_t node, int32_t open) { nodes_[static_cast<size_t>(node)].open = open; }
  float log_prob(int32_t node) const { return nodes_[static_cast<size_t>(node)].log_prob; }
  // How many tokens a hypothesis has.
  int32_t length(int32_t node) const { return node == kRoot ? 0 : nodes_[static_cast<size_t>(node)].length; }
  // The sum of the log probabilities of a hypothesis, from the root on.
  double sum(int32_t node) const;

  // Tokens and log probabilities from the root to `node`.
  void path(int32_t node, std::vector<int32_t>& token, std::vector<float>& log_prob) const;

  // Whether `node` is the root or a node of `owner`. Nodes of requests in flight are never reused, so that a path from
  // such a node ends at the root.
  bool owns(int32_t owner, int32_t node) const {
    return node == kRoot || (node >= 0 && node < capacity() && nodes_[static_cast<size_t>(node)].owner == owner);
  }

  void clear();  // forgets every node, keeps the memory

  int64_t capacity() const { return static_cast<int64_t>(nodes_.size()); }  // nodes that there is memory for

 private:
  struct Node {
    int32_t parent, token;
    float log_prob;
    int32_t owner, open, length;
  };
  static constexpr int32_t kUnused = -1;  // owner of a node that is not in use

  std::vector<Node> nodes_;
  std::vector<int32_t> free_;  // the nodes to use next, from next_ on, unless all are in their order
  int32_t next_ = 0;
  bool ordered_ = true;
};

}  // namespace sharpbeam

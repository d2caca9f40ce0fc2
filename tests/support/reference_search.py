"""Greedy search by a reference model, a word at a time."""


def greedy(log_probs, source, eos, most):
    """The likeliest next word, again and again, until `eos`, which is not returned; at most `most` words.

    `log_probs(source, target)` are those of each word of `target` and of all others in its place, [T, V].
    """
    results = []
    while len(results) < most:
        word = int(log_probs(source, [*results, eos])[-1].argmax())
        if word == eos:
            break
        results.append(word)
    return results

#include "plan/scenario/suggest.hpp"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <tuple>
#include <utility>

#include "plan/scenario/schema.hpp"

namespace orrery::plan {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Between families of models. What else other stacks and people call a key is declared with it.
constexpr Pair kAliases[] = {
    {"hidden_size", "n_embd"},
    {"num_hidden_layers", "n_layer"},
    {"num_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "n_positions"},
    {"n_ctx", "n_positions"},
    {"intermediate_size", "n_inner"},
    {"ffn_hidden_size", "n_inner"},
    {"n_embd", "hidden_size"},
    {"n_layer", "num_hidden_layers"},
    {"num_layers", "num_hidden_layers"},
    {"n_head", "num_attention_heads"},
    {"n_inner", "intermediate_size"},
    {"ffn_hidden_size", "intermediate_size"},
    {"num_query_groups", "num_key_value_heads"},
    {"kv_channels", "head_dim"},
};

bool is_called(const KeySpec& key, std::string_view word) {
    return std::find(key.aliases.begin(), key.aliases.end(), word) != key.aliases.end();
}

int allowed_distance(std::string_view word) {
    if (word.size() < 3) return 0;
    return word.size() < 5 ? 1 : 2;
}

// The candidate that somebody calls by this very word; empty: none.
std::string other_name(std::string_view word, const std::vector<std::string>& candidates) {
    std::string found;
    const auto take = [&](std::string_view key) {
        if (std::find(candidates.begin(), candidates.end(), key) == candidates.end()) return;
        if (found.empty()) found = key;
    };
    for_each_key(scenario_schema(), "", [&](const std::string&, const KeySpec& key) {
        if (is_called(key, word)) take(key.name);
    });
    for (const auto& [alias, key] : kAliases)
        if (alias == word) take(key);
    return found;
}

}  // namespace

int edit_distance(std::string_view left, std::string_view right) {
    const std::size_t columns = right.size() + 1;
    std::vector<int> before(columns), last(columns), row(columns);
    for (std::size_t j = 0; j < columns; ++j)
        last[j] = static_cast<int>(j);
    for (std::size_t i = 1; i <= left.size(); ++i) {
        row[0] = static_cast<int>(i);
        for (std::size_t j = 1; j < columns; ++j) {
            const int replace = last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
            row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
            const bool swapped =
                i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
        }
        std::swap(before, last);
        std::swap(last, row);
    }
    return last[right.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
    std::string found = other_name(word, candidates);
    if (!found.empty()) return found;
    int best = allowed_distance(word) + 1;
    for (const std::string& candidate : candidates) {
        const auto longer = static_cast<std::ptrdiff_t>(word.size() - candidate.size());
        if (std::abs(longer) >= best) continue;  // the distance is at least that
        const int distance = edit_distance(word, candidate);
        if (distance < best) {
            best = distance;
            found = candidate;
        }
    }
    return found;
}

std::vector<std::string> by_distance(std::string_view word, std::vector<std::string> candidates,
                                     std::size_t limit) {
    constexpr std::size_t kLongestCompared = 200;
    word = word.substr(0, kLongestCompared);
    std::vector<std::tuple<bool, int, std::size_t>> ranked;
    for (std::size_t i = 0; i < candidates.size(); ++i)
        ranked.emplace_back(candidates[i].find(word) == std::string::npos,
                            edit_distance(word, candidates[i]), i);
    std::sort(ranked.begin(), ranked.end());
    std::vector<std::string> nearest_first;
    for (const auto& [lacks, distance, i] : std::span(ranked).first(std::min(limit, ranked.size())))
        nearest_first.push_back(std::move(candidates[i]));
    return nearest_first;
}

std::string part_of_key(std::string_view key) {
    std::string part;
    std::size_t depth = 0;
    bool several = false;
    for_each_key(scenario_schema(), "", [&](const std::string& path, const KeySpec& each) {
        if (each.name != key || path.find('.') == std::string::npos) return;
        if (path.find('[') != std::string::npos || path.starts_with("model.")) return;
        const auto dots = static_cast<std::size_t>(std::count(path.begin(), path.end(), '.'));
        if (!part.empty() && dots > depth) return;
        several = !part.empty() && dots == depth;
        depth = dots;
        part = path.substr(0, path.rfind('.'));
    });
    return several ? "" : part;
}

}  // namespace orrery::plan

#include "cli/import_trace_inferred.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "cli/library_clusters.hpp"
#include "cli/quantity.hpp"
#include "cli/report_sections.hpp"
#include "cli/scenario_input.hpp"
#include "cli/text_table.hpp"

namespace orrery::cli {
namespace {

using Json = nlohmann::ordered_json;
using compare::Certainty;
using compare::InferredKey;

constexpr std::size_t kMostCandidates = 8;
constexpr const char* kUsualDevice = "h100-sxm";  // where the files name none that is known
constexpr const char* kHostDevice = "cpu-core";
constexpr std::size_t kEvidenceColumns = 118;

std::vector<std::string> words_of_device(const std::string& device) {
    std::vector<std::string> words(1);
    for (const char c : device)
        if (c == '-')
            words.emplace_back();
        else
            words.back() += c;
    return words;
}

// "NVIDIA A100-SXM4-80GB" has the words of "a100-80gb-sxm". Of devices whose first word is in the
// name, the one with most words of it, then with fewest others.
std::string nearest_device(const std::vector<LibraryCluster>& all, std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::string best;
    std::pair<int, int> best_score{0, 0};
    std::set<std::string> devices;
    for (const LibraryCluster& one : all)
        devices.insert(one.cluster.device);
    for (const std::string& device : devices) {
        const std::vector<std::string> words = words_of_device(device);
        if (name.find(words.front()) == std::string::npos) continue;
        std::pair<int, int> score{0, 0};
        for (const std::string& word : words)
            ++(name.find(word) != std::string::npos ? score.first : score.second);
        score.second = -score.second;
        // Those that only a card's name tells are of servers: "NVIDIA H100 80GB HBM3".
        if (best.empty() || score > best_score ||
            (score == best_score && device.find("sxm") != std::string::npos)) {
            best = device;
            best_score = score;
        }
    }
    return best;
}

InferredKey cluster_for(const std::string& device, std::int64_t ranks) {
    const std::vector<LibraryCluster> all = library_clusters();
    InferredKey key{"cluster", nullptr, Certainty::likely, "", {}};
    std::string wanted = device.empty() ? kHostDevice : nearest_device(all, device);
    if (device.empty())
        key.evidence = "no device in the trace: operators of the host are the work";
    else
        key.evidence = device;
    if (wanted.empty()) {
        wanted = kUsualDevice;
        key.certainty = Certainty::assumed;
        key.evidence += ", which no cluster of the library has";
    }
    const LibraryCluster* chosen = nearest_cluster(all, {wanted}, ranks);
    if (chosen == nullptr) {
        chosen = nearest_cluster(all, {kUsualDevice}, ranks);
        key.certainty = Certainty::assumed;
        key.evidence += fmt::format("; the library has no network between nodes of {}", wanted);
    }
    key.value = cluster_of_size(*chosen, library_folder() + '/' + chosen->reference, ranks);
    // A cluster may have more devices than the layout has ranks.
    if (key.value.is_null() || ranks < chosen->cluster.devices_per_node)
        key.value = chosen->reference;
    return key;
}

std::string value_text(const Json& value) {
    if (value.is_object()) return value.value("name", "(its keys)");
    return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string table_of(const std::vector<InferredKey>& keys) {
    std::size_t key_width = 0, value_width = 0;
    for (const InferredKey& key : keys) {
        key_width = std::max(key_width, key.key.size());
        value_width = std::max(value_width, value_text(key.value).size());
    }
    std::string text;
    for (const InferredKey& key : keys) {
        std::string line =
            fmt::format("  {:{}}  {:{}}  {:7}  ", key.key, key_width, value_text(key.value),
                        value_width, compare::name(key.certainty));
        const std::size_t first = line.size();
        text += line + wrapped(key.evidence, kEvidenceColumns, first, first) + '\n';
    }
    return text;
}

std::string share_text(const MatchedShare& share) {
    return fmt::format("{} of the time op by op and {} by kind", percent_text(share.one_by_one),
                       percent_text(share.by_kind));
}

// The keys in which one differs from what was inferred first: "layout.zero_stage 2".
std::string difference(const InferredCandidate& one, const InferredCandidate& other) {
    std::string text;
    for (std::size_t i = 0; i < one.keys.size(); ++i)
        if (one.keys[i].value != other.keys[i].value)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", one.keys[i].key,
                                value_text(one.keys[i].value));
    return text;
}

Json key_json(const InferredKey& key) {
    return {{"key", key.key},
            {"value", key.value},
            {"certainty", compare::name(key.certainty)},
            {"evidence", key.evidence},
            {"alternatives", key.alternatives}};
}

}  // namespace

InferredChoice choose_inferred(
    const compare::Inference& inference, const std::string& device,
    const std::function<std::optional<MatchedShare>(const Json&)>& share_of) {
    const InferredKey cluster = cluster_for(device, inference.ranks);
    InferredChoice choice;
    for (std::vector<InferredKey>& keys : candidates_of(inference, kMostCandidates)) {
        InferredCandidate& one = choice.candidates.emplace_back();
        const Json parts = compare::scenario_of(keys);
        one.scenario = {{"description",
                         "Inferred from a trace by orrery import-trace: what it is sure of, and "
                         "what it assumed, import-trace says again"},
                        {"model", parts["model"]},
                        {"cluster", cluster.value},
                        {"layout", parts["layout"]},
                        {"training", parts["training"]}};
        const auto behind = std::find_if(keys.begin(), keys.end(), [](const InferredKey& key) {
            return !key.key.starts_with("model.");
        });
        keys.insert(behind, cluster);
        one.keys = std::move(keys);
        one.share = share_of(one.scenario);
    }
    // Op by op first: a kind alone says little. In millionths, which sums of times are good for.
    const auto score = [&](std::size_t i) {
        const std::optional<MatchedShare>& share = choice.candidates[i].share;
        return share ? std::pair{std::llround(share->one_by_one * 1e6),
                                 std::llround(share->all() * 1e6)}
                     : std::pair{-1LL, -1LL};
    };
    for (std::size_t i = 1; i < choice.candidates.size(); ++i)
        if (score(i) > score(choice.chosen)) choice.chosen = i;
    return choice;
}

std::string inferred_text(const InferredChoice& choice, const std::string& path,
                          const Console& console) {
    const InferredCandidate& best = choice.best();
    std::string text = heading("inferred scenario", console) + table_of(best.keys);
    std::string open;
    std::size_t uncertain = 0;
    for (const InferredKey& key : best.keys) {
        if (key.certainty == Certainty::certain) continue;
        ++uncertain;
        open += (open.empty() ? "" : ", ") + key.key;
    }
    if (uncertain > 0)
        text += labelled("to confirm", fmt::format("{} of {} keys are not certain: {}", uncertain,
                                                   best.keys.size(), open));
    bool first = true;
    for (std::size_t i = 0; i < choice.candidates.size(); ++i) {
        const InferredCandidate& other = choice.candidates[i];
        if (i == choice.chosen || !other.share || !best.share) continue;
        text += labelled(std::exchange(first, false) ? "chosen" : "",
                         fmt::format("{} rather than {}: matched are {}, with the other {}",
                                     difference(best, other), difference(other, best),
                                     share_text(*best.share), share_text(*other.share)));
    }
    text += labelled("written to", path);
    return text;
}

std::string known_text(const compare::Inference& inference, const Console& console) {
    if (inference.keys.empty()) return "";
    return heading("known of the scenario", console) + table_of(inference.keys);
}

Json inferred_json(const InferredChoice& choice) {
    Json json = {{"scenario", choice.best().scenario}};
    json["keys"] = Json::array();
    for (const InferredKey& key : choice.best().keys)
        json["keys"].push_back(key_json(key));
    json["candidates"] = Json::array();
    for (const InferredCandidate& one : choice.candidates) {
        Json values = Json::object();
        for (const InferredKey& key : one.keys)
            if (!key.alternatives.empty()) values[key.key] = key.value;
        Json candidate = {{"values", std::move(values)}, {"chosen", &one == &choice.best()}};
        if (one.share) {
            candidate["matched_share"] = one.share->all();
            candidate["matched_by_op_share"] = one.share->one_by_one;
        }
        json["candidates"].push_back(std::move(candidate));
    }
    return json;
}

Json known_json(const compare::Inference& inference) {
    Json json = {{"keys", Json::array()}, {"missing", inference.missing}};
    for (const InferredKey& key : inference.keys)
        json["keys"].push_back(key_json(key));
    return json;
}

}  // namespace orrery::cli

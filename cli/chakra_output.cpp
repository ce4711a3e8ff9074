#include "cli/chakra_output.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/quantity.hpp"
#include "cli/subcommand.hpp"
#include "trace/formats/chakra.hpp"

namespace orrery::cli {
namespace {

constexpr std::string_view kFolded = "folded";
constexpr double kMostBytes = 8e9;  // that nobody asked for rank by rank

OutputKind chakra_output() {
    return {true, [](const std::string& folder) -> std::string {
                const std::string foreign = trace::foreign_to_chakra(folder);
                return foreign.empty()
                           ? ""
                           : fmt::format("holds {}, which is no Chakra trace of orrery", foreign);
            }};
}

std::optional<plan::Rank> rank_number(std::string_view text) {
    plan::Rank number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

// "0-7,64": in their order, each once.
std::vector<plan::Rank> listed(const std::string& list, plan::Rank ranks) {
    std::vector<plan::Rank> all;
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t end = std::min(list.find(',', at), list.size());
        const std::string part = list.substr(at, end - at);
        const std::size_t dash = part.find('-');
        const auto first = rank_number(std::string_view(part).substr(0, dash));
        const auto last = dash == std::string::npos
                              ? first
                              : rank_number(std::string_view(part).substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first || *last >= ranks)
            throw UsageError(
                fmt::format("--chakra-ranks {}: \"{}\" is neither a rank nor ranks from one to "
                            "another, as 0-3; this "
                            "layout has ranks 0 to {}",
                            list, part, ranks - 1));
        for (plan::Rank rank = *first; rank <= *last; ++rank)
            all.push_back(rank);
        at = end + 1;
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

// Without prices the ranks of a program differ by whom they speak to alone.
std::vector<plan::Rank> first_of_programs(const plan::Plan& plan) {
    std::vector<plan::Rank> ranks;
    for (const plan::Program& program : plan.programs)
        ranks.push_back(plan.mesh.rank({0, 0, 0, program.pipeline_rank}));
    return ranks;
}

std::vector<plan::Rank> all_ranks(const plan::Plan& plan) {
    std::vector<plan::Rank> ranks(static_cast<std::size_t>(plan.mesh.ranks()));
    std::iota(ranks.begin(), ranks.end(), plan::Rank{0});
    if (const double bytes = trace::chakra_bytes(plan, ranks); bytes > kMostBytes)
        throw UsageError(fmt::format(
            "--chakra: {} files of together about {:.0f} GB; --chakra-ranks says which are "
            "wanted: a list, as 0-7,64, or folded, one of each kind",
            whole_text(plan.mesh.ranks()), bytes / 1e9));
    return ranks;
}

}  // namespace

void ChakraOutput::declare(CLI::App& app, CommandFiles& files) {
    files
        .writes(app, "--chakra", folder_, chakra_output(),
                "Write Chakra execution traces, a file a rank, into this folder")
        ->type_name("DIR");
    app.add_option("--chakra-ranks", ranks_,
                   "With --chakra: these ranks alone, as 0-7,64; folded: one of each kind")
        ->type_name("LIST");
}

void ChakraOutput::require_sense() const {
    if (!wanted() && !ranks_.empty())
        throw UsageError(
            "--chakra-ranks says of which ranks --chakra writes files: name its folder");
}

void ChakraOutput::write(const plan::Plan& plan, const trace::Trace* priced,
                         const std::string& priced_file) const {
    std::optional<trace::ChakraPrices> prices;
    if (priced != nullptr) prices.emplace(plan, *priced);
    if (prices && !prices->why_not().empty())
        throw UsageError(
            fmt::format("{}: a trace of another plan: {}", priced_file, prices->why_not()));
    std::vector<plan::Rank> ranks;
    if (ranks_ == kFolded)
        ranks = prices ? prices->representatives() : first_of_programs(plan);
    else
        ranks = ranks_.empty() ? all_ranks(plan) : listed(ranks_, plan.mesh.ranks());
    for (const plan::Rank rank : ranks)
        if (prices && !prices->knows(rank))
            throw UsageError(fmt::format("{} says nothing of rank {}: --chakra-ranks leaves it out",
                                         priced_file, rank));
    trace::write_chakra(plan, ranks, prices ? &*prices : nullptr, folder_.path());
}

}  // namespace orrery::cli

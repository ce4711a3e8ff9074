#include "runtime/train/agreement.hpp"

#include <cstring>
#include <map>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/data/content_hash.hpp"
#include "runtime/launch/host_names.hpp"

namespace orrery::runtime {
namespace {

using StatementJson = nlohmann::ordered_json;

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string written(const RunStatement& statement) {
    StatementJson all = StatementJson::array();
    for (const auto& [key, value] : statement)
        all.push_back({key, value});
    return all.dump(-1, ' ', false, StatementJson::error_handler_t::replace);
}

RunStatement read(const std::string& text) {
    RunStatement statement;
    for (const auto& each : StatementJson::parse(text))
        statement.emplace_back(each.at(0).get<std::string>(), each.at(1).get<std::string>());
    return statement;
}

std::string shown(const std::string& value) {
    constexpr std::size_t kMost = 80;
    return value.size() <= kMost ? value : value.substr(0, kMost) + "…";
}

// In the order of ours, then what only they have.
std::string difference(const RunStatement& ours, const RunStatement& theirs) {
    const std::map<std::string, std::string> found(theirs.begin(), theirs.end());
    for (const auto& [key, value] : ours) {
        const auto there = found.find(key);
        if (there == found.end()) return fmt::format("{}: {} here, not there", key, shown(value));
        if (there->second != value)
            return fmt::format("{}: {} there, {} here", key, shown(there->second), shown(value));
    }
    const std::map<std::string, std::string> known(ours.begin(), ours.end());
    for (const auto& [key, value] : theirs)
        if (!known.contains(key)) return fmt::format("{}: {} there, not here", key, shown(value));
    return "the order of their settings";
}

}  // namespace

void require_agreement(ControlPlane& control, const RunStatement& own) {
    const std::string statement = written(own);
    const std::string hash = content_hash(statement);
    std::int64_t odd = -1;
    const std::vector<ControlPlane::Bytes> hashes = control.all_gather(bytes_of(hash));
    for (std::size_t rank = 0; rank < hashes.size() && odd < 0; ++rank)
        if (text_of(hashes[rank]) != text_of(hashes[0])) odd = static_cast<std::int64_t>(rank);
    if (odd < 0) return;
    const std::vector<std::string> hosts = host_names(control);
    const bool tells = control.rank() == 0 || control.rank() == odd;
    const auto statements = control.gather(bytes_of(tells ? statement : std::string()));
    ControlPlane::Bytes said;
    if (control.rank() == 0) {
        const std::string text =
            fmt::format("rank {} on {} differs from rank 0 on {} in {}", odd,
                        hosts[static_cast<std::size_t>(odd)], hosts[0],
                        difference(own, read(text_of(statements[static_cast<std::size_t>(odd)]))));
        const auto bytes = bytes_of(text);
        said.assign(bytes.begin(), bytes.end());
    }
    control.broadcast(said);
    try {
        control.barrier();  // nobody leaves before all have been told
    } catch (const CommunicationError&) {
        // another has left with the same words
    }
    throw DisagreementError(text_of(said));
}

}  // namespace orrery::runtime

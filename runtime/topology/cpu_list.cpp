#include "runtime/topology/cpu_list.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include <fmt/format.h>

namespace orrery::runtime {
namespace {

constexpr int kMostCpus = 1 << 16;  // more than any kernel counts

std::optional<int> number_of(std::string_view text) {
    int number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || rest != end || number < 0 || number >= kMostCpus)
        return std::nullopt;
    return number;
}

}  // namespace

CpuList parse_cpu_list(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.remove_suffix(1);
    CpuList cpus;
    while (!text.empty()) {
        const std::string_view range = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), range.size() + 1));
        const std::size_t dash = range.find('-');
        const auto first = number_of(range.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : number_of(range.substr(dash + 1));
        if (!first || !last || *last < *first) return {};
        for (int cpu = *first; cpu <= *last; ++cpu)
            cpus.push_back(cpu);
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

std::string cpu_list_text(const CpuList& cpus) {
    std::string text;
    for (std::size_t i = 0; i < cpus.size();) {
        std::size_t last = i;
        while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1)
            ++last;
        if (!text.empty()) text += ',';
        text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
        i = last + 1;
    }
    return text;
}

CpuList in_both(const CpuList& a, const CpuList& b) {
    CpuList both;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
    return both;
}

}  // namespace orrery::runtime

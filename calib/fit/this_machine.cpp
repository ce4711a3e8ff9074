#include "calib/fit/this_machine.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>

#include <fmt/format.h>
#include <tbb/info.h>
#include <nlohmann/json.hpp>

namespace orrery::fit {
namespace {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(": ");
        if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
            return line.substr(colon + 2);
    }
    return "unknown processor";
}

// "Intel(R) Xeon(R) Processor" as "intel-r-xeon-r-processor".
std::string in_file_name(const std::string& text) {
    std::string name;
    for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        else if (!name.empty() && name.back() != '-')
            name += '-';
    }
    while (!name.empty() && name.back() == '-')
        name.pop_back();
    return name;
}

}  // namespace

ThisMachine this_machine() {
    return {processor_name(), tbb::info::default_concurrency()};
}

nlohmann::ordered_json machine_json(const ThisMachine& machine, const std::string& version,
                                    const std::string& date) {
    return {{"processor", machine.processor},
            {"cores", machine.cores},
            {"kernels", timed_sources},
            {"date", date},
            {"version", version}};
}

std::int64_t threads_of_rank(const ThisMachine& machine, std::int64_t ranks) {
    return std::max<std::int64_t>(1, machine.cores / ranks);
}

std::string why_not_of(const ThisMachine& machine, std::int64_t threads_per_rank,
                       const sim::Profile& profile) {
    if (!profile.machine) return "it does not say of which computer it is";
    const sim::ProfiledMachine& of = *profile.machine;
    if (of.processor != machine.processor)
        return fmt::format("it is of another processor: {}, this is {}", of.processor,
                           machine.processor);
    if (of.cores != machine.cores)
        return fmt::format("it is of {} cores, this process may use {}", of.cores, machine.cores);
    if (of.kernels != timed_sources)
        return fmt::format("it is of other kernels than this program's (made by orrery {} on {})",
                           of.version, of.date);
    const double threads = profile.hardware.multiprocessors.value;
    if (threads != static_cast<double>(threads_per_rank))
        return fmt::format("it is of ranks of {} threads, not {}", threads, threads_per_rank);
    return "";
}

std::optional<std::string> machine_profile_path(const ThisMachine& machine,
                                                std::int64_t threads_per_rank,
                                                const Variables& variables) {
    const char* cache = variables("XDG_CACHE_HOME");
    const char* home = variables("HOME");
    std::string folder;
    if (cache != nullptr && *cache == '/')
        folder = cache;
    else if (home != nullptr && *home == '/')
        folder = std::string(home) + "/.cache";
    else
        return std::nullopt;
    return fmt::format("{}/orrery/{}-{}-cores-{}-per-rank.json", folder,
                       in_file_name(machine.processor), machine.cores, threads_per_rank);
}

}  // namespace orrery::fit

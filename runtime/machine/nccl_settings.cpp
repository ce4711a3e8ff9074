#include "runtime/machine/nccl_settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace orrery::runtime {
namespace {

constexpr std::string_view kPrefix = "NCCL_";
constexpr int kMostRetries = 7;
// A link that flaps is back after seconds (MegaScale, NSDI 2024, section 6.3).
constexpr double kLeastPatience_s = 10;
constexpr int kGenerousTimeout = 22;

using ByName = std::map<std::string, NcclSetting>;

// The first that says it counts.
void add(const std::string& line, const std::string& origin, ByName& settings) {
    const std::size_t equals = line.find('=');
    if (line.compare(0, kPrefix.size(), kPrefix) != 0 || equals == std::string::npos) return;
    const std::string name = line.substr(0, equals);
    settings.emplace(name, NcclSetting{name, line.substr(equals + 1), origin});
}

void add_file(const std::string& path, const std::string& called, ByName& settings) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        add(line, called, settings);
}

std::string variable(const std::vector<std::string>& environment, const std::string& name) {
    for (const std::string& line : environment)
        if (line.compare(0, name.size() + 1, name + '=') == 0) return line.substr(name.size() + 1);
    return "";
}

const NcclSetting* find(const Machine& machine, std::string_view name) {
    for (const NcclSetting& setting : machine.nccl_settings)
        if (setting.name == name) return &setting;
    return nullptr;
}

bool is_on(const Machine& machine, std::string_view name) {
    const NcclSetting* setting = find(machine, name);
    return setting != nullptr && !setting->value.empty() && setting->value != "0";
}

std::string said(const NcclSetting& setting) {
    return fmt::format("{}={} ({})", setting.name, setting.value, setting.origin);
}

std::optional<int> whole(const std::string& text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// "^=eth0,eth1": what is to be taken, or left, by its beginning or by its whole name.
struct Filter {
    bool leaves = false, exact = false;
    std::vector<std::string> words;

    explicit Filter(std::string text) {
        const auto take = [&](char mark) {
            const bool there = !text.empty() && text.front() == mark;
            if (there) text.erase(0, 1);
            return there;
        };
        leaves = take('^');
        exact = take('=');
        for (std::size_t begin = 0; begin <= text.size();) {
            const std::size_t end = std::min(text.find(',', begin), text.size());
            if (end > begin) words.push_back(text.substr(begin, end - begin));
            begin = end + 1;
        }
    }
    bool takes(const std::string& name) const {
        const bool found = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
            const std::string device = word.substr(0, word.find(':'));
            return exact ? name == device : name.compare(0, device.size(), device) == 0;
        });
        return found != leaves;
    }
};

bool is_rdma(const NetworkPort& port) {
    return port.kind != "Ethernet";
}

// "mlx5_0" of "mlx5_0/1", each once.
std::vector<std::string> rdma_devices(const Machine& machine) {
    std::set<std::string> devices;
    for (const NetworkPort& port : machine.network)
        if (is_rdma(port)) devices.insert(port.name.substr(0, port.name.find('/')));
    return {devices.begin(), devices.end()};
}

bool has_active_rdma(const Machine& machine) {
    return std::any_of(machine.network.begin(), machine.network.end(),
                       [](const auto& port) { return is_rdma(port) && port.state == "active"; });
}

// Of this NCCL where its version is known, else of a new one.
int default_timeout(const Machine& machine) {
    int major = 0, minor = 0;
    const std::string& version = machine.library("NCCL").version;
    const bool known = std::sscanf(version.c_str(), "%d.%d", &major, &minor) == 2;
    return known && major == 2 && minor < 23 ? 18 : 20;
}

// Of a number in [0, most]; nothing, and advice, where it is none.
std::optional<int> number_of(const Machine& machine, std::string_view name, int otherwise, int most,
                             std::vector<Finding>& advice) {
    const NcclSetting* setting = find(machine, name);
    if (setting == nullptr) return otherwise;
    const std::optional<int> value = whole(setting->value);
    if (value && *value >= 0 && *value <= most) return value;
    advice.push_back({fmt::format("{} is no number from 0 to {}", said(*setting), most),
                      fmt::format("set {} to one, or leave it unset", name)});
    return std::nullopt;
}

void advise_on_patience(const Machine& machine, std::vector<Finding>& advice) {
    constexpr const char* kTimeout = "NCCL_IB_TIMEOUT";
    constexpr const char* kRetries = "NCCL_IB_RETRY_CNT";
    const bool set = find(machine, kTimeout) != nullptr || find(machine, kRetries) != nullptr;
    if (!set && !has_active_rdma(machine)) return;
    const auto timeout = number_of(machine, kTimeout, default_timeout(machine),
                                   std::numeric_limits<int>::max(), advice);
    const auto retries = number_of(machine, kRetries, kMostRetries, kMostRetries, advice);
    if (!timeout || !retries) return;
    const double patience = ib_patience_s(*timeout, *retries);
    if (patience >= kLeastPatience_s) return;
    const auto called = [&](const char* name, int value) {
        const NcclSetting* setting = find(machine, name);
        return setting != nullptr ? said(*setting)
                                  : fmt::format("{}={} (its default)", name, value);
    };
    advice.push_back(
        {fmt::format("an InfiniBand or RoCE link that is down for {:.2g} s ends the run: {}, {}",
                     patience, called(kTimeout, *timeout), called(kRetries, *retries)),
         fmt::format("{}={} with {} retries waits {:.0f} s; links that flap are back after seconds",
                     kTimeout, kGenerousTimeout, kMostRetries,
                     ib_patience_s(kGenerousTimeout, kMostRetries))});
}

// Interfaces that lead to no other machine.
bool is_of_this_machine(const std::string& interface) {
    for (const char* own : {"lo", "docker", "virbr", "veth", "br-", "cni", "flannel"})
        if (interface.starts_with(own)) return true;
    return false;
}

void advise_on_interfaces(const Machine& machine, std::vector<Finding>& advice) {
    const NcclSetting* setting = find(machine, "NCCL_SOCKET_IFNAME");
    if (setting == nullptr) return;
    const Filter filter(setting->value);
    std::vector<std::string> taken;
    for (const std::string& interface : machine.interfaces)
        if (filter.takes(interface)) taken.push_back(interface);
    const std::string remedy = fmt::format(
        "name interfaces that other machines reach, each with = before it; there are {}",
        machine.interfaces.empty() ? "none"
                                   : fmt::format("{}", fmt::join(machine.interfaces, ", ")));
    if (taken.empty())
        advice.push_back(
            {said(*setting) + " takes no interface of this machine: NCCL does not start", remedy});
    else if (std::all_of(taken.begin(), taken.end(), is_of_this_machine))
        advice.push_back({fmt::format("{} takes {} alone, which no other machine reaches",
                                      said(*setting), fmt::join(taken, ", ")),
                          remedy});
}

void advise_on_adapters(const Machine& machine, std::vector<Finding>& advice) {
    const std::vector<std::string> devices = rdma_devices(machine);
    const NcclSetting* setting = find(machine, "NCCL_IB_HCA");
    if (setting != nullptr) {
        const Filter filter(setting->value);
        if (std::none_of(devices.begin(), devices.end(),
                         [&](const std::string& device) { return filter.takes(device); }))
            advice.push_back(
                {said(*setting) + " takes no adapter of this machine: NCCL falls back to TCP",
                 fmt::format(
                     "name adapters that are there: {}",
                     devices.empty() ? "none" : fmt::format("{}", fmt::join(devices, ", ")))});
        for (const std::string& word : filter.words)
            for (const std::string& device : devices)
                if (!filter.exact && device.size() > word.size() && device.starts_with(word) &&
                    std::find(devices.begin(), devices.end(), word) != devices.end()) {
                    advice.push_back(
                        {fmt::format("{} means {} as well: words are beginnings of names",
                                     said(*setting), device),
                         "put = before the list, so that names are whole"});
                    break;
                }
    }
    if (!has_active_rdma(machine)) return;
    constexpr const char* kSlow =
        "{}: collectives between machines take TCP, though there are {} "
        "InfiniBand or RoCE adapters";
    const NcclSetting* net = find(machine, "NCCL_NET");
    const NcclSetting* off =
        is_on(machine, "NCCL_IB_DISABLE") ? find(machine, "NCCL_IB_DISABLE") : nullptr;
    std::string word = net == nullptr ? "" : net->value;
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (off == nullptr && word == "socket") off = net;
    if (off != nullptr)
        advice.push_back({fmt::format(kSlow, said(*off), devices.size()),
                          fmt::format("unset {}, unless it works around a fault", off->name)});
}

void advise_on_paths(const Machine& machine, std::vector<Finding>& advice) {
    if (machine.gpus.size() > 1)
        for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"})
            if (is_on(machine, name))
                advice.push_back({said(*find(machine, name)) +
                                      ": GPUs of this machine take slower ways to each other",
                                  fmt::format("unset {}, unless it works around a fault", name)});
    if (const NcclSetting* protocol = find(machine, "NCCL_PROTO")) {
        const Filter filter(protocol->value);
        if (!filter.leaves &&
            std::find(filter.words.begin(), filter.words.end(), "LL128") != filter.words.end())
            advice.push_back({said(*protocol) +
                                  ": where the platform does not keep 128 bytes whole, sums are "
                                  "wrong without a word",
                              "unset NCCL_PROTO: NCCL takes LL128 where it is safe"});
    }
}

}  // namespace

std::vector<std::string> environment_lines() {
    std::vector<std::string> lines;
    for (char** line = environ; line != nullptr && *line != nullptr; ++line)
        lines.emplace_back(*line);
    return lines;
}

std::vector<NcclSetting> read_nccl_settings(const std::string& root,
                                            const std::vector<std::string>& environment) {
    ByName settings;
    for (const std::string& line : environment)
        add(line, "environment", settings);
    std::string own = variable(environment, "NCCL_CONF_FILE");
    if (const std::string home = variable(environment, "HOME"); own.empty() && !home.empty())
        own = home + "/.nccl.conf";
    if (!own.empty()) add_file(own, own, settings);
    constexpr const char* kSystem = "/etc/nccl.conf";
    add_file(root + kSystem, kSystem, settings);
    std::vector<NcclSetting> all;
    for (auto& [name, setting] : settings)
        all.push_back(std::move(setting));
    return all;
}

double ib_patience_s(int timeout, int retries) {
    if (timeout <= 0 || timeout > 31) return std::numeric_limits<double>::infinity();
    return std::ldexp(4.096e-6, timeout) * retries;
}

void advise_on_nccl(const Machine& machine, std::vector<Finding>& advice) {
    advise_on_patience(machine, advice);
    advise_on_interfaces(machine, advice);
    advise_on_adapters(machine, advice);
    advise_on_paths(machine, advice);
}

}  // namespace orrery::runtime

// The file of nccl-tests -J, versions 1 and 2 (src/util.cu, github.com/NVIDIA/nccl-tests):
//
//   { "version": 2, "args": ["./all_reduce_perf", …], "nccl_version": 22805,
//     "config": { "nthreads": 1, "ngpus": 1, …,
//                 "devices": [ { "rank": 0, "group": 0, "hostname": "host", "device_info": "NVIDIA
//                 …" }, … ] },
//     "results": [ { "size": 8, "type": "float", …,
//                    "out_of_place": { "time": 12.34, "alg_bw": 0.0, "bus_bw": 0.0, "nwrong": 0.0
//                    }, "in_place": { … } }, … ], … }
//
// Of a process with several GPUs only the first is among the devices.
#include <algorithm>
#include <cstdint>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calib/fit/nccl_tests.hpp"

namespace orrery::fit {
namespace {

using nlohmann::json;

// A member that may be absent or of another type.
int whole_at(const json& object, const char* key, int otherwise) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_integer() ? found->get<int>() : otherwise;
}

std::string text_at(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const json& member(const json& object, const char* key) {
    static const json kNothing;
    const auto found = object.is_object() ? object.find(key) : object.end();
    return found == object.end() ? kNothing : *found;
}

void read_devices(const json& config, NcclRun& run) {
    std::set<std::string> hosts;
    std::set<int> groups;
    const json& devices = member(config, "devices");
    for (const json& device : devices) {
        if (!device.is_object()) continue;
        hosts.insert(text_at(device, "hostname"));
        groups.insert(whole_at(device, "group", 0));
        run.device = text_at(device, "device_info");
    }
    // Beyond any machine they are a fault elsewhere: no bus bandwidth fits them.
    constexpr std::int64_t kMost = 10000;
    const std::int64_t ranks_per_process =
        std::clamp<std::int64_t>(whole_at(config, "nthreads", 1), 0, kMost) *
        std::clamp<std::int64_t>(whole_at(config, "ngpus", 1), 0, kMost);
    // Where each GPU is listed, the second is rank 1, else the first of the second process.
    const bool lists_each =
        devices.size() > 1 && devices[1].is_object() && whole_at(devices[1], "rank", 0) == 1;
    const auto listed = static_cast<std::int64_t>(devices.size());
    run.ranks =
        static_cast<int>(std::min(kMost * kMost, lists_each ? listed : listed * ranks_per_process));
    run.nodes = static_cast<int>(hosts.size());
    run.groups = static_cast<int>(groups.size());
}

void read_timing(const json& timing, NcclTiming row, NcclTests& tests, NcclRun& run) {
    if (timing.is_null()) return;  // not done this way
    auto fault = [&](const char* key) {
        tests.faults.push_back(
            fmt::format("{}/{}: a number is expected, not {}", row.place, key,
                        member(timing, key).dump(-1, ' ', false, json::error_handler_t::replace)));
    };
    const json& time = member(timing, "time");
    const json& bus = member(timing, "bus_bw");
    const json& wrong = member(timing, "nwrong");
    if (!time.is_number()) fault("time");
    if (!bus.is_number()) fault("bus_bw");
    if (!wrong.is_number() && !wrong.is_null()) fault("nwrong");
    if (!time.is_number() || !bus.is_number()) return;
    row.seconds = time.get<double>() * 1e-6;
    row.bus_GBps = bus.get<double>();
    if (wrong.is_number()) row.wrong = wrong.get<double>();
    run.timings.push_back(row);
}

void read_results(const json& results, const std::string& path, NcclTests& tests, NcclRun& run) {
    for (std::size_t i = 0; i < results.size(); ++i) {
        const std::string place = fmt::format("{}: /results/{}", path, i);
        const json& size = member(results[i], "size");
        if (!size.is_number_unsigned()) {
            tests.faults.push_back(place + "/size: a number of bytes is expected");
            continue;
        }
        if (size == 0) continue;  // fewer bytes than ranks to share them: nothing was sent
        for (const char* way : {"out_of_place", "in_place"})
            read_timing(
                member(results[i], way),
                {place + "/" + way, text_at(results[i], "type"), size.get<double>(), 0, 0, {}},
                tests, run);
    }
}

}  // namespace

NcclTests read_nccl_json(const std::string& text, const std::string& path) {
    NcclTests tests;
    const json file = json::parse(text, nullptr, false);
    const json& config = member(file, "config");
    const json& results = member(file, "results");
    if (file.is_discarded()) {
        tests.faults.push_back(path + ": not JSON; was the run cut short?");
    } else if (!config.is_object() || !results.is_array()) {
        tests.faults.push_back(path + ": not of nccl-tests -J, which has 'config' and 'results'");
    } else {
        NcclRun run;
        run.place = path;
        const json& args = member(file, "args");
        if (args.is_array() && !args.empty() && args[0].is_string())
            run.collective = collective_of_program(args[0].get<std::string>());
        if (const int code = whole_at(file, "nccl_version", 0); code > 0)
            run.nccl_version = nccl_version_text(code);
        read_devices(config, run);
        read_results(results, path, tests, run);
        tests.runs.push_back(std::move(run));
    }
    return tests;
}

}  // namespace orrery::fit

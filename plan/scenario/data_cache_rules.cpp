// Rules of the section "storage": a cache needs disks, and is what keys of caches are about.
#include <fmt/format.h>

#include "plan/scenario/rules.hpp"
#include "plan/scenario/spellings.hpp"

namespace orrery::plan {
namespace {

void check_disks(Reading& reading, const Scenario& scenario) {
    if (!reading.good({"cluster.storage"}) || scenario.cluster.storage.read_GBps > 0) return;
    Diagnostic& fault = reading.report("S080", "/cluster/storage",
                                       "nodes keep data on disks that the cluster does not have: "
                                       "cluster needs the key \"storage\"");
    fault.arithmetic = fmt::format("storage.cache = \"{}\"", spelling(scenario.storage->cache));
    fault.help.push_back(
        "\"storage\": {\"capacity_GB\": 30000, \"read_GBps\": 25, \"write_GBps\": 15, "
        "\"latency_us\": 100}, all of a node");
}

void check_neighbours(Reading& reading, const Scenario& scenario) {
    const SharedStorage& storage = *scenario.storage;
    if (storage.cache != DataCache::neighbours || !reading.good({"cluster"}) ||
        scenario.cluster.nodes > 1)
        return;
    Diagnostic& fault =
        reading.report("S081", "/storage/cache", "there are no neighbours to read from");
    fault.arithmetic = "cluster.nodes = 1";
    fault.help.push_back("cache: \"local\"");
}

void check_chain(Reading& reading, const Scenario& scenario) {
    const SharedStorage& storage = *scenario.storage;
    if (storage.warming != Warming::chain || !reading.good({"cluster"})) return;
    const bool alike = storage.cache == DataCache::local && storage.reshuffled;
    if (alike && scenario.cluster.nodes > 1) return;
    Diagnostic& fault =
        alike
            ? reading.report("S081", "/storage/warming", "a chain needs a node to pass data on to")
            : reading.report("S082", "/storage/warming",
                             "each node keeps other data, and a chain passes on the same to all");
    fault.arithmetic = alike ? "cluster.nodes = 1"
                             : fmt::format("storage.cache = \"{}\", storage.reshuffled = {}",
                                           spelling(storage.cache), storage.reshuffled);
    fault.help.push_back(
        alike ? "warming: \"from_store\" or \"as_read\""
              : "warming: \"from_store\", or cache: \"local\" with reshuffled: true");
}

}  // namespace

void check_data_cache(Reading& reading, const Scenario& scenario) {
    if (!scenario.storage || !reading.good({"storage"})) return;
    const SharedStorage& storage = *scenario.storage;
    if (storage.cache == DataCache::none) {
        if (storage.warming == Warming::as_read) return;
        Diagnostic& fault =
            reading.report("S082", "/storage/warming", "there is no cache that could be warmed");
        fault.arithmetic = "storage.cache = \"none\"";
        fault.help.push_back("cache: \"local\" or \"neighbours\"");
        return;
    }
    if (storage.cached_share > 0) {
        Diagnostic& fault =
            reading.report("S082", "/storage/cached_share",
                           "what nodes read from their own disks follows from the cache");
        fault.arithmetic = fmt::format("storage.cache = \"{}\"", spelling(storage.cache));
        fault.help.push_back("leave out cached_share, or cache");
    }
    check_disks(reading, scenario);
    check_neighbours(reading, scenario);
    check_chain(reading, scenario);
}

}  // namespace orrery::plan

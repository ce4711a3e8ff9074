#include "plan/scenario/elastic_layouts.hpp"

#include <utility>

#include <fmt/format.h>

#include "plan/scenario/document.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kElasticLayouts = "/run/elastic_layouts";
constexpr std::string_view kLayoutPart = "/layout/";

std::string key_of_layout(std::string_view pointer) {
    pointer.remove_prefix(kLayoutPart.size());
    return std::string(pointer.substr(0, pointer.find('/')));
}

// What is wrong with a layout stands where it is listed, if a key of its own is at fault.
void take_over(Reading& reading, std::size_t number, const Json& changes,
               std::vector<Diagnostic> faults) {
    const std::string listed = fmt::format("{}/{}", kElasticLayouts, number);
    for (Diagnostic& fault : faults) {
        const bool own = fault.pointer.starts_with(kLayoutPart) &&
                         changes.contains(key_of_layout(fault.pointer));
        if (own)
            reading.document().locate(listed + '/' + fault.pointer.substr(kLayoutPart.size()), "",
                                      fault);
        else
            fault.message = fmt::format("with run.elastic_layouts[{}]: {}", number, fault.message);
        reading.errors().push_back(std::move(fault));
    }
}

void check_fewer_ranks(Reading& reading, const std::string& pointer, const Scenario& scenario,
                       const ElasticLayout& elastic) {
    if (elastic.ranks < scenario.layout.ranks()) return;
    Diagnostic& fault =
        reading.report("S071", pointer, "a run that has lost ranks has none left for this layout");
    fault.arithmetic =
        fmt::format("its ranks = {}, the layout's = {}", elastic.ranks, scenario.layout.ranks());
    fault.help.push_back(
        fmt::format("degrees whose product is below {}; data_parallel is a number here",
                    scenario.layout.ranks()));
}

void check_same_batch(Reading& reading, const std::string& pointer, const Scenario& scenario,
                      const Layout& changed) {
    if (changed.global_batch_size == scenario.layout.global_batch_size) return;
    Diagnostic& fault = reading.report("S071", pointer + "/global_batch_size",
                                       "a run does not change its batch when it loses ranks: it "
                                       "would train another model");
    fault.arithmetic = fmt::format("global_batch_size = {}, the layout's = {}",
                                   changed.global_batch_size, scenario.layout.global_batch_size);
    fault.help.push_back("leave global_batch_size out");
}

bool is_list_of_objects(const Json& value) {
    if (!value.is_array()) return false;
    for (const Json& each : value)
        if (!each.is_object() || each.empty()) return false;
    return true;
}

}  // namespace

void read_elastic_layouts(Reading& reading, const std::function<void(Reading&, Scenario&)>& check,
                          Scenario& scenario) {
    const Json* found = reading.document().find(kElasticLayouts);
    if (found == nullptr) return;
    if (!is_list_of_objects(*found)) {
        reading.report("S006", kElasticLayouts,
                       "elastic_layouts must be an array of objects with keys of the layout");
        return;
    }
    const Json list = *found;
    for (std::size_t number = 0; number < list.size(); ++number) {
        const Json& changes = list[number];
        Document document = reading.document();
        document.root()["run"].erase("elastic_layouts");
        ElasticLayout elastic;
        for (const auto& [key, value] : changes.items()) {
            document.root()["layout"][key] = value;
            elastic.sets.push_back(fmt::format("layout.{}={}", key, value.dump()));
        }
        Reading changed(std::move(document));
        Scenario as_changed;
        check(changed, as_changed);
        if (!changed.errors().empty()) {
            take_over(reading, number, changes, std::move(changed.errors()));
            continue;
        }
        const std::string pointer = fmt::format("{}/{}", kElasticLayouts, number);
        elastic.ranks = as_changed.layout.ranks();
        check_fewer_ranks(reading, pointer, scenario, elastic);
        check_same_batch(reading, pointer, scenario, as_changed.layout);
        scenario.run.elastic_layouts.push_back(std::move(elastic));
    }
}

}  // namespace orrery::plan

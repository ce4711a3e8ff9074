// What a cluster's devices are rented for where it does not say: the library's list of public
// prices, put into the scenario so that what is resolved keeps the price that it was told with.
#include <filesystem>

#include "plan/scenario/parts.hpp"
#include "plan/scenario/section.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kPriceList = "prices.json";

// The entry of a device, or nothing; faults of the list are reported.
std::optional<Json> listed_price(Reading& reading, const Folders& folders,
                                 const std::string& device) {
    const std::string path = (std::filesystem::path(folders.library) / kPriceList).string();
    if (!folders.files.is_file(path)) return std::nullopt;
    const std::optional<ParsedJson> parsed =
        parse_file(reading, "/cluster/list_price", kPriceList, path, folders.files);
    if (!parsed || !parsed->errors.empty()) return std::nullopt;
    const auto devices = parsed->value.find("devices");
    if (devices == parsed->value.end() || !devices->contains(device)) return std::nullopt;
    return devices->at(device);
}

}  // namespace

void follow_price_list(Reading& reading, const Folders& folders) {
    const Json* cluster = reading.document().find("/cluster");
    if (cluster == nullptr || !cluster->is_object() || cluster->contains("list_price") ||
        cluster->contains("price_usd_per_gpu_hour"))
        return;
    const auto device = cluster->find("device");
    if (device == cluster->end() || !device->is_string()) return;
    std::optional<Json> price = listed_price(reading, folders, device->get<std::string>());
    if (!price) return;
    reading.document().put("/cluster/list_price", std::move(*price),
                           {Source::Kind::preset, kPriceList, folders.library});
}

void read_price(Reading& reading, Section& keys, Cluster& cluster) {
    const bool own = keys.has("price_usd_per_gpu_hour");
    keys.number("price_usd_per_gpu_hour", cluster.price_usd_per_gpu_hour);
    keys.known("list_price");
    Section section(reading, "/cluster/list_price", "cluster.list_price");
    if (!section.exists()) return;
    ListPrice price;
    section.number("usd", price.usd, kPositive, Presence::required);
    section.number("low_usd", price.low_usd, kPositive, Presence::required);
    section.number("high_usd", price.high_usd, kPositive, Presence::required);
    section.text("date", price.date, Presence::required);
    section.text("source", price.source, Presence::required);
    section.finish();
    if (!own) cluster.list_price = std::move(price);
}

}  // namespace orrery::plan

// What a cluster's devices are rented for where it does not say: the library's list of public
// prices, put into the scenario so that what is resolved keeps the price that it was told with.
#include <filesystem>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

constexpr const char* kPriceList = "prices.json";

// The entry of a device, or nothing; faults of the list are reported.
std::optional<Json> listed_price(Reading& reading, const ClusterPlace& place,
                                 const Folders& folders, const std::string& device) {
    const std::string path = (std::filesystem::path(folders.library) / kPriceList).string();
    if (!folders.files.is_file(path)) return std::nullopt;
    const std::optional<ParsedJson> parsed =
        parse_file(reading, place.at("list_price"), kPriceList, path, folders.files);
    if (!parsed || !parsed->errors.empty()) return std::nullopt;
    const auto devices = parsed->value.find("devices");
    if (devices == parsed->value.end() || !devices->contains(device)) return std::nullopt;
    return devices->at(device);
}

void follow_price_list(Reading& reading, const ClusterPlace& place, const Folders& folders) {
    const Json* cluster = reading.document().find(place.pointer);
    if (cluster == nullptr || !cluster->is_object() || cluster->contains("list_price") ||
        cluster->contains("price_usd_per_gpu_hour"))
        return;
    const auto device = cluster->find("device");
    if (device == cluster->end() || !device->is_string()) return;
    std::optional<Json> price = listed_price(reading, place, folders, device->get<std::string>());
    if (!price) return;
    reading.document().put(place.at("list_price"), std::move(*price),
                           {Source::Kind::preset, kPriceList, folders.library});
}

}  // namespace

void follow_price_lists(Reading& reading, const Folders& folders) {
    for (const ClusterPlace& place : places_of_nodes(reading.document()))
        follow_price_list(reading, place, folders);
}

const Keys<ListPrice>& list_price_keys() {
    static const Keys<ListPrice> keys = {
        number<&ListPrice::usd>("usd", "On demand, the middle of public price lists", kPositive)
            .in("USD/h")
            .required(),
        number<&ListPrice::low_usd>("low_usd", "The lowest of them", kPositive)
            .in("USD/h")
            .required(),
        number<&ListPrice::high_usd>("high_usd", "The highest of them", kPositive)
            .in("USD/h")
            .required(),
        text<&ListPrice::date>("date", "Of the lists").required(),
        text<&ListPrice::source>("source", "Whose lists").required(),
    };
    return keys;
}

void read_price(Reading& reading, const ClusterPlace& place, Section& keys, Cluster& cluster) {
    ListPrice price;
    const bool listed = read_object(reading, place.at("list_price"), place.named("list_price"),
                                    list_price_keys(), price);
    if (listed && !keys.has("price_usd_per_gpu_hour")) cluster.list_price = std::move(price);
}

}  // namespace orrery::plan

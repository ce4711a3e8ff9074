#include "calib/fit/derived_profile.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "calib/fit/carry_over.hpp"
#include "calib/fit/collectives.hpp"
#include "calib/fit/datasheet.hpp"
#include "calib/fit/fit_error.hpp"

namespace orrery::fit {
namespace {

TransferError read_error(const Json& like, const std::string& path) {
    const Json& stated =
        request(like, "/like", "relative_sd", {"gemm", "attention", "memory", "collectives"}, path);
    auto read = [&](const char* family, double& value, std::string& source) {
        const Json& one = request(stated, "/like/relative_sd", family, {"value", "source"}, path);
        if (!one.at("value").is_number() || !(one.at("value").get<double>() > 0) ||
            !one.at("source").is_string())
            throw FitError(
                fmt::format("{}: /like/relative_sd/{}: a positive number and a text are expected",
                            path, family));
        value = one.at("value").get<double>();
        source = one.at("source").get<std::string>();
    };
    TransferError error;
    read("gemm", error.gemm, error.gemm_source);
    read("attention", error.attention, error.attention_source);
    read("memory", error.memory, error.memory_source);
    read("collectives", error.collectives, error.collectives_source);
    return error;
}

}  // namespace

Json unmeasured_links(const Json& sheet, const std::string& path) {
    const Json& links =
        request(sheet, "", "links", {"hierarchical", "efficiency", "relative_sd", "source"}, path);
    for (const char* key : {"device", "hardware"})
        if (!sheet.contains(key)) throw FitError(fmt::format("{}: /{}: missing", path, key));
    const Json& hardware = sheet.at("hardware");
    if (!hardware.contains("link_GBps"))
        throw FitError(
            fmt::format("{}: /hardware/link_GBps: missing, and \"links\" is a share of "
                        "it",
                        path));
    if (!links.at("hierarchical").is_boolean() || !links.at("efficiency").is_number() ||
        !links.at("relative_sd").is_number() || !links.at("source").is_string())
        throw FitError(
            fmt::format("{}: /links: true or false, two numbers and a text are expected", path));
    CollectiveFit fit;
    try {
        fit.system = sheet.at("device").get<std::string>();
        fit.intra_node_bandwidth_GBps = quantity_value(hardware.at("link_GBps"));
    } catch (const nlohmann::json::exception& fault) {
        throw FitError(fmt::format("{}: /device is a text, /hardware/link_GBps a number: {}", path,
                                   fault.what()));
    }
    fit.hierarchical = links.at("hierarchical").get<bool>();
    return Json(unmeasured_collectives(
        fit, {links.at("efficiency").get<double>(), links.at("relative_sd").get<double>(),
              links.at("source").get<std::string>()}));
}

std::string like_profile_path(const Json& datasheet, const std::string& path) {
    if (!datasheet.contains("like")) return "";
    const Json& like = request(datasheet, "", "like", {"profile", "relative_sd"}, path);
    if (!like.at("profile").is_string())
        throw FitError(fmt::format("{}: /like/profile: a text is expected", path));
    const auto from =
        std::filesystem::path(path).parent_path() / like.at("profile").get<std::string>();
    return from.lexically_normal().string();
}

Json derived_profile(const Json& datasheet, const std::string& path) {
    const std::string from = like_profile_path(datasheet, path);
    return carry_over(datasheet, from, read_error(datasheet.at("like"), path), path);
}

}  // namespace orrery::fit

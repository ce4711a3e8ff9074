#include "calib/fit/carry_over.hpp"

#include <cmath>

#include <fmt/format.h>

#include "calib/fit/datasheet.hpp"
#include "calib/fit/derived_profile.hpp"
#include "calib/fit/fit_error.hpp"
#include "calib/fit/write_profile.hpp"
#include "sim/cost/profile.hpp"

namespace orrery::fit {
namespace {

std::string source_of(const Json& quantity) {
    return quantity.is_object() ? quantity.at("source").get<std::string>() : "";
}

// Datasheets, the device that was measured and the one that was not.
class Transfer {
  public:
    Transfer(const Json& sheet, const Json& like, const TransferError& error,
             const std::string& path)
        : sheet_(sheet), like_(like), error_(error), path_(path) {
        name_ = like.at("device").get<std::string>();
    }

    Json gemm() const;
    Json batched_gemm() const;
    Json attention(const Json& gemm) const;
    Json memory() const;
    Json collectives() const;

  private:
    bool lists(const std::string& dtype) const {
        return sheet_.at("hardware").at("peak_tflops").contains(dtype) &&
               like_.at("hardware").at("peak_tflops").contains(dtype);
    }
    // Tensor cores that know no bf16 (Volta's) run fp16 as later ones run either.
    std::string here(const std::string& dtype) const {
        const bool other = dtype == "bf16" && !lists("bf16") && lists("fp16");
        return other ? "fp16" : dtype;
    }
    double peak_ratio(const std::string& dtype) const {
        return quantity_value(hardware(sheet_, "peak_tflops").at(dtype)) /
               quantity_value(hardware(like_, "peak_tflops").at(dtype));
    }
    double ratio(const std::string& key) const {
        return quantity_value(hardware(sheet_, key)) / quantity_value(hardware(like_, key));
    }
    const Json& hardware(const Json& of, const std::string& key) const {
        const Json& section = of.at("hardware");
        if (!section.contains(key))
            throw FitError(
                fmt::format("{}: /hardware/{}: missing, and what is carried over is in "
                            "units of it",
                            path_, key));
        return section.at(key);
    }

    std::string carried_source(const std::string& how) const {
        return fmt::format("not measured: carried over from {}, {}", name_, how);
    }
    // A quantity as the other device has it, scaled. Without a source of its own it has that of
    // the section that it comes into.
    Json scaled(const Json& quantity, double factor) const {
        const double value = rounded(quantity_value(quantity) * factor, kFittedDigits);
        if (!quantity.is_object()) return value;
        const std::string scale =
            factor == 1 ? std::string() : fmt::format(" × {}", rounded(factor, kFittedDigits));
        return {{"value", value},
                {"source", fmt::format("{}'s{}: {}", name_, scale, source_of(quantity))}};
    }
    Json widened(const Json& own, double transfer, const std::string& source) const {
        const double own_sd = quantity_value(own);
        if (transfer == 0) return own_sd;
        return {{"value", rounded(std::sqrt(own_sd * own_sd + transfer * transfer), kFittedDigits)},
                {"source", fmt::format("{}'s {} and, independent of it, {} of the transfer: {}",
                                       name_, own_sd, transfer, source)}};
    }
    Json attention_curve(const Json& curve, double rates) const;

    const Json& sheet_;
    const Json& like_;
    const TransferError& error_;
    const std::string& path_;
    std::string name_;
};

Json Transfer::gemm() const {
    Json section = Json::object();
    for (const auto& [measured, curve] : like_.at("gemm").items()) {
        const std::string dtype = here(measured);
        if (!lists(dtype)) continue;
        Json& out = section[dtype];
        out["measured"] = false;
        out["source"] = carried_source("in units of the datasheets' dense " + dtype +
                                       " peak and memory bandwidth");
        out["t0_us"] = scaled(curve.at("t0_us"), 1);
        out["rate_tflops"] = scaled(curve.at("rate_tflops"), peak_ratio(dtype));
        out["bandwidth_GBps"] = scaled(curve.at("bandwidth_GBps"), ratio("memory_GBps"));
        out["sustained"] = scaled(curve.at("sustained"), 1);
        out["relative_sd"] = widened(curve.at("relative_sd"), error_.gemm, error_.gemm_source);
        for (const char* key : {"row_scales", "block_scales", "micro_block_scales"})
            if (curve.contains(key)) out[key] = scaled(curve.at(key), 1);
    }
    return section;
}

Json Transfer::batched_gemm() const {
    const Json& from = like_.at("batched_gemm");
    Json out;
    out["source"] = carried_source("as a share of the GEMM rate");
    out["rate_ratio"] = scaled(from.at("rate_ratio"), 1);
    out["relative_sd"] = widened(from.at("relative_sd"), error_.gemm, error_.gemm_source);
    return out;
}

Json Transfer::attention_curve(const Json& curve, double rates) const {
    Json out;
    out["measured"] = false;
    out["source"] = carried_source("in units of the GEMM rate and of the memory bandwidth");
    out["t0_us"] = scaled(curve.at("t0_us"), 1);
    for (const char* key : {"query_element_ps", "key_element_ps"})
        out[key] = scaled(curve.at(key), 1 / ratio("memory_GBps"));
    out["rate_tflops"] = scaled(curve.at("rate_tflops"), rates);
    out["relative_sd"] =
        widened(curve.at("relative_sd"), error_.attention, error_.attention_source);
    return out;
}

// `gemm` is the section of the device that was not measured: what its datasheet states of GEMMs
// holds for the matrix products of attention too.
Json Transfer::attention(const Json& gemm) const {
    const Json& from = like_.at("attention");
    const std::string measured = from.at("dtype").get<std::string>();
    const std::string dtype = here(measured);
    if (!gemm.contains(dtype))
        throw FitError(
            fmt::format("{}: /hardware/peak_tflops/{}: missing, and the attention of {} "
                        "is in units of it",
                        path_, dtype, name_));
    const double rates = quantity_value(gemm.at(dtype).at("rate_tflops")) /
                         quantity_value(like_.at("gemm").at(measured).at("rate_tflops"));
    Json out;
    out["dtype"] = dtype;
    out["forward"] = Json::object();
    for (const auto& [head_dim, curve] : from.at("forward").items())
        out["forward"][head_dim] = attention_curve(curve, rates);
    const Json& backward = from.at("backward");
    out["backward"]["source"] = carried_source("as a share of the forward's rate");
    for (const char* key : {"flop_ratio", "rate_ratio"})
        out["backward"][key] = scaled(backward.at(key), 1);
    out["backward"]["relative_sd"] =
        widened(backward.at("relative_sd"), error_.attention, error_.attention_source);
    return out;
}

Json Transfer::memory() const {
    const Json& from = like_.at("memory");
    Json out;
    out["measured"] = false;
    out["source"] =
        carried_source("the cache in units of its size and of the number of multiprocessors");
    for (const char* key : {"t0_us", "reduction_t0_us", "efficiency"})
        out[key] = scaled(from.at(key), 1);
    out["resident_bytes"] = scaled(from.at("resident_bytes"), ratio("cache_bytes"));
    out["cache_GBps"] = scaled(from.at("cache_GBps"), ratio("multiprocessors"));
    out["relative_sd"] = widened(from.at("relative_sd"), error_.memory, error_.memory_source);
    return out;
}

// Joined where a residual is a plain number, its source a text beside it.
void widen_plainly(Json& curve, double transfer, const std::string& what) {
    const double own = curve.at("relative_sd").get<double>();
    curve["relative_sd"] = rounded(std::sqrt(own * own + transfer * transfer), kFittedDigits);
    curve["source"] = curve.at("source").get<std::string>() + what;
}

Json Transfer::collectives() const {
    Json out = like_.at("collectives");
    const std::string what =
        error_.collectives == 0
            ? std::string()
            : fmt::format("; carried over from {}, relative_sd joined with {} of the transfer: {}",
                          name_, error_.collectives, error_.collectives_source);
    for (Json& curve : out.at("curves"))
        widen_plainly(curve, error_.collectives, what);
    widen_plainly(out.at("intra_node"), error_.collectives, what);
    return out;
}

// Members of `stated` take the place of those of `base`, objects member by member; a quantity with
// its source is taken whole.
void put_over(Json& base, const Json& stated) {
    if (!base.is_object() || !stated.is_object() || stated.contains("value")) {
        base = stated;
        return;
    }
    for (const auto& [key, value] : stated.items())
        if (base.contains(key))
            put_over(base[key], value);
        else
            base[key] = value;
}

Json carried_over(const Json& datasheet, const Json& like, const TransferError& error,
                  const std::string& path) {
    for (const char* key : {"device", "hardware"})
        if (!datasheet.contains(key)) throw FitError(fmt::format("{}: /{}: missing", path, key));
    const Transfer transfer(datasheet, like, error, path);
    Json profile = Json::object();
    for (const char* key : {"format", "version", "device", "provenance", "hardware"})
        if (datasheet.contains(key)) profile[key] = datasheet.at(key);
    profile["gemm"] = transfer.gemm();
    if (datasheet.contains("gemm")) put_over(profile["gemm"], datasheet.at("gemm"));
    profile["batched_gemm"] = transfer.batched_gemm();
    profile["attention"] = transfer.attention(profile["gemm"]);
    profile["memory"] = transfer.memory();
    profile["overlap"] = like.at("overlap");
    if (datasheet.contains("links"))
        profile["collectives"] = unmeasured_links(datasheet, path);
    else if (like.contains("collectives"))
        profile["collectives"] = transfer.collectives();
    for (const auto& [key, value] : datasheet.items())
        if (key != "links" && key != "like" && key != "tables") put_over(profile[key], value);
    return profile;
}

}  // namespace

Json carry_over(const Json& datasheet, const std::string& like_path, const TransferError& error,
                const std::string& path) {
    sim::load_profile(like_path);  // so that its sections are there and well formed
    try {
        return carried_over(datasheet, read_json_object(like_path), error, path);
    } catch (const nlohmann::json::exception& fault) {
        throw FitError(
            fmt::format("{}: a value has another form than in a profile: {}", path, fault.what()));
    }
}

}  // namespace orrery::fit

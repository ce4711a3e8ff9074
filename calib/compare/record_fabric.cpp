#include "calib/compare/record_fabric.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>

namespace orrery::compare {
namespace {

constexpr auto kAnyCase = std::regex::ECMAScript | std::regex::icase;

// Four lanes of each generation of InfiniBand: InfiniBand Trade Association, InfiniBand roadmap.
struct Generation {
    const char* name;
    double Gbps;
};
constexpr std::array kGenerations = {Generation{"EDR", 100}, Generation{"HDR", 200},
                                     Generation{"NDR", 400}, Generation{"XDR", 800}};

// Records that name no kind of network mean InfiniBand's speeds by these words; others say so.
std::string kind_of(const std::string& text) {
    struct Named {
        const char* words;
        const char* kind;
    };
    for (const Named& named :
         {Named{"slingshot", "slingshot"}, Named{"\\befa\\b|elastic fabric", "efa"},
          Named{"omni-?path|\\bopa\\b", "omni_path"}, Named{"roce|\\brdma\\b", "roce"},
          Named{"ethernet|tcpx|\\bgbe\\b|\\btcp\\b", "ethernet"}})
        if (std::regex_search(text, std::regex(named.words, kAnyCase))) return named.kind;
    return "infiniband";
}

// How many adapters, before what they are: "8x", "one", "a single".
constexpr char kCount[] = "(?:(\\d{1,2})\\s*[xX]|\\b([Oo]ne|[Ss]ingle|[Tt]wo|[Ff]our|[Ee]ight)\\b)";

// Of adapters, with the numbers of their generations.
constexpr char kMade[] =
    "(?:[Cc]onnect[Xx]|[Cc][Xx]|[Ss]lingshot|[Bb]lue[Ff]ield)[ -]?\\d{1,2}\\s*";

// Case tells a network's bits from NVLink's bytes, but of a text that is all in capitals.
std::regex with_units(const std::string& pattern, const std::string& text) {
    const bool small =
        std::any_of(text.begin(), text.end(), [](char c) { return 'a' <= c && c <= 'z'; });
    return std::regex(pattern, small ? std::regex::ECMAScript : kAnyCase);
}

std::int64_t count_in(const std::ssub_match& digits, const std::ssub_match& word) {
    if (digits.matched) return std::stoll(digits);
    switch (word.str().at(0) | 0x20) {  // in small letters
        case 't':
            return 2;
        case 'f':
            return 4;
        case 'e':
            return 8;
        default:
            return 1;
    }
}

bool says_per_gpu(const std::string& behind) {
    static const std::regex per_gpu("^[^;,(]{0,24}per GPU", kAnyCase);
    return std::regex_search(behind, per_gpu);
}

// "4x HDR", "4x HDR100", "8x IB NDR": a number behind the name is the speed of two lanes of four.
std::optional<Fabric> of_generation(const std::string& text, std::int64_t gpus_per_node) {
    for (const Generation& generation : kGenerations) {
        const std::regex named(std::string(kCount) + "\\s*(?:infiniband\\s*|ib\\s*|mellanox\\s*|" +
                                   kMade + "){0,3}" + generation.name + "[\\s-]*(\\d{2,3})?(?!\\d)",
                               kAnyCase);
        std::smatch found;
        if (!std::regex_search(text, found, named)) continue;
        const double Gbps = found[3].matched ? std::stod(found[3]) : generation.Gbps;
        const std::int64_t each = says_per_gpu(found.suffix()) ? gpus_per_node : 1;
        return Fabric{kind_of(text), count_in(found[1], found[2]) * each, Gbps};
    }
    return std::nullopt;
}

// "3,200 Gb/s per node", "1.6 Tb/s per host": of adapters as many as GPUs where each then has at
// least the speed of an EDR port, and of such ports otherwise.
std::optional<Fabric> of_total(const std::string& text, std::int64_t gpus_per_node) {
    const std::regex total = with_units(
        "(\\d[\\d,]*(?:\\.\\d+)?)\\s*([GTgt])(?:b/s|bps|bit/s)[^;,(]{0,24}"
        "(?:per|each) (?:node|host|server|machine)",
        text);
    std::smatch found;
    if (!std::regex_search(text, found, total)) return std::nullopt;
    const std::string before = found.prefix();
    const std::string clause = before.substr(before.find_last_of(";,") + 1);
    if (std::regex_search(clause, std::regex(kCount))) return std::nullopt;  // the speed of each
    std::string digits = found[1];
    digits.erase(std::remove(digits.begin(), digits.end(), ','), digits.end());
    const bool tera = found[2] == "T" || found[2] == "t";
    const double Gbps = std::stod(digits) * (tera ? 1000 : 1);
    constexpr double kPort = 100;
    std::int64_t adapters = gpus_per_node;
    if (Gbps < kPort * static_cast<double>(adapters))
        adapters = std::max<std::int64_t>(1, std::llround(Gbps / kPort));
    return Fabric{kind_of(text), adapters, Gbps / static_cast<double>(adapters)};
}

}  // namespace

std::optional<Fabric> read_fabric(const std::string& text, std::int64_t gpus_per_node) {
    std::optional<Fabric> fabric = of_generation(text, gpus_per_node);
    if (!fabric) {
        const std::regex counted =
            with_units(std::string(kCount) + "\\s*(?:" + kMade +
                           "|[A-Za-z][A-Za-z-]*[A-Za-z-]\\s*){0,4}(\\d{2,3})\\s*[Gg]b(?:/s|ps|it)",
                       text);
        const std::regex of_each =
            with_units("(\\d{2,3})\\s*[Gg]b(?:/s|ps|it/s)[^;,(]{0,24}per (?:GPU|gpu)", text);
        std::smatch found;
        if (std::regex_search(text, found, counted)) {
            const std::int64_t each = says_per_gpu(found.suffix()) ? gpus_per_node : 1;
            fabric =
                Fabric{kind_of(text), count_in(found[1], found[2]) * each, std::stod(found[3])};
        } else if (std::regex_search(text, found, of_each)) {
            fabric = Fabric{kind_of(text), gpus_per_node, std::stod(found[1])};
        } else {
            fabric = of_total(text, gpus_per_node);
        }
    }
    if (fabric && (fabric->nics_per_node < 1 || fabric->bandwidth_Gbps <= 0)) return std::nullopt;
    return fabric;
}

}  // namespace orrery::compare

#include "calib/compare/record_fabric.hpp"

#include <array>
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

// "4x HDR", "4x HDR100", "8x IB NDR": a number behind the name is the speed of two lanes of four.
std::optional<Fabric> of_generation(const std::string& text) {
    for (const Generation& generation : kGenerations) {
        const std::regex named(std::string("(\\d{1,2})\\s*x\\s*(?:infiniband\\s*|ib\\s*)?") +
                                   generation.name + "[\\s-]*(\\d{2,3})?(?!\\d)",
                               kAnyCase);
        std::smatch found;
        if (!std::regex_search(text, found, named)) continue;
        const double Gbps = found[2].matched ? std::stod(found[2]) : generation.Gbps;
        return Fabric{kind_of(text), std::stoll(found[1]), Gbps};
    }
    return std::nullopt;
}

}  // namespace

std::optional<Fabric> read_fabric(const std::string& text, std::int64_t gpus_per_node) {
    std::optional<Fabric> fabric = of_generation(text);
    if (!fabric) {
        static const std::regex counted(
            "(\\d{1,2})\\s*x\\s*(?:[a-z][a-z-]*[a-z-]\\s*){0,2}(\\d{2,3})\\s*Gb(?:/s|ps|it)",
            kAnyCase);
        static const std::regex of_each("(\\d{2,3})\\s*Gb(?:/s|ps|it/s)[^;,(]{0,24}per GPU",
                                        kAnyCase);
        std::smatch found;
        if (std::regex_search(text, found, counted))
            fabric = Fabric{kind_of(text), std::stoll(found[1]), std::stod(found[2])};
        else if (std::regex_search(text, found, of_each))
            fabric = Fabric{kind_of(text), gpus_per_node, std::stod(found[1])};
    }
    if (fabric && (fabric->nics_per_node < 1 || fabric->bandwidth_Gbps <= 0)) return std::nullopt;
    return fabric;
}

}  // namespace orrery::compare

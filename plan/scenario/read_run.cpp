// The section "run": what training needs beside the step itself.
#include <array>
#include <utility>

#include <fmt/format.h>

#include "plan/scenario/key_tables.hpp"
#include "plan/scenario/parts.hpp"

namespace orrery::plan {
namespace {

// A folder is known by the file that every one of Hugging Face has.
void find_first_weights(Reading& reading, Section& section, const Folders& folders, Run& run) {
    if (run.init_from.empty()) return;
    const Source& source = reading.document().source(section.pointer("init_from"));
    const std::string config = find_file(run.init_from + "/config.json", source, folders);
    if (!config.empty()) run.init_path = config.substr(0, config.rfind('/'));
}

void find_data(Reading& reading, Section& section, const Folders& folders, Run& run) {
    if (run.data.empty()) return;
    const Source& source = reading.document().source(section.pointer("data"));
    run.data_path = find_file(run.data, source, folders);
    // Megatron-LM's files are called without their endings.
    if (run.data_path.empty()) run.data_path = find_file(run.data + ".bin", source, folders);
}

// 0 is silent; NCCL would take neither bound. Reported where the pair, or the half of it that is
// not common to all, stands.
void check_ctas(Reading& reading, const std::string& object, const CtaBounds& own,
                const CtaBounds& common) {
    const CtaBounds both{own.min > 0 ? own.min : common.min, own.max > 0 ? own.max : common.max};
    if (both.min == 0 || both.max == 0 || both.min <= both.max) return;
    Diagnostic& fault = reading.report(
        "S083", object + (own.min > 0 ? "/min_ctas" : "/max_ctas"),
        fmt::format("kernels take at least {} SMs and at most {}", both.min, both.max));
    fault.help = {fmt::format("min_ctas: {}", both.max), fmt::format("max_ctas: {}", both.min)};
}

struct GroupRow {
    const char* name;
    const char* help;
    CtaBounds NcclGroups::*bounds;
};
constexpr std::array kGroupRows = {
    GroupRow{"tensor", "Of tensor-parallel ranks", &NcclGroups::tensor},
    GroupRow{"context", "Of context-parallel ranks", &NcclGroups::context},
    GroupRow{"expert", "Of ranks that exchange rows of experts", &NcclGroups::expert},
    GroupRow{"data", "Of ranks that sum gradients and share out states, experts' too",
             &NcclGroups::data},
    GroupRow{"pipeline", "Of neighbours in a pipeline, and of its ends' tied embedding",
             &NcclGroups::pipeline}};

void read_nccl(Reading& reading, NcclSettings& nccl) {
    read_object(reading, "/run/nccl", "run.nccl", nccl_keys(), nccl);
    read_object(reading, "/run/nccl/groups", "run.nccl.groups", nccl_group_keys(), nccl.groups);
    const CtaBounds common{nccl.min_ctas, nccl.max_ctas};
    check_ctas(reading, "/run/nccl", common, {});
    const bool sound =
        reading.good_at("/run/nccl/min_ctas") && reading.good_at("/run/nccl/max_ctas");
    for (const GroupRow& row : kGroupRows) {
        const std::string at = std::string("/run/nccl/groups/") + row.name;
        CtaBounds& own = nccl.groups.*row.bounds;
        read_object(reading, at, std::string("run.nccl.groups.") + row.name, cta_keys(), own);
        if (own != CtaBounds{}) check_ctas(reading, at, own, sound ? common : CtaBounds{});
    }
}

// A group's own bounds.
template <std::size_t row>
auto group_bounds() {
    return own<NcclGroups>(kGroupRows[row].name, KeyType::object, kGroupRows[row].help,
                           specs(cta_keys()))
        .written_by([](const KeySpec&, const NcclGroups& from) {
            return written(cta_keys(), from.*kGroupRows[row].bounds);
        })
        .written_if(
            [](const NcclGroups& from) { return from.*kGroupRows[row].bounds != CtaBounds{}; });
}

template <std::size_t... rows>
Keys<NcclGroups> bounds_of_groups(std::index_sequence<rows...> /*all*/) {
    return {group_bounds<rows>()...};
}

template <std::int64_t CtaBounds::*member>
auto cta_count(const char* name, const char* help) {
    return count<member>(name, help, {1, 64}).unset().written_if([](const CtaBounds& from) {
        return from.*member > 0;
    });
}

// Any keys of the layout, none of which must be there.
std::vector<KeySpec> layout_changes() {
    std::vector<KeySpec> keys = specs(layout_keys());
    for (KeySpec& key : keys) {
        key.required = false;
        key.initial.clear();
    }
    return keys;
}

// A whole number that is silent where it is that of no settings.
template <std::int64_t NcclSettings::*member>
auto nccl_count(const char* name, const char* help, IntegerRange range, const char* variable) {
    return count<member>(name, help, range)
        .unset()
        .written_if([](const NcclSettings& from) { return from.*member != NcclSettings{}.*member; })
        .also({variable});
}

}  // namespace

const Keys<CtaBounds>& cta_keys() {
    static const Keys<CtaBounds> keys = {
        cta_count<&CtaBounds::min>("min_ctas", "SMs that its kernels take at least"),
        cta_count<&CtaBounds::max>("max_ctas", "SMs that its kernels take at most"),
    };
    return keys;
}

const Keys<NcclGroups>& nccl_group_keys() {
    static const Keys<NcclGroups> keys =
        bounds_of_groups(std::make_index_sequence<kGroupRows.size()>());
    return keys;
}

namespace {

// Limits of counts are those of InfiniBand's packets; words are what NCCL 2.28 takes.
Keys<NcclSettings> of_all_communicators() {
    return {
        nccl_count<&NcclSettings::ib_timeout>("ib_timeout",
                                              "A lost packet is missed after 4.096 µs × 2^this",
                                              {1, 31}, "NCCL_IB_TIMEOUT"),
        nccl_count<&NcclSettings::ib_retry_cnt>("ib_retry_cnt", "And sent again so many times",
                                                {0, 7}, "NCCL_IB_RETRY_CNT"),
        text<&NcclSettings::ib_hca>("ib_hca", "Adapters, in NCCL's syntax: \"mlx5_0:1,mlx5_1:1\"")
            .non_empty()
            .also({"NCCL_IB_HCA"}),
        text<&NcclSettings::socket_interface>("socket_interface",
                                              "Interfaces for what is no InfiniBand: \"eth0\"")
            .non_empty()
            .also({"NCCL_SOCKET_IFNAME"}),
        word<&NcclSettings::algorithm>(
            "algorithm", "The one that collectives take",
            {"Ring", "Tree", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT"})
            .also({"NCCL_ALGO", "algo"}),
        word<&NcclSettings::protocol>("protocol", "The one that collectives take",
                                      {"LL", "LL128", "Simple"})
            .also({"NCCL_PROTO", "proto"}),
        word<&NcclSettings::debug>("debug", "What NCCL tells of itself",
                                   {"VERSION", "WARN", "INFO", "TRACE"})
            .also({"NCCL_DEBUG"}),
        nccl_count<&NcclSettings::ib_gid_index>("ib_gid_index",
                                                "Of addresses of adapters over Ethernet (RoCE)",
                                                {0, 255}, "NCCL_IB_GID_INDEX"),
        nccl_count<&NcclSettings::ib_tc>(
            "ib_tc", "Traffic class, by which switches tell traffic apart", {0, 255}, "NCCL_IB_TC"),
        nccl_count<&NcclSettings::ib_sl>("ib_sl", "Service level of InfiniBand", {0, 15},
                                         "NCCL_IB_SL"),
        word<&NcclSettings::net_gdr_level>(
            "net_gdr_level", "How far from a GPU an adapter may be that reads its memory",
            {"LOC", "PIX", "PXB", "PHB", "SYS"})
            .also({"NCCL_NET_GDR_LEVEL"}),
        nccl_count<&NcclSettings::cross_nic>(
            "cross_nic", "Rings and trees keep to one rail (0), may change (1), or try not to (2)",
            {0, 2}, "NCCL_CROSS_NIC"),
        nccl_count<&NcclSettings::nvls_enable>(
            "nvls_enable", "NVSwitches reduce: not (0), always (1), where they can (2)", {0, 2},
            "NCCL_NVLS_ENABLE"),
        nccl_count<&NcclSettings::collnet_enable>("collnet_enable",
                                                  "Switches of the network reduce (SHARP): 1",
                                                  {0, 1}, "NCCL_COLLNET_ENABLE"),
    };
}

Keys<NcclSettings> of_each_communicator() {
    return {
        nccl_count<&NcclSettings::min_ctas>("min_ctas",
                                            "SMs that a communicator's kernels take at least",
                                            {1, 64}, "NCCL_MIN_CTAS"),
        nccl_count<&NcclSettings::max_ctas>(
            "max_ctas", "SMs that a communicator's kernels take at most", {1, 64}, "NCCL_MAX_CTAS"),
        own<NcclSettings>("groups", KeyType::object,
                          "Bounds of some communicators' SMs, in place of those of all",
                          specs(nccl_group_keys()))
            .written_by([](const KeySpec&, const NcclSettings& from) {
                return written(nccl_group_keys(), from.groups);
            })
            .written_if([](const NcclSettings& from) { return from.groups != NcclGroups{}; }),
        flag<&NcclSettings::registered_buffers>(
            "registered_buffers",
            "Each communicator knows the memory of a step before it is used: NVSwitches and "
            "adapters reach it without copies")
            .written_if([](const NcclSettings& from) { return from.registered_buffers; }),
    };
}

}  // namespace

const Keys<NcclSettings>& nccl_keys() {
    static const Keys<NcclSettings> keys = joined(of_all_communicators(), of_each_communicator());
    return keys;
}

const Keys<Run>& run_keys() {
    static const Keys<Run> keys = {
        text<&Run::data>("data",
                         "File of tokens or of text; a folder, of Megatron-LM's, by its "
                         "name without ending"),
        choice<&Run::format>("format", "Of the data; \"auto\": by its ending and first bytes"),
        text<&Run::init_from>("init_from",
                              "Folder of Hugging Face that the first weights are from"),
        count<&Run::steps>("steps", "Number of the last step")
            .unset()
            .written_if([](const Run& from) { return from.steps > 0; })
            .also({"train_iters"}),
        count<&Run::threads_per_rank>("threads_per_rank",
                                      "Of the CPU; 0: cores ÷ ranks of the machine, at least 1",
                                      {0, 4096}),
        text<&Run::offload_path>("offload_path",
                                 "Folder for what is kept on disk; the working one unless given"),
        text<&Run::product_choices>("product_choices",
                                    "File of the algorithms that products were timed to be fastest "
                                    "with on this kind of GPU; made where it is not there"),
        flag<&Run::cudnn>("cudnn",
                          "Attention on GPUs is cuDNN's where that is there and has a kernel for "
                          "it, else Orrery's own")
            .written_if([](const Run& from) { return !from.cudnn; }),
        choice<&Run::bind>("bind",
                           "To which cores ranks are bound; \"auto\": to those of their GPU's NUMA "
                           "node, or a share of the nodes, unless a launcher has bound them")
            .written_if([](const Run& from) { return from.bind != BindTo::automatic; })
            .also({"numa_binding"}),
        own<Run>("checkpoint", KeyType::object, "Where and when the run is saved",
                 specs(checkpoint_keys()))
            .written_by(
                [](const KeySpec&, const Run& from) { return written(checkpoint_keys(), from); })
            .written_if([](const Run& from) { return !from.checkpoint_path.empty(); }),
        count<&Run::verify_replicas_every_steps>(
            "verify_replicas_every_steps",
            "Data-parallel ranks compare their parameters' digests so often; 0: never",
            {0, kLargestCount})
            .in("steps")
            .written_if([](const Run& from) { return from.verify_replicas_every_steps > 0; }),
        own<Run>("health", KeyType::object, "When a run is said to be ill", specs(health_keys()))
            .written_by(
                [](const KeySpec&, const Run& from) { return written(health_keys(), from.health); })
            .written_if([](const Run& from) { return from.health != Health{}; }),
        own<Run>("elastic_layouts", KeyType::list,
                 "Keys of the layout that change when ranks are lost, tried in this order",
                 layout_changes()),
        own<Run>("nccl", KeyType::object, "Settings that NCCL is launched with", specs(nccl_keys()))
            .written_by(
                [](const KeySpec&, const Run& from) { return written(nccl_keys(), from.nccl); })
            .written_if([](const Run& from) { return from.nccl != NcclSettings{}; }),
    };
    return keys;
}

Json written_run(const Run& run, const Document& document) {
    Json out = Json::object();
    write_keys(run_keys(), run, out, [&](const std::string& name) -> std::optional<Json> {
        if (name != "elastic_layouts" || run.elastic_layouts.empty()) return std::nullopt;
        return *document.find("/run/elastic_layouts");
    });
    return out;
}

void read_run(Reading& reading, const Folders& folders, Run& run) {
    Section section(reading, "/run", "run");
    if (!section.exists()) return;
    read_keys(section, run_keys(), run);
    find_data(reading, section, folders, run);
    find_first_weights(reading, section, folders, run);
    read_reliability(reading, run);
    section.finish();
    read_nccl(reading, run.nccl);
}

}  // namespace orrery::plan

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trace/formats/nsys.hpp"
#include "trace/formats/recorder.hpp"
#include "trace/formats/sqlite_database.hpp"

namespace orrery::trace {
namespace {

constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kPsPerNs = 1000;

constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

// Of NVTX_EVENTS.eventType (ENUM_NSYS_EVENT_TYPE): ranges pushed and popped by a thread, and those
// that begin and end anywhere. All else has no length.
constexpr std::int64_t kPushPopRange = 59;
constexpr std::int64_t kStartEndRange = 60;

// CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind, in the words of Kineto's names.
constexpr std::array<std::string_view, 11> kCopies = {
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
constexpr std::array<std::string_view, 8> kMemories = {"Unknown",       "Pageable",      "Pinned",
                                                       "Device",        "Array",         "Managed",
                                                       "Device Static", "Managed Static"};

template <std::size_t n>
std::string_view word(const std::array<std::string_view, n>& words, std::int64_t number) {
    return words[number >= 0 && number < static_cast<std::int64_t>(n)
                     ? static_cast<std::size_t>(number)
                     : 0];
}

// globalTid and globalPid hold the process in bits 24 to 47; the thread is below.
std::int64_t process_of(std::int64_t global) {
    return (global >> 24) & 0xFFFFFF;
}
std::int64_t thread_of(std::int64_t global) {
    return global & 0xFFFFFF;
}

// The columns of a table that are asked for. A name may be "a|b": whichever it has.
class Table {
  public:
    // `required`: without them the table says nothing; `wanted`: null where it has none.
    Table(SqliteDatabase& database, std::string name, const std::vector<std::string>& required,
          const std::vector<std::string>& wanted)
        : name_(std::move(name)), has_(database.columns(name_)) {
        if (has_.empty()) return;
        std::vector<std::string> missing, selected;
        for (const std::string& column : required) {
            selected.push_back(choice(column));
            if (selected.back() == "NULL") missing.push_back(column);
        }
        if (!missing.empty())
            database.fail(fmt::format("its table {} has no column {}; it has {}", name_,
                                      fmt::join(missing, ", "), fmt::join(has_, ", ")));
        for (const std::string& column : wanted)
            selected.push_back(choice(column));
        sql_ = fmt::format("SELECT {} FROM {}", fmt::join(selected, ", "), name_);
    }
    bool is_there() const { return !has_.empty(); }
    const std::string& name() const { return name_; }
    const std::string& sql() const { return sql_; }

  private:
    std::string choice(const std::string& names) const {
        for (std::size_t at = 0; at <= names.size();) {
            const std::size_t end = std::min(names.find('|', at), names.size());
            const std::string name = names.substr(at, end - at);
            if (std::find(has_.begin(), has_.end(), name) != has_.end())
                return fmt::format("\"{}\"", name);
            at = end + 1;
        }
        return "NULL";
    }

    std::string name_;
    std::vector<std::string> has_;
    std::string sql_;
};

// "aten::mm, seq = 4, op_id = 7, sizes = [[2, 3], [3, 4]], input_op_ids = …", as
// torch.autograd.profiler.emit_nvtx names its ranges: the operator, and the sizes.
void split_operator(std::string_view text, RecordedEvent& event) {
    constexpr std::string_view kSizes = ", sizes = ";
    std::size_t end = text.size();
    for (const std::string_view mark :
         {std::string_view(", seq = "), std::string_view(", op_id = "), kSizes})
        end = std::min(end, text.find(mark));
    event.name = text.substr(0, end);
    const std::size_t sizes = text.find(kSizes);
    if (sizes == std::string_view::npos) return;
    const std::string_view from = text.substr(sizes + kSizes.size());
    const std::size_t close = from.find("]]");
    if (close != std::string_view::npos) event.arguments.input_dims = from.substr(0, close + 2);
}

bool is_operator(std::string_view text) {
    return text.starts_with("aten::") || text.starts_with("autograd::") ||
           text.starts_with("c10d::") || text.starts_with("nccl:");
}

class NsysReader {
  public:
    explicit NsysReader(const std::string& path) : database_(path) {}

    std::vector<RecordedTrace> run() {
        require_report();
        read_strings();
        read_kernels();
        read_copies();
        read_graphs();
        if (ranks_.empty()) fail_without_kernels();
        read_calls("CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_runtime");
        read_calls("CUPTI_ACTIVITY_KIND_DRIVER", "cuda_driver");
        read_ranges();
        read_devices();
        std::vector<RecordedTrace> traces;
        for (auto& [key, rank] : ranks_) {
            RecordedTrace trace = rank.recorder.finish();
            const auto own = device_of_process_.find({key.process, key.device});
            const auto device =
                device_name_.find(own != device_of_process_.end() ? own->second : key.device);
            if (device != device_name_.end()) trace.device = device->second;
            if (ranks_.size() > 1)
                trace.part = fmt::format("device {} of process {}", key.device, key.process);
            traces.push_back(std::move(trace));
        }
        return traces;
    }

  private:
    struct Key {
        std::int64_t device = 0, process = 0;
        auto operator<=>(const Key&) const = default;
    };
    struct Rank {
        Recorder recorder{true};
    };

    void require_report() {
        const std::vector<std::string> tables = database_.tables();
        const bool is_report = std::any_of(tables.begin(), tables.end(), [](const auto& name) {
            return name.starts_with("CUPTI_ACTIVITY_KIND_") || name.starts_with("TARGET_INFO_") ||
                   name == "StringIds";
        });
        if (is_report) return;
        constexpr std::size_t kMost = 6;
        database_.fail(fmt::format(
            "a SQLite database, but no export of Nsight Systems, which has the tables StringIds "
            "and {}; {}",
            kKernels,
            tables.empty()
                ? "this one has none"
                : fmt::format("this one has {}{}",
                              fmt::join(tables.begin(),
                                        tables.begin() + static_cast<std::ptrdiff_t>(
                                                             std::min(kMost, tables.size())),
                                        ", "),
                              tables.size() > kMost ? ", …" : "")));
    }

    [[noreturn]] void fail_without_kernels() {
        database_.fail(fmt::format(
            "no kernels: the report has no table {} with rows. `nsys profile --trace=cuda,nvtx` "
            "records them",
            kKernels));
    }

    void read_strings() {
        const Table table(database_, "StringIds", {"id", "value"}, {});
        if (!table.is_there()) return;
        for (auto rows = database_.ask(table.sql()); rows.next();)
            strings_.emplace(rows.whole(0), rows.text(1));
    }

    // A name by its number, or as text in the table itself; empty where the cell is null.
    std::string string_of(const SqliteDatabase::Rows& rows, int column, const Table& table) {
        if (rows.is_null(column)) return "";
        if (rows.is_text(column)) return std::string(rows.text(column));
        const auto found = strings_.find(rows.whole(column));
        if (found == strings_.end())
            database_.fail(
                fmt::format("{}, row {}: its name is number {} of StringIds, which has "
                            "none of that number",
                            table.name(), row_, rows.whole(column)));
        return found->second;
    }

    // Columns 0 and 1 of every table here: start and end.
    void take_times(const SqliteDatabase::Rows& rows, const Table& table, RecordedEvent& event) {
        const std::int64_t start = rows.whole(0), end = rows.whole(1);
        if (end < start)
            database_.fail(fmt::format("{}, row {}: it ends at {} ns, before it starts at {} ns",
                                       table.name(), row_, end, start));
        const std::int64_t length = end - start;
        event.phase = "X";
        event.start = {start / kNsPerUs, start % kNsPerUs * kPsPerNs};
        event.duration = {length / kNsPerUs, length % kNsPerUs * kPsPerNs};
    }

    void add(Recorder& recorder, const RecordedEvent& event, const Table& table) {
        if (const std::string why = recorder.add(event); !why.empty())
            database_.fail(fmt::format("{}, row {}: {}", table.name(), row_, why));
    }

    // Columns 0 to 5 of what a device did: start, end, device, stream, correlation, process.
    RecordedEvent device_event(const SqliteDatabase::Rows& rows, const Table& table, Key& key) {
        RecordedEvent event;
        take_times(rows, table, event);
        key = {rows.whole(2), process_of(rows.whole(5))};
        event.process = fmt::format("GPU {}", key.device);
        event.thread = std::to_string(rows.whole(3));
        event.stream = rows.whole(3);
        if (!rows.is_null(4)) event.correlation = rows.whole(4);
        return event;
    }

    Table device_table(const char* name, const std::vector<std::string>& more) {
        std::vector<std::string> wanted = {"correlationId", "globalPid"};
        wanted.insert(wanted.end(), more.begin(), more.end());
        return {database_, name, {"start", "end", "deviceId", "streamId"}, wanted};
    }

    void read_kernels() {
        const Table table = device_table(kKernels, {"demangledName|shortName|mangledName|name"});
        if (!table.is_there()) return;
        row_ = 0;
        for (auto rows = database_.ask(table.sql()); rows.next();) {
            ++row_;
            Key key;
            RecordedEvent event = device_event(rows, table, key);
            event.category = "kernel";
            event.name = string_of(rows, 6, table);
            add(ranks_[key].recorder, event, table);
        }
    }

    // Those of devices that ran kernels; a device that is only copied to is no rank.
    void read_copies() {
        const Table copies =
            device_table("CUPTI_ACTIVITY_KIND_MEMCPY", {"copyKind", "srcKind", "dstKind"});
        for_each_of_rank(copies, [](const SqliteDatabase::Rows& rows, RecordedEvent& event) {
            event.category = "gpu_memcpy";
            event.name =
                fmt::format("Memcpy {} ({} -> {})", word(kCopies, rows.whole(6)),
                            word(kMemories, rows.whole(7)), word(kMemories, rows.whole(8)));
        });
        const Table sets = device_table("CUPTI_ACTIVITY_KIND_MEMSET", {"memKind|memoryKind"});
        for_each_of_rank(sets, [](const SqliteDatabase::Rows& rows, RecordedEvent& event) {
            event.category = "gpu_memset";
            event.name = fmt::format("Memset ({})", word(kMemories, rows.whole(6)));
        });
    }

    template <typename Say>
    void for_each_of_rank(const Table& table, const Say& say) {
        if (!table.is_there()) return;
        row_ = 0;
        for (auto rows = database_.ask(table.sql()); rows.next();) {
            ++row_;
            Key key;
            RecordedEvent event = device_event(rows, table, key);
            const auto rank = ranks_.find(key);
            if (rank == ranks_.end()) continue;
            say(rows, event);
            add(rank->second.recorder, event, table);
        }
    }

    // What a graph did is not told apart then: one span, of no kind that is known.
    void read_graphs() {
        const Table table = device_table(kGraphs, {});
        if (!table.is_there()) return;
        if (ranks_.empty())
            database_.fail(
                "no kernels: CUDA graphs were traced as wholes. `nsys profile "
                "--cuda-graph-trace=node` records what they launch");
        for_each_of_rank(table, [](const SqliteDatabase::Rows&, RecordedEvent& event) {
            event.category = "kernel";
            event.name = "a CUDA graph, traced as a whole (nsys profile --cuda-graph-trace=node)";
        });
    }

    // For every rank of the process; where kernels do not say their process there is one of all.
    template <typename Make>
    void for_each_of_host(const Table& table, const Make& make) {
        if (!table.is_there()) return;
        row_ = 0;
        for (auto rows = database_.ask(table.sql()); rows.next();) {
            ++row_;
            RecordedEvent event;
            std::int64_t global = rows.is_null(2) ? 0 : rows.whole(2);
            if (!make(rows, event)) continue;
            event.process = fmt::format("process {}", process_of(global));
            if (event.thread.empty()) event.thread = std::to_string(thread_of(global));
            for (auto& [key, rank] : ranks_)
                if (key.process == process_of(global) || key.process == 0)
                    add(rank.recorder, event, table);
        }
    }

    void read_calls(const char* name, const char* category) {
        const Table table(database_, name, {"start", "end"},
                          {"globalTid", "correlationId", "nameId"});
        for_each_of_host(table, [&](const SqliteDatabase::Rows& rows, RecordedEvent& event) {
            take_times(rows, table, event);
            event.category = category;
            if (!rows.is_null(3)) event.correlation = rows.whole(3);
            event.name = string_of(rows, 4, table);
            return true;
        });
    }

    void read_ranges() {
        const Table table(database_, "NVTX_EVENTS", {"start", "end"},
                          {"globalTid", "eventType", "text", "textId"});
        for_each_of_host(table, [&](const SqliteDatabase::Rows& rows, RecordedEvent& event) {
            const std::int64_t type = rows.is_null(3) ? kPushPopRange : rows.whole(3);
            // A range that the trace's end has cut has no end.
            if ((type != kPushPopRange && type != kStartEndRange) || rows.is_null(1)) return false;
            std::string text = string_of(rows, 4, table);
            if (text.empty()) text = string_of(rows, 5, table);
            if (text.empty()) return false;
            take_times(rows, table, event);
            if (type == kStartEndRange) event.thread = "ranges";
            event.category = is_operator(text) ? "cpu_op" : "user_annotation";
            split_operator(text, event);
            return true;
        });
    }

    void read_devices() {
        const Table gpus(database_, "TARGET_INFO_GPU", {"name"}, {"id"});
        if (gpus.is_there())
            for (auto rows = database_.ask(gpus.sql()); rows.next();)
                device_name_.emplace(rows.whole(1), rows.text(0));
        const Table own(database_, "TARGET_INFO_CUDA_DEVICE", {}, {"pid", "cudaId", "gpuId"});
        if (own.is_there())
            for (auto rows = database_.ask(own.sql()); rows.next();)
                device_of_process_.emplace(std::pair(rows.whole(0), rows.whole(1)), rows.whole(2));
    }

    SqliteDatabase database_;
    std::unordered_map<std::int64_t, std::string> strings_;
    std::map<Key, Rank> ranks_;
    std::map<std::int64_t, std::string> device_name_;
    // By process and number within it: with CUDA_VISIBLE_DEVICES that is not the machine's.
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> device_of_process_;
    std::int64_t row_ = 0;  // of the table that is being read, from 1
};

}  // namespace

std::vector<RecordedTrace> read_nsys(const std::string& path) {
    return NsysReader(path).run();
}

bool is_nsys_report_name(const std::string& path) {
    return path.ends_with(".nsys-rep") || path.ends_with(".qdrep");
}

}  // namespace orrery::trace

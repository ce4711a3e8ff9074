#include "runtime/flight/flight_records.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plan/ir/kinds.hpp"
#include "runtime/checkpoint/files.hpp"

namespace orrery::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFlightRecordVersion = 1;
constexpr const char* kVersionKey = "flight_record";
constexpr std::string_view kPrefix = "rank-", kEnding = ".json";  // of a file's name

Json json_of(const RecordedOp& recorded, const FlightRecorder& recorder) {
    const plan::Op& op = *recorded.op;
    Json json{{"number", recorded.number},
              {"step", recorded.step},
              {"op", plan::name(op.kind())},
              {"label", op.label},
              {"stream", plan::name(op.stream)}};
    if (recorded.layer >= 0) json["layer"] = recorded.layer;
    if (recorded.micro_batch >= 0) json["micro_batch"] = recorded.micro_batch;
    json["begin_ns"] = recorded.begin;
    if (recorded.issued)
        json["issued_ns"] = *recorded.issued > 0 ? Json(*recorded.issued) : Json(nullptr);
    json["end_ns"] = recorded.end > 0 ? Json(recorded.end) : Json(nullptr);
    if (!plan::is_communication(op.kind())) return json;
    json["bytes"] = recorded.bytes;
    if (recorded.peers[0] < 0) {
        json["group"] = plan::name(op.group);
        json["members"] = recorder.mesh().group(op.group, recorder.rank());
    } else {
        json["peers"] = Json::array({recorded.peers[0]});
        if (recorded.peers[1] >= 0) json["peers"].push_back(recorded.peers[1]);
    }
    return json;
}

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string file_name(plan::Rank rank) {
    return fmt::format("{}{:05}{}", kPrefix, rank, kEnding);
}

bool names_record(std::string_view name) {
    return name.starts_with(kPrefix) && name.ends_with(kEnding);
}

void write_file(const std::string& folder, const std::string& name, const std::string& text) {
    Files& files = disk_files();
    files.make_folder(folder);
    const std::string path = folder + "/" + name;
    const std::string unfinished = path + ".partial";
    {
        const auto file = files.create(unfinished);
        file->write(std::as_bytes(std::span(text)));
        file->sync();
    }
    files.rename(unfinished, path);
    files.sync_folder(folder);
}

// "rank-00003.json" of an earlier attempt becomes "rank-00003.earlier-1.json", the next one -2.
void keep_earlier(const std::string& folder, const std::string& name) {
    namespace fs = std::filesystem;
    const auto is_there = [](const std::string& path) {
        std::error_code ignored;
        return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
    };
    const std::string path = folder + "/" + name;
    if (!is_there(path)) return;
    const std::string stem = path.substr(0, path.size() - kEnding.size());
    int number = 1;
    while (is_there(fmt::format("{}.earlier-{}{}", stem, number, kEnding)))
        ++number;
    disk_files().rename(path, fmt::format("{}.earlier-{}{}", stem, number, kEnding));
}

}  // namespace

std::string flight_record_text(const FlightRecorder& recorder, const std::string& reason) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    Json json{{kVersionKey, kFlightRecordVersion},
              {"rank", recorder.rank()},
              {"ranks", recorder.mesh().ranks()},
              {"host", host_name()},
              {"process", getpid()},
              {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
              {"now_ns", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()},
              {"reason", reason},
              {"waits", nullptr},
              {"ops", Json::array()}};
    if (const auto waiting = recorder.waiting())
        json["waits"] = {
            {"call", waiting->call}, {"for_ranks", waiting->ranks}, {"since_s", waiting->seconds}};
    for (const RecordedOp& op : recorder.ops())
        json["ops"].push_back(json_of(op, recorder));
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string foreign_record_in(const std::string& folder, plan::Rank rank) {
    const auto foreign = [&](const std::string& name) {
        std::ifstream file(folder + "/" + name, std::ios::binary);
        if (!file) return false;
        const Json record = Json::parse(file, nullptr, false);
        return !record.is_object() || !record.contains(kVersionKey);
    };
    if (rank >= 0) return foreign(file_name(rank)) ? file_name(rank) : "";
    std::set<std::string> names;
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed))
        if (const auto name = entry->path().filename().string(); names_record(name))
            names.insert(name);
    for (const std::string& name : names)
        if (foreign(name)) return name;
    return "";
}

FlightRecords::FlightRecords(std::string folder, std::function<void(const std::string&)> say)
    : folder_(std::move(folder)), say_(std::move(say)) {}

void FlightRecords::add(const FlightRecorder& recorder) {
    const std::lock_guard lock(mutex_);
    recorders_.push_back(&recorder);
}

void FlightRecords::remove(const FlightRecorder& recorder) {
    const std::lock_guard lock(mutex_);
    recorders_.erase(std::remove(recorders_.begin(), recorders_.end(), &recorder),
                     recorders_.end());
}

void FlightRecords::write_failure(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(failed_, true)) return;
    write(reason);
}

void FlightRecords::write_on_request(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (!failed_) write(reason);
}

void FlightRecords::write(const std::string& reason) {
    // One that was refused before it did anything has nothing to tell, and leaves the records of
    // the run whose folder it is.
    if (std::none_of(recorders_.begin(), recorders_.end(), [](const FlightRecorder* each) {
            return each->waiting() || !each->ops().empty();
        }))
        return;
    std::string last;
    try {
        for (const FlightRecorder* recorder : recorders_) {
            last = file_name(recorder->rank());
            if (own_.insert(last).second) keep_earlier(folder_, last);
            write_file(folder_, last, flight_record_text(*recorder, reason));
        }
    } catch (const std::exception& error) {
        say_(fmt::format("no flight record: {}", error.what()));
        return;
    }
    if (recorders_.size() == 1)
        say_(fmt::format("flight record: {}/{}", folder_, last));
    else
        say_(fmt::format("flight records of {} ranks: {}/rank-*.json", recorders_.size(), folder_));
}

std::string FlightRecords::unfinished() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const FlightRecorder* recorder : recorders_)
        for (const RecordedOp& op : recorder->ops())
            if (op.end == 0 && op.issued.value_or(0) == 0)
                all += fmt::format("{}{} {}", all.empty() ? "" : ", ", plan::name(op.op->kind()),
                                   op.op->label);
    return all;
}

}  // namespace orrery::runtime

#include "runtime/train/checkpointing.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "runtime/storage_error.hpp"

namespace orrery::runtime {
namespace {

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

double seconds_since(std::int64_t start_ns) {
    constexpr double kNanoseconds = 1e9;
    return static_cast<double>(now_ns() - start_ns) / kNanoseconds;
}

ControlPlane::Bytes bytes_of_text(const std::string& text) {
    ControlPlane::Bytes bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
}

std::string text_of(const ControlPlane::Bytes& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The first complaint of a rank; empty: none has any.
std::string first_complaint(ControlPlane& control, const std::string& own) {
    for (const ControlPlane::Bytes& of_rank : control.all_gather(bytes_of_text(own)))
        if (!of_rank.empty()) return text_of(of_rank);
    return "";
}

// Without the path that DataError puts before what it says.
class CheckpointError : public DataError {
  public:
    explicit CheckpointError(const std::string& said)
        : DataError(said.substr(0, said.find(": ")), said.substr(said.find(": ") + 2)) {}
};

// Of a rank whose shard is being written, or is: how long it stood still, and the shard.
enum class Written : char { not_yet = 'n', well = 'w', failed = 'f' };

}  // namespace

std::unique_ptr<CheckpointReader> newest_checkpoint(const CheckpointOptions& options,
                                                    ControlPlane& control) {
    ControlPlane::Bytes newest;
    if (control.rank() == 0)
        if (const auto found = checkpoints_in(options.path); !found.empty())
            newest = bytes_of_text(found.front().path);
    control.broadcast(newest);
    if (newest.empty()) return nullptr;
    std::unique_ptr<CheckpointReader> checkpoint;
    std::string complaint;
    try {
        checkpoint = std::make_unique<CheckpointReader>(text_of(newest));
        const auto rank = static_cast<std::size_t>(control.rank());
        for (std::size_t i = rank; i < checkpoint->manifest().shards.size();
             i += static_cast<std::size_t>(control.size()))
            checkpoint->verify_shard(i);
    } catch (const DataError& error) {
        complaint = error.what();
    }
    complaint = first_complaint(control, complaint);
    if (!complaint.empty()) throw CheckpointError(complaint);
    return checkpoint;
}

Checkpointing::Checkpointing(const CheckpointOptions& options, ControlPlane& control, bool resumed)
    : options_(options), control_(control), of_this_run_(resumed) {
    std::string error;
    if (control.rank() == 0) {
        try {
            remove_unfinished(files(), options.path);
        } catch (const StorageError& failed) {
            error = failed.what();
        }
    }
    agree(error);
}

Checkpointing::~Checkpointing() = default;

Files& Checkpointing::files() const {
    return options_.files != nullptr ? *options_.files : disk_files();
}

// What rank 0 found ends the run everywhere.
void Checkpointing::agree(const std::string& error) {
    ControlPlane::Bytes said = bytes_of_text(error);
    control_.broadcast(said);
    if (!said.empty()) throw StorageError(text_of(said));
}

void Checkpointing::save(const Device& device, std::vector<SavedPart> parts,
                         const Progress& progress, const plan::Scenario& scenario) {
    const std::int64_t start = now_ns();
    finish();
    std::string error;
    if (control_.rank() == 0) {
        try {
            begin_checkpoint(files(), options_.path, progress.step);
        } catch (const StorageError& failed) {
            error = failed.what();
        }
    }
    agree(error);
    progress_ = progress;
    scenario_ = &scenario;
    snapshot_.take(device, std::move(parts));
    saved_at_ns_ = now_ns();
    stall_s_ = seconds_since(start);
    phase_ = Phase::writing;
    work_.begin([this] {
        shard_ =
            write_shard(files(), options_.path, progress_.step,
                        fmt::format("rank-{:05}.safetensors", control_.rank()), snapshot_.pieces());
    });
}

void Checkpointing::poll() {
    if (phase_ == Phase::writing) poll_writing();
    if (phase_ == Phase::publishing) poll_publishing();
}

void Checkpointing::finish() {
    while (phase_ != Phase::idle) {
        work_.wait();
        poll();
    }
}

void Checkpointing::poll_writing() {
    std::string said(1, static_cast<char>(Written::not_yet));
    if (work_.has_ended()) {
        work_.wait();
        said[0] = static_cast<char>(work_.error().empty() ? Written::well : Written::failed);
        said += work_.error().empty() ? fmt::format("{} {}", stall_s_, shard_text(shard_))
                                      : work_.error();
    }
    const std::vector<ControlPlane::Bytes> all = control_.gather(bytes_of_text(said));
    std::string error;
    bool done = true;
    std::vector<Shard> shards;
    report_ = {};
    for (const ControlPlane::Bytes& bytes : all) {
        const std::string of_rank = text_of(bytes);
        const auto written = static_cast<Written>(of_rank[0]);
        if (written == Written::failed && error.empty()) error = of_rank.substr(1);
        done = done && written == Written::well;
        if (written != Written::well) continue;
        const std::size_t space = of_rank.find(' ');
        report_.stall_s = std::max(report_.stall_s, std::stod(of_rank.substr(1, space - 1)));
        Shard shard = read_shard_text("shard", of_rank.substr(space + 1));
        report_.bytes += shard.bytes;
        if (done) shards.push_back(std::move(shard));
    }
    agree(error);
    ControlPlane::Bytes published(done ? 1 : 0);
    control_.broadcast(published);
    if (published.empty()) return;
    phase_ = Phase::publishing;
    if (control_.rank() == 0) publish(std::move(shards));
}

void Checkpointing::publish(std::vector<Shard> shards) {
    Manifest manifest;
    manifest.progress = progress_;
    manifest.data = options_.data;
    manifest.scenario = options_.scenario;
    manifest.tensors = saved_tensors(*scenario_, shards);
    manifest.shards = std::move(shards);
    work_.begin([this, manifest = std::move(manifest)] {
        publish_checkpoint(files(), options_.path, manifest, {options_.keep, !of_this_run_});
    });
}

void Checkpointing::poll_publishing() {
    ControlPlane::Bytes ended(control_.rank() == 0 && work_.has_ended() ? 1 : 0);
    control_.broadcast(ended);
    if (ended.empty()) return;
    if (control_.rank() == 0) work_.wait();
    agree(control_.rank() == 0 ? work_.error() : "");
    phase_ = Phase::idle;
    of_this_run_ = true;
    if (control_.rank() != 0) return;
    report_.step = progress_.step;
    report_.path = checkpoint_path(options_.path, progress_.step);
    report_.write_s = seconds_since(saved_at_ns_);
    if (options_.published) options_.published(report_);
}

void Checkpointing::Work::begin(std::function<void()> work) {
    wait();
    error_.clear();
    ended_ = false;
    thread_ = std::thread([this, work = std::move(work)] {
        try {
            work();
        } catch (const std::exception& failed) {
            error_ = failed.what();
        }
        ended_ = true;
    });
}

void Checkpointing::Work::wait() {
    if (thread_.joinable()) thread_.join();
}

}  // namespace orrery::runtime

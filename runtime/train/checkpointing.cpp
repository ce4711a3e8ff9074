#include "runtime/train/checkpointing.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <type_traits>
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

// As another rank threw it: `said` is "path: what is wrong".
DataError data_error(const std::string& said) {
    const std::size_t colon = said.find(": ");
    return {said.substr(0, colon), said.substr(colon + 2)};
}

// The first complaint of a rank; empty: none has any.
std::string first_complaint(ControlPlane& control, const std::string& own) {
    for (const ControlPlane::Bytes& of_rank : control.all_gather(bytes_of_text(own)))
        if (!of_rank.empty()) return text_of(of_rank);
    return "";
}

// Of a rank whose shard is being written, or is: how long it stood still, and the shard.
enum class Written : char { not_yet = 'n', well = 'w', failed = 'f' };

}  // namespace

DamagedCheckpoint::DamagedCheckpoint(const std::string& said, std::int64_t step)
    : DataError(data_error(said)), step_(step) {}

namespace {

// The checkpoint to begin with, as rank 0 found it; step 0 and no path: there is none.
FoundCheckpoint checkpoint_to_resume(const CheckpointOptions& options) {
    for (const FoundCheckpoint& found : named_checkpoints(options.path))
        if (options.resume_step == 0 || found.step == options.resume_step) return found;
    if (options.resume_step > 0)
        throw DataError(checkpoint_path(options.path, options.resume_step),
                        "there is no such checkpoint");
    return {};
}

// On all ranks what it is on rank 0, or the error that it was there.
template <typename Error, typename Make>
std::string of_rank_0(ControlPlane& control, Make make) {
    constexpr char kWell = 'w', kFailed = 'f';
    ControlPlane::Bytes said;
    if (control.rank() == 0) {
        try {
            said = bytes_of_text(kWell + make());
        } catch (const Error& error) {
            said = bytes_of_text(kFailed + std::string(error.what()));
        }
    }
    control.broadcast(said);
    const std::string text = text_of(said);
    if (text[0] == kWell) return text.substr(1);
    if constexpr (std::is_same_v<Error, DataError>)
        throw data_error(text.substr(1));
    else
        throw Error(text.substr(1));
}

// What to do about a damaged one: the others that there are.
std::string way_out(const CheckpointOptions& options, std::int64_t step) {
    constexpr int kMostNamed = 5;
    std::string older;
    int count = 0;
    for (const FoundCheckpoint& found : checkpoints_in(options.path))
        if (found.step < step && ++count <= kMostNamed)
            older += fmt::format("{}{}", older.empty() ? "" : ", ", found.step);
    if (older.empty()) return "; there is no older one";
    if (count > kMostNamed) older += fmt::format(" and {} more", count - kMostNamed);
    return fmt::format("; older ones are of step {}: --resume-step N goes on from one", older);
}

}  // namespace

std::unique_ptr<CheckpointReader> newest_checkpoint(const CheckpointOptions& options,
                                                    ControlPlane& control) {
    const std::string newest =
        of_rank_0<DataError>(control, [&] { return checkpoint_to_resume(options).path; });
    if (newest.empty()) return nullptr;
    std::unique_ptr<CheckpointReader> checkpoint;
    std::string complaint;
    try {
        checkpoint = std::make_unique<CheckpointReader>(newest);
        const auto rank = static_cast<std::size_t>(control.rank());
        for (std::size_t i = rank; i < checkpoint->manifest().shards.size();
             i += static_cast<std::size_t>(control.size()))
            checkpoint->verify_shard(i);
    } catch (const DataError& error) {
        complaint = error.what();
    }
    complaint = first_complaint(control, complaint);
    if (complaint.empty()) return checkpoint;
    const std::int64_t step = step_of_checkpoint(newest);
    throw DamagedCheckpoint(complaint + way_out(options, step), step);
}

HeldFolder::HeldFolder(const CheckpointOptions& options, ControlPlane& control) {
    run_id_ = of_rank_0<StorageError>(control, [&] {
        const std::string run_id = new_run_id();
        if (!options.supervised) refuse_if_locked(options.path, kSupervisorLock);
        lock_ = std::make_unique<FolderLock>(options.path, kRunLock, run_id);
        return run_id;
    });
}

Checkpointing::Checkpointing(const CheckpointOptions& options, const HeldFolder& folder,
                             ControlPlane& control, std::int64_t resumed)
    : options_(options),
      folder_(folder),
      control_(control),
      place_{options.files != nullptr ? *options.files : disk_files(), options.path,
             folder.run_id()},
      of_this_run_until_(resumed),
      interval_(options.every_steps, options.mean_time_to_failure_s) {
    of_rank_0<StorageError>(control, [&] {
        if (folder.lock()->is_exclusive()) remove_unfinished(place_.files, options.path);
        return std::string();
    });
    of_rank_0<DataError>(control, [&] {
        const bool earlier = !options.resume && !named_checkpoints(options.path).empty();
        if (earlier && options.found_earlier) options.found_earlier();
        return std::string();
    });
}

Checkpointing::~Checkpointing() = default;

// What rank 0 found ends the run everywhere.
void Checkpointing::agree(const std::string& error) {
    ControlPlane::Bytes said = bytes_of_text(error);
    control_.broadcast(said);
    if (!said.empty()) throw StorageError(text_of(said));
}

void Checkpointing::save(const Device& device, std::vector<SavedPart> parts,
                         const Progress& progress, const plan::Plan& plan) {
    const std::int64_t start = now_ns();
    interval_.saved();
    finish();
    require_data_unchanged();
    of_rank_0<StorageError>(control_, [&] {
        folder_.lock()->require_still_held();
        begin_checkpoint(place_, progress.step);
        return std::string();
    });
    progress_ = progress;
    plan_ = &plan;
    snapshot_.take(device, std::move(parts));
    saved_at_ns_ = now_ns();
    stall_s_ = seconds_since(start);
    phase_ = Phase::writing;
    work_.begin([this] {
        shard_ =
            write_shard(place_, progress_.step, shard_name(control_.rank()), snapshot_.pieces());
    });
}

void Checkpointing::require_data_unchanged() {
    std::string complaint;
    try {
        if (options_.require_data_unchanged) options_.require_data_unchanged();
    } catch (const DataError& error) {
        complaint = error.what();
    }
    complaint = first_complaint(control_, complaint);
    if (!complaint.empty()) throw data_error(complaint);
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
    manifest.tensors = saved_tensors(*plan_, shards);
    manifest.frozen = frozen_tensors(*plan_);
    manifest.shards = std::move(shards);
    work_.begin([this, manifest = std::move(manifest)] {
        folder_.lock()->require_still_held();
        publish_checkpoint(place_, manifest, {options_.keep, true, of_this_run_until_});
    });
}

void Checkpointing::poll_publishing() {
    ControlPlane::Bytes ended(control_.rank() == 0 && work_.has_ended() ? 1 : 0);
    control_.broadcast(ended);
    if (ended.empty()) return;
    if (control_.rank() == 0) work_.wait();
    agree(control_.rank() == 0 ? work_.error() : "");
    phase_ = Phase::idle;
    of_this_run_until_ = progress_.step;
    report_.step = progress_.step;
    report_.path = checkpoint_path(options_.path, progress_.step);
    report_.write_s = seconds_since(saved_at_ns_);
    if (control_.rank() == 0 && options_.published) options_.published(report_);
    if (interval_.measured()) adapt_interval();
}

// Rank 0 has seen the longest stall, and all save after the same steps.
void Checkpointing::adapt_interval() {
    const std::int64_t before = interval_.chosen();
    ControlPlane::Bytes steps;
    IntervalChoice choice;
    if (control_.rank() == 0) {
        choice = interval_.choose(report_.stall_s, report_.write_s);
        steps = bytes_of_text(std::to_string(choice.steps));
    }
    control_.broadcast(steps);
    interval_.set(std::stoll(text_of(steps)));
    if (control_.rank() == 0 && choice.steps != before && options_.chosen) options_.chosen(choice);
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

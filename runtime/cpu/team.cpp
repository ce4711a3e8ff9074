#include "runtime/cpu/team.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "plan/check.hpp"

namespace orrery::runtime {
namespace {

constexpr std::size_t kAlignment = 64;  // a line of the cache
// Kernels follow one another within microseconds: to look again for as long is cheaper than sleep.
constexpr int kLooks = 2000;

// Memory that grows and never shrinks.
class Scratch {
  public:
    void reserve(std::size_t bytes) {
        if (bytes <= size_) return;
        size_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
        memory_.reset(std::aligned_alloc(kAlignment, size_));
        if (memory_) return;
        size_ = 0;
        throw std::bad_alloc();
    }
    void* data() const { return memory_.get(); }

  private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<void, Free> memory_;
    std::size_t size_ = 0;
};

template <typename Done>
void look_for(const Done& done) {
    for (int i = 0; i < kLooks && !done(); ++i)
        __builtin_ia32_pause();
}

}  // namespace

// A job is open from when it is posted until its caller finds nothing left of it. A worker that
// wakes up later does not hold it up.
struct Team::State {
    std::mutex mutex;
    std::condition_variable posted;  // a job, or the end
    std::condition_variable left;    // the last worker has left the job
    std::atomic<std::uint64_t> jobs = 0;
    std::atomic<int> working = 0;  // workers within the job, the caller aside
    bool open = false;
    bool stop = false;

    Task task{};
    std::int64_t n = 0;
    std::int64_t grain = 1;
    std::atomic<std::int64_t> next = 0;

    Scratch shared;
    std::vector<Scratch> scratch;
    std::vector<std::thread> threads;

    void work(int worker) {
        for (;;) {
            const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
            if (begin >= n) return;
            task.call(task.context, begin, std::min(begin + grain, n), worker);
        }
    }
};

Team::Team(int threads) : size_(threads), state_(std::make_unique<State>()) {
    ORRERY_CHECK(threads >= 1, "a team has at least its caller");
    state_->scratch.resize(static_cast<std::size_t>(threads));
    for (int worker = 1; worker < threads; ++worker)
        state_->threads.emplace_back([this, worker] { serve(worker); });
}

Team::~Team() {
    {
        const std::lock_guard lock(state_->mutex);
        state_->stop = true;
        ++state_->jobs;
    }
    state_->posted.notify_all();
    for (std::thread& thread : state_->threads)
        thread.join();
}

void Team::serve(int worker) {
    State& state = *state_;
    std::uint64_t seen = 0;
    for (;;) {
        look_for([&] { return state.jobs.load(std::memory_order_relaxed) != seen; });
        {
            std::unique_lock lock(state.mutex);
            state.posted.wait(lock, [&] { return state.jobs.load() != seen; });
            seen = state.jobs.load();
            if (state.stop) return;
            if (!state.open) continue;
            ++state.working;
        }
        state.work(worker);
        const std::lock_guard lock(state.mutex);
        if (--state.working == 0) state.left.notify_one();
    }
}

void Team::run(std::int64_t n, std::int64_t grain, Task task) {
    ORRERY_CHECK(grain > 0, "work is divided into parts of at least one element");
    State& state = *state_;
    if (size_ == 1 || n <= grain) {
        for (std::int64_t begin = 0; begin < n; begin += grain)
            task.call(task.context, begin, std::min(begin + grain, n), 0);
        return;
    }
    {
        const std::lock_guard lock(state.mutex);
        state.task = task;
        state.n = n;
        state.grain = grain;
        state.next.store(0, std::memory_order_relaxed);
        state.open = true;
        ++state.jobs;
    }
    state.posted.notify_all();
    state.work(0);
    look_for([&] { return state.working.load(std::memory_order_relaxed) == 0; });
    std::unique_lock lock(state.mutex);
    state.open = false;
    state.left.wait(lock, [&] { return state.working.load() == 0; });
}

void Team::reserve(std::size_t shared_bytes, std::size_t bytes_per_worker) {
    state_->shared.reserve(shared_bytes);
    for (Scratch& scratch : state_->scratch)
        scratch.reserve(bytes_per_worker);
}

void* Team::shared_scratch() const {
    return state_->shared.data();
}

void* Team::scratch(int worker) const {
    return state_->scratch[static_cast<std::size_t>(worker)].data();
}

}  // namespace orrery::runtime

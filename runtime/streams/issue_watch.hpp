// Watches over a thread that issues calls, from a thread of its own. Whoever puts a whole step into
// a device's queue is held by the driver once the queue is full, and a queue behind a call that no
// other rank joins stays full: whether a run is over cannot be left to that thread to find out.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace orrery::runtime {

struct WatchOptions {
    // How long the issuing thread may not be seen until the watch looks in its place.
    std::chrono::milliseconds away{500};
    // A call of the driver holds it for at least so long before that ends the run.
    std::chrono::milliseconds held{10'000};
    // How long it may then take to come back from a run that is over …
    std::chrono::milliseconds until_back{3000};
    // … before this is told why the run is over, once, to end the process. Empty: nobody is.
    std::function<void(const std::string& reason)> overdue;
};

class IssueWatch {
  public:
    // `look`: why the run is over, which it then ends; empty: it goes on. Called on the watch's
    // thread, only while the other one is away. Neither may throw.
    IssueWatch(std::function<std::string()> look, WatchOptions options);
    ~IssueWatch();
    IssueWatch(const IssueWatch&) = delete;
    IssueWatch& operator=(const IssueWatch&) = delete;

    // By the thread that issues.
    void seen() { seen_.store(std::chrono::steady_clock::now()); }

  private:
    void watch();
    // Whether the watch is to leave before.
    bool leaves_within(std::chrono::milliseconds time);

    const std::function<std::string()> look_;
    const WatchOptions options_;
    std::atomic<std::chrono::steady_clock::time_point> seen_;
    std::mutex mutex_;
    std::condition_variable left_;
    bool leaves_ = false;
    std::thread thread_;
};

}  // namespace orrery::runtime

// The threads of one rank on a CPU. Ranks are themselves threads of a process, so a rank brings its
// own small pool instead of one of the process's.
// Which thread works on which part is left to chance; kernels divide work so that no result
// depends on it, nor on how many threads there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace orrery::runtime {

class Team {
  public:
    // `threads` counts the calling thread: 1 starts none.
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return size_; }

    // Calls work(begin, end) or work(begin, end, worker) for [0, n) in parts of `grain` elements,
    // the last one shorter; worker is in [0, size()). Returns when all is done. One caller at a
    // time, not from within; work must not throw.
    template <typename Work>
    [[gnu::always_inline]] void parallel_for(std::int64_t n, std::int64_t grain, const Work& work) {
        run(n, grain,
            {&work, [](const void* context, std::int64_t begin, std::int64_t end, int worker) {
                 const Work& call = *static_cast<const Work*>(context);
                 if constexpr (std::is_invocable_v<const Work&, std::int64_t, std::int64_t, int>)
                     call(begin, end, worker);
                 else
                     call(begin, end), static_cast<void>(worker);
             }});
    }

    // Scratch memory that is kept from call to call: some for all, some for each worker, of what
    // sizes the next kernel needs. Contents are lost; may throw std::bad_alloc.
    void reserve(std::size_t shared_bytes, std::size_t bytes_per_worker);
    void* shared_scratch() const;  // aligned to 64 bytes, as is
    void* scratch(int worker) const;

  private:
    struct Task {
        const void* context;
        void (*call)(const void*, std::int64_t begin, std::int64_t end, int worker);
    };
    struct State;

    void run(std::int64_t n, std::int64_t grain, Task task);
    void serve(int worker);

    int size_;
    std::unique_ptr<State> state_;
};

}  // namespace orrery::runtime

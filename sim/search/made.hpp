// Values that are made when first asked for, and kept: what a search's threads share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace orrery::sim {

inline std::size_t mixed(std::size_t seed, std::uint64_t value) {
    return (seed ^ value) * 0x9E3779B97F4A7C15ULL + (seed >> 29);
}

// Of two threads that ask for the same at once one waits.
template <typename Key, typename Value, typename Hash>
class Made {
  public:
    template <typename Make>
    const Value& get(const Key& key, Make make) {
        Entry* entry = nullptr;
        {
            const std::lock_guard lock(mutex_);
            std::unique_ptr<Entry>& there = entries_[key];
            if (!there) there = std::make_unique<Entry>();
            entry = there.get();
        }
        std::call_once(entry->once, [&] { entry->value.emplace(make()); });
        return *entry->value;
    }

  private:
    struct Entry {
        std::once_flag once;
        std::optional<Value> value;
    };
    std::mutex mutex_;
    std::unordered_map<Key, std::unique_ptr<Entry>, Hash> entries_;
};

template <std::size_t n>
struct NumbersHash {
    std::size_t operator()(const std::array<std::int64_t, n>& numbers) const {
        std::size_t seed = 1;
        for (const std::int64_t number : numbers)
            seed = mixed(seed, static_cast<std::uint64_t>(number));
        return seed;
    }
};

}  // namespace orrery::sim

#include "runtime/data/guarded_mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <mutex>

#include "plan/check.hpp"

namespace orrery::runtime {

// Never freed, and used again: the handler may be reading the list at any time.
struct GuardedMapping::Slot {
    std::atomic<std::uintptr_t> begin{0}, end{0};  // 0: of no mapping
    std::atomic<std::int64_t> lost_at{-1};
    Slot* next = nullptr;
};

namespace {

std::mutex slots_mutex;  // of those who make and end mappings; the handler does without
std::atomic<GuardedMapping::Slot*> slots{nullptr};
std::atomic<std::uintptr_t> page_bytes{0};
struct sigaction earlier_handler {};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free &&
                  std::atomic<GuardedMapping::Slot*>::is_always_lock_free,
              "a signal handler may use them");

// Zeros from the page of `address` to the end of the mapping.
bool replace(GuardedMapping::Slot& slot, std::uintptr_t address) {
    const std::uintptr_t from = address / page_bytes.load() * page_bytes.load();
    void* const at = reinterpret_cast<void*>(from);
    if (mmap(at, slot.end.load() - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != at)
        return false;
    const auto offset = static_cast<std::int64_t>(from - slot.begin.load());
    std::int64_t first = slot.lost_at.load();
    while ((first < 0 || offset < first) && !slot.lost_at.compare_exchange_weak(first, offset))
        continue;
    return true;
}

extern "C" void take_bus_error(int signal, siginfo_t* about, void* context) {
    const auto address = reinterpret_cast<std::uintptr_t>(about->si_addr);
    for (GuardedMapping::Slot* slot = slots.load(); slot != nullptr; slot = slot->next)
        if (address >= slot->begin.load() && address < slot->end.load() && replace(*slot, address))
            return;
    if ((earlier_handler.sa_flags & SA_SIGINFO) != 0)
        return earlier_handler.sa_sigaction(signal, about, context);
    sigaction(signal, &earlier_handler, nullptr);  // and the access, done again, meets it
}

void guard_once() {
    static const bool kGuarded = [] {
        page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
        struct sigaction now {};
        now.sa_sigaction = take_bus_error;
        now.sa_flags = SA_SIGINFO;
        sigemptyset(&now.sa_mask);
        return sigaction(SIGBUS, &now, &earlier_handler) == 0;
    }();
    ORRERY_CHECK(kGuarded, "SIGBUS can be handled");
}

GuardedMapping::Slot& free_slot() {
    for (GuardedMapping::Slot* slot = slots.load(); slot != nullptr; slot = slot->next)
        if (slot->end.load() == 0) return *slot;
    auto* const slot = new GuardedMapping::Slot;
    slot->next = slots.load();
    slots = slot;
    return *slot;
}

GuardedMapping::Slot& slot_for(std::span<const std::byte> bytes) {
    guard_once();
    const std::lock_guard lock(slots_mutex);
    GuardedMapping::Slot& slot = free_slot();
    slot.lost_at = -1;
    slot.begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    slot.end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size());
    return slot;
}

}  // namespace

GuardedMapping::GuardedMapping(std::span<const std::byte> bytes) : slot_(slot_for(bytes)) {}

GuardedMapping::~GuardedMapping() {
    const std::lock_guard lock(slots_mutex);
    slot_.end = 0;
    slot_.begin = 0;
}

std::int64_t GuardedMapping::lost_at() const {
    return slot_.lost_at;
}

}  // namespace orrery::runtime

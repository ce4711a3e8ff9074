// Files that get shorter, or are written into, while they are mapped.
#include "runtime/data/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/data/data_files.hpp"

namespace orrery::runtime {
namespace ORRERY_TEST_FILE {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kPage = 4096;

class MappedFileTest : public testing::Test {
  protected:
    std::string file(const std::string& name, std::int64_t pages) {
        trace::put_file(folder_.file(name),
                        std::string(static_cast<std::size_t>(pages * kPage), 'a'));
        return folder_.file(name);
    }

    static std::int64_t sum(const MappedFile& file, std::int64_t first_page,
                            std::int64_t end_page) {
        const auto bytes =
            file.bytes().subspan(static_cast<std::size_t>(first_page * kPage),
                                 static_cast<std::size_t>((end_page - first_page) * kPage));
        std::int64_t total = 0;
        for (const std::byte byte : bytes)
            total += std::to_integer<std::int64_t>(byte);
        return total;
    }

    trace::TestFolder folder_;
};

TEST_F(MappedFileTest, SaysThatItWasCutOffWhileItWasRead) {
    const MappedFile cut(file("cut", 8)), whole(file("whole", 8));
    EXPECT_EQ(sum(cut, 0, 8), 8 * kPage * 'a');
    EXPECT_NO_THROW(cut.require_read());
    std::filesystem::resize_file(cut.path(), 3 * kPage);
    EXPECT_EQ(sum(cut, 0, 3), 3 * kPage * 'a');
    EXPECT_NO_THROW(cut.require_read()) << "these are there";
    EXPECT_EQ(sum(cut, 5, 8), 0);
    EXPECT_THAT([&] { cut.require_read(); },
                ThrowsMessage<DataError>(cut.path() +
                                         ": cannot be read from byte 20480 on: it had 32768 bytes "
                                         "when it was opened and has 12288 now"));
    EXPECT_EQ(sum(cut, 3, 4), 0);
    EXPECT_THAT([&] { cut.require_read(); }, ThrowsMessage<DataError>(HasSubstr("byte 12288 on")));
    EXPECT_EQ(sum(whole, 0, 8), 8 * kPage * 'a');
    EXPECT_NO_THROW(whole.require_read());
}

TEST_F(MappedFileTest, OfManyEachRemembersItsOwn) {
    std::vector<std::unique_ptr<MappedFile>> files;
    for (int i = 0; i < 40; ++i)
        files.push_back(std::make_unique<MappedFile>(file(std::to_string(i), 4)));
    for (std::size_t i = 0; i < files.size(); i += 3)
        files[i] = std::make_unique<MappedFile>(files[i]->path());  // slots are used again
    for (std::size_t i = 0; i < files.size(); i += 2)
        std::filesystem::resize_file(files[i]->path(), 0);
    std::vector<std::thread> readers;
    std::atomic<std::int64_t> total = 0;
    for (int reader = 0; reader < 4; ++reader)
        readers.emplace_back([&] {
            for (const auto& each : files)
                total += sum(*each, 0, 4);
        });
    for (std::thread& reader : readers)
        reader.join();
    EXPECT_EQ(total, 4 * 20 * 4 * kPage * 'a') << "half of them are there";
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (i % 2 == 0)
            EXPECT_THROW(files[i]->require_read(), DataError) << i;
        else
            EXPECT_NO_THROW(files[i]->require_read()) << i;
    }
}

TEST_F(MappedFileTest, LeavesABusErrorOfSomebodyElseAsItWas) {
    const MappedFile guarded(file("guarded", 1));
    EXPECT_DEATH(
        {
            const std::string path = file("other", 1);
            const int descriptor = open(path.c_str(), O_RDONLY);
            const void* start = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, descriptor, 0);
            std::filesystem::resize_file(path, 0);
            static_cast<void>(*static_cast<const volatile char*>(start));
        },
        "");
}

}  // namespace ORRERY_TEST_FILE
}  // namespace orrery::runtime

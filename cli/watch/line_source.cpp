#include "cli/watch/line_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/watch/shell_command.hpp"

namespace orrery::cli {
namespace {

constexpr std::size_t kLongestLine = std::size_t{64} << 20;  // a start event holds a whole scenario
constexpr std::size_t kMostAtOnce = std::size_t{4} << 20;    // so that other runs have their turn

class DescriptorSource : public LineSource {
  public:
    bool closed() const override { return closed_; }

  protected:
    void read_from(int descriptor, std::vector<std::string>& lines) {
        std::array<char, 65536> bytes{};
        for (std::size_t taken = 0; taken < kMostAtOnce;) {
            const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return;  // nothing now
            if (got == 0) {
                closed_ = true;
                return;
            }
            taken += static_cast<std::size_t>(got);
            cut({bytes.data(), static_cast<std::size_t>(got)}, lines);
        }
    }
    static void never_wait(int descriptor) {
        ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
    }

  private:
    bool closed_ = false;
};

class StdinSource : public DescriptorSource {
  public:
    StdinSource() { never_wait(STDIN_FILENO); }
    std::vector<std::string> lines() override {
        std::vector<std::string> lines;
        if (!closed()) read_from(STDIN_FILENO, lines);
        return lines;
    }
};

class CommandSource : public DescriptorSource {
  public:
    explicit CommandSource(const std::string& command) : command_(command, {}, ShellOutput::piped) {
        never_wait(command_.output());
    }

    std::vector<std::string> lines() override {
        std::vector<std::string> lines;
        if (!closed()) read_from(command_.output(), lines);
        return lines;
    }
    std::string problem() const override {
        const auto code = closed() ? command_.exit_code() : std::nullopt;
        return code.value_or(0) == 0 ? "" : fmt::format("{}: exit code {}", command_.text(), *code);
    }

  private:
    mutable ShellCommand command_;
};

class FileSource : public LineSource {
  public:
    explicit FileSource(std::string path) : path_(std::move(path)) {}
    ~FileSource() override { close(); }
    FileSource(const FileSource&) = delete;
    FileSource& operator=(const FileSource&) = delete;

    std::vector<std::string> lines() override {
        std::vector<std::string> lines;
        struct stat now {};
        if (::stat(path_.c_str(), &now) != 0) {
            problem_ = std::strerror(errno);
            return lines;
        }
        if (descriptor_ >= 0 && (now.st_ino != inode_ || now.st_size < at_)) close();
        if (descriptor_ < 0) {
            descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
            if (descriptor_ < 0) {
                problem_ = std::strerror(errno);
                return lines;
            }
            inode_ = now.st_ino;
        }
        problem_.clear();
        std::array<char, 65536> bytes{};
        for (std::size_t taken = 0; taken < kMostAtOnce;) {
            const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), at_);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) problem_ = std::strerror(errno);
            if (got <= 0) break;
            at_ += got;
            taken += static_cast<std::size_t>(got);
            cut({bytes.data(), static_cast<std::size_t>(got)}, lines);
        }
        return lines;
    }
    bool closed() const override { return false; }
    std::string problem() const override { return problem_; }

  private:
    void close() {
        if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
        at_ = 0;
        forget_partial();
    }

    std::string path_;
    int descriptor_ = -1;
    ino_t inode_ = 0;
    off_t at_ = 0;
    std::string problem_;
};

}  // namespace

void LineSource::cut(std::string_view bytes, std::vector<std::string>& lines) {
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        const std::string_view part = bytes.substr(0, end);
        if (!too_long_ && partial_.size() + part.size() > kLongestLine) {
            too_long_ = true;
            ++dropped_;
            partial_.clear();
        }
        if (!too_long_) partial_ += part;
        if (end == std::string_view::npos) return;
        if (!too_long_) lines.push_back(std::exchange(partial_, {}));
        too_long_ = false;
        bytes.remove_prefix(end + 1);
    }
}

std::unique_ptr<LineSource> file_source(const std::string& path) {
    return std::make_unique<FileSource>(path);
}
std::unique_ptr<LineSource> stdin_source() {
    return std::make_unique<StdinSource>();
}
std::unique_ptr<LineSource> command_source(const std::string& command) {
    return std::make_unique<CommandSource>(command);
}

}  // namespace orrery::cli

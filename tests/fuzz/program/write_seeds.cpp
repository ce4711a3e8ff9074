// write_seeds FOLDER: what the fuzzers start from, FOLDER/TARGET/N for each target, and the words
// they may use, FOLDER/words.dict. Prints each target's name and longest input.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/targets.hpp"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << bytes;
    file.close();
    if (!file) throw std::runtime_error(path.string() + ": cannot be written");
}

std::string quoted(const std::string& word) {
    constexpr const char* kHex = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : word) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = c > ' ' && c <= '~' && c != '"' && c != '\\';
        if (plain)
            out += c;
        else
            out += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
    }
    return out + "\"\n";
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fputs("usage: write_seeds FOLDER\n", stderr);
        return 2;
    }
    const fs::path folder = argv[1];
    for (const orrery::fuzz::Target& target : orrery::fuzz::targets()) {
        fs::create_directories(folder / target.name);
        int number = 0;
        for (const std::string& seed : target.seeds())
            write(folder / target.name / std::to_string(number++), seed);
        std::printf("%s %zu\n", target.name, target.longest_input);
    }
    std::string words;
    for (const std::string& word : orrery::fuzz::dictionary())
        if (!word.empty()) words += quoted(word);
    write(folder / "words.dict", words);
    return 0;
}

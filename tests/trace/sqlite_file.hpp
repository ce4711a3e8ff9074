// Small databases, made by SQLite itself.
#pragma once

#include <sqlite3.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace orrery::trace {

// A new database with what the statements put there; its path.
inline std::string sqlite_file(const std::string& name, const std::string& statements) {
    const std::string path = testing::TempDir() + '/' + name;
    std::filesystem::remove(path);
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    char* why = nullptr;
    EXPECT_EQ(sqlite3_exec(database, statements.c_str(), nullptr, nullptr, &why), SQLITE_OK)
        << (why != nullptr ? why : "") << statements;
    sqlite3_free(why);
    sqlite3_close(database);
    return path;
}

// globalTid of a thread, globalPid of thread 0: the process is in bits 24 to 47, a number of the
// machine above.
inline std::string global_id(long process, long thread = 0) {
    return std::to_string((1L << 56) | (process << 24) | thread);
}

}  // namespace orrery::trace

#include "trace/formats/sqlite_database.hpp"

#include <sqlite3.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "trace/trace_file_error.hpp"

namespace orrery::trace {
namespace {

// "The Database Header" of the SQLite file format.
constexpr std::string_view kMagic{"SQLite format 3\0", 16};

}  // namespace

void SqliteDatabase::Closer::operator()(sqlite3* database) const {
    sqlite3_close(database);
}

void SqliteDatabase::Rows::Finalizer::operator()(sqlite3_stmt* statement) const {
    sqlite3_finalize(statement);
}

SqliteDatabase::SqliteDatabase(const std::string& path) : path_(path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        fail("cannot be opened: " + std::generic_category().message(errno));
    if (!S_ISREG(status.st_mode)) fail("is not a regular file");
    sqlite3* database = nullptr;
    const int fault = sqlite3_open_v2(path.c_str(), &database,
                                      SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
    database_.reset(database);
    if (fault != SQLITE_OK) fail_as_sqlite_says();
    // What a stranger's schema says is not run: its views and triggers call no function that acts.
    sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    // SQLite fills up a page that was cut off with zeros.
    Rows size = ask("SELECT page_count, page_size FROM pragma_page_count, pragma_page_size");
    if (size.next() && size.whole(0) * size.whole(1) > status.st_size)
        fail(fmt::format("is cut off: {} pages of {} bytes are {} bytes, and it has {}",
                         size.whole(0), size.whole(1), size.whole(0) * size.whole(1),
                         static_cast<std::int64_t>(status.st_size)));
}

void SqliteDatabase::fail(const std::string& what) const {
    throw TraceFileError(TraceFault::unreadable, path_, what);
}

void SqliteDatabase::fail_as_sqlite_says() const {
    fail(fmt::format("SQLite cannot read it: {}", sqlite3_errmsg(database_.get())));
}

SqliteDatabase::Rows SqliteDatabase::ask(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_.get(), sql.c_str(), static_cast<int>(sql.size()), &statement,
                           nullptr) != SQLITE_OK)
        fail_as_sqlite_says();
    return {*this, statement};
}

std::vector<std::string> SqliteDatabase::tables() {
    std::vector<std::string> names;
    for (Rows rows = ask("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
         rows.next();)
        names.emplace_back(rows.text(0));
    return names;
}

std::vector<std::string> SqliteDatabase::columns(const std::string& table) {
    std::vector<std::string> names;
    for (Rows rows = ask(fmt::format("SELECT name FROM pragma_table_info('{}')", table));
         rows.next();)
        names.emplace_back(rows.text(0));
    return names;
}

SqliteDatabase::Rows::Rows(SqliteDatabase& database, sqlite3_stmt* statement)
    : database_(database), statement_(statement) {}

bool SqliteDatabase::Rows::next() {
    const int fault = sqlite3_step(statement_.get());
    if (fault != SQLITE_ROW && fault != SQLITE_DONE) database_.fail_as_sqlite_says();
    return fault == SQLITE_ROW;
}

bool SqliteDatabase::Rows::is_null(int column) const {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

bool SqliteDatabase::Rows::is_text(int column) const {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_TEXT;
}

std::int64_t SqliteDatabase::Rows::whole(int column) const {
    return sqlite3_column_int64(statement_.get(), column);
}

std::string_view SqliteDatabase::Rows::text(int column) const {
    const unsigned char* text = sqlite3_column_text(statement_.get(), column);
    if (text == nullptr) return {};
    return {reinterpret_cast<const char*>(text),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

bool begins_as_sqlite(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    std::array<char, kMagic.size()> head{};
    std::ifstream file(path, std::ios::binary);
    return file.read(head.data(), head.size()) &&
           std::string_view(head.data(), head.size()) == kMagic;
}

}  // namespace orrery::trace

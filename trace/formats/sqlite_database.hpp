// A SQLite database that another program wrote, opened to be read and never written. Whatever is
// wrong with it is a TraceFileError (unreadable) with the file's name. Internal to trace/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace orrery::trace {

class SqliteDatabase {
  public:
    explicit SqliteDatabase(const std::string& path);

    std::vector<std::string> tables();
    // Of a table, in their order; empty: there is no such table.
    std::vector<std::string> columns(const std::string& table);

    // What a question is answered with, row by row. Columns count from 0.
    class Rows {
      public:
        bool next();
        bool is_null(int column) const;
        bool is_text(int column) const;
        std::int64_t whole(int column) const;     // 0 where it is no number
        std::string_view text(int column) const;  // until the next row; empty where it is null

      private:
        friend class SqliteDatabase;
        Rows(SqliteDatabase& database, sqlite3_stmt* statement);
        struct Finalizer {
            void operator()(sqlite3_stmt* statement) const;
        };
        SqliteDatabase& database_;
        std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
    };
    Rows ask(const std::string& sql);

    [[noreturn]] void fail(const std::string& what) const;

  private:
    [[noreturn]] void fail_as_sqlite_says() const;

    struct Closer {
        void operator()(sqlite3* database) const;
    };
    std::string path_;
    std::unique_ptr<sqlite3, Closer> database_;
};

// By its first bytes. False where it cannot be read.
bool begins_as_sqlite(const std::string& path);

}  // namespace orrery::trace

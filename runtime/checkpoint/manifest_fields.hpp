// Values of a manifest's JSON, each what it should be or DataError with the file and the key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/data/mapped_file.hpp"

namespace orrery::runtime {

class ManifestFields {
  public:
    // `json` must outlive the object, which is part of the file at `path`, there called `called`.
    ManifestFields(const std::string& path, const nlohmann::json& json, std::string called)
        : path_(path), json_(json), called_(std::move(called)) {
        if (!json.is_object()) refuse("is no JSON object");
    }

    const std::string& path() const { return path_; }

    [[noreturn]] void refuse(const std::string& why) const {
        throw DataError(path_, called_ + ": " + why);
    }

    const nlohmann::json& value(const char* key) const {
        const auto found = json_.find(key);
        if (found == json_.end()) refuse(std::string(key) + " is missing");
        return *found;
    }
    std::string text(const char* key) const {
        if (!value(key).is_string()) refuse(std::string(key) + " is no string");
        const std::string text = value(key).get<std::string>();
        // The end of a name to the system, which would open another file.
        if (text.find('\0') != text.npos) refuse(std::string(key) + " has a character of value 0");
        return text;
    }
    std::string optional_text(const char* key) const {  // empty: it is not there
        return json_.contains(key) ? text(key) : std::string();
    }
    double number(const char* key) const {
        if (!value(key).is_number()) refuse(std::string(key) + " is no number");
        return value(key).get<double>();
    }
    std::int64_t natural(const char* key) const { return natural(value(key), key); }
    std::int64_t optional_natural(const char* key) const {  // 0: it is not there
        return json_.contains(key) ? natural(key) : 0;
    }
    std::int64_t natural(const nlohmann::json& number, const char* which) const {
        constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
        if (!number.is_number_unsigned() || number.get<std::uint64_t>() > kMost)
            refuse(std::string(which) + ": " + number.dump(-1, ' ', true, kReplace) +
                   " is no natural number below 2^53");
        return number.get<std::int64_t>();
    }
    const nlohmann::json& list(const char* key) const {
        if (!value(key).is_array()) refuse(std::string(key) + " is no list");
        return value(key);
    }
    ManifestFields object(const char* key) const { return {path_, value(key), key}; }
    std::optional<ManifestFields> optional_object(const char* key) const {
        if (!json_.contains(key)) return std::nullopt;
        return object(key);
    }

  private:
    static constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

    const std::string& path_;
    const nlohmann::json& json_;
    std::string called_;
};

}  // namespace orrery::runtime

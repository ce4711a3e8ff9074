// The state of one reading: the document, what was found wrong, and which values are in error, so
// that a rule whose inputs are bad is skipped and one fault makes one message. Internal.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/scenario/diagnostic.hpp"
#include "plan/scenario/document.hpp"
#include "plan/scenario/schema.hpp"

namespace orrery::plan {

class Reading {
  public:
    explicit Reading(Document document) : document_(std::move(document)) {}

    Document& document() { return document_; }
    const Document& document() const { return document_; }
    std::vector<Diagnostic>& errors() { return errors_; }
    const std::vector<Diagnostic>& errors() const { return errors_; }
    // As if nothing had been found wrong.
    void forget_errors() {
        errors_.clear();
        bad_.clear();
    }

    // Fields of Scenario have one name here ("model.heads", "layout.tensor_parallel") whatever key
    // a model family uses. `pointer` is where the value stands or would stand; `fallback` the JSON
    // text of the default that applied when nothing stands there.
    void remember(const std::string& field, const std::string& pointer,
                  const std::string& fallback = "");
    std::string pointer_of(const std::string& field) const;
    // The key that a reader of the file sees: "model.num_attention_heads".
    std::string shown(const std::string& field) const;

    // Starts a diagnostic at a pointer or a field and marks that as bad.
    Diagnostic& report(const char* code, const std::string& pointer, std::string message);
    Diagnostic& report_field(const char* code, const std::string& field, std::string message);

    void mark_bad(const std::string& pointer) { bad_.insert(pointer); }
    // Whether none of these fields, nor anything around them, is in error.
    bool good(std::initializer_list<const char*> fields) const;
    bool good_at(std::string pointer) const;

    // Told of every value that a reader asks for: where it would stand, and what it may be.
    std::function<void(const std::string& pointer, KeySpec)> observer;
    // Keys of other people's files that no reader asked for.
    std::vector<std::string> unread;
    bool unreadable = false;  // a file is missing or is not JSON
    // Whether anyone reads more of what is wrong than its code and message.
    bool explains = true;

  private:
    struct Field {
        std::string pointer;
        std::string fallback;
    };

    Document document_;
    std::vector<Diagnostic> errors_;
    std::map<std::string, Field> fields_;
    std::set<std::string> bad_;
};

}  // namespace orrery::plan

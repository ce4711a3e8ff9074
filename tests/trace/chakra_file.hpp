// Chakra files as any reader of protobuf has them, without our own: fields by their public numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace orrery::trace {

struct ChakraFileNode {
    std::uint64_t id = 0;
    std::string name;
    int type = 0;
    std::vector<std::uint64_t> after;
    std::uint64_t start_us = 0, duration_us = 0;
    std::map<std::string, std::int64_t> numbers;  // of attributes
    std::map<std::string, std::string> texts;
};

inline std::vector<ChakraFileNode> chakra_nodes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::vector<ChakraFileNode> nodes;
    const char* at = bytes.data();
    const char* const end = at + bytes.size();
    for (int message = 0; at < end; ++message) {
        const std::uint64_t length = protozero::decode_varint(&at, end);
        protozero::pbf_reader reader(at, length);
        at += length;
        if (message == 0) continue;  // GlobalMetadata
        ChakraFileNode& node = nodes.emplace_back();
        while (reader.next()) {
            switch (reader.tag()) {
                case 1:
                    node.id = reader.get_uint64();
                    break;
                case 2:
                    node.name = reader.get_string();
                    break;
                case 3:
                    node.type = reader.get_enum();
                    break;
                case 5:
                    for (const std::uint64_t id : reader.get_packed_uint64())
                        node.after.push_back(id);
                    break;
                case 6:
                    node.start_us = reader.get_uint64();
                    break;
                case 7:
                    node.duration_us = reader.get_uint64();
                    break;
                case 10: {
                    protozero::pbf_reader attribute = reader.get_message();
                    std::string name;
                    while (attribute.next()) {
                        if (attribute.tag() == 1)
                            name = attribute.get_string();
                        else if (attribute.tag() == 29)
                            node.texts[name] = attribute.get_string();
                        else if (attribute.tag() == 7)
                            node.numbers[name] = attribute.get_int32();
                        else
                            node.numbers[name] = attribute.get_int64();
                    }
                    break;
                }
                default:
                    reader.skip();
            }
        }
    }
    return nodes;
}

// A file of messages as protobuf's delimited streams have them.
inline std::string chakra_file(const std::string& name, const std::vector<std::string>& messages) {
    std::string bytes;
    for (const std::string& message : messages) {
        protozero::add_varint_to_buffer(&bytes, message.size());
        bytes += message;
    }
    std::string path = testing::TempDir() + '/' + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
}

// An attribute of a Node.
inline void add_attribute(protozero::pbf_writer& node, const std::string& name,
                          std::int64_t value) {
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    writer.add_string(1, name);
    writer.add_int64(9, value);
    node.add_message(10, bytes);
}
inline void add_attribute(protozero::pbf_writer& node, const std::string& name,
                          const std::string& value) {
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    writer.add_string(1, name);
    writer.add_string(29, value);
    node.add_message(10, bytes);
}

}  // namespace orrery::trace

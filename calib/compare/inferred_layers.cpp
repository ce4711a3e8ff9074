#include "calib/compare/inferred_layers.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

namespace orrery::compare {
namespace {

using plan::Phase;

template <typename Value>
Value most_common(const std::map<Value, std::int64_t>& counts) {
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
}

// Products from one call of attention to the next, or to where a stage's layers end.
struct Segment {
    std::vector<ProductFact> products;
    bool ends_run = true;
};

std::vector<Width> widths_of(const std::vector<ProductFact>& products, std::size_t from,
                             std::size_t to) {
    std::vector<Width> widths;
    for (std::size_t i = from; i < to; ++i)
        widths.push_back({products[i].shape.n, products[i].shape.k});
    return widths;
}

class LayerReader {
  public:
    explicit LayerReader(const StepFacts& facts) : facts_(facts) { out_.layers.facts = &facts; }

    LayersRead run() {
        gather();
        if (!out_.missing.empty()) return std::move(out_);
        read_attention();
        read_lead();
        if (!out_.missing.empty()) return std::move(out_);
        read_heads();
        read_network();
        read_vocabulary();
        read_runs();
        read_micro_batches();
        return std::move(out_);
    }

  private:
    RankLayers& layers() { return out_.layers; }
    const RankLayers& layers() const { return out_.layers; }
    void miss(std::string what) { out_.missing.push_back(std::move(what)); }

    // Forward facts in order; whatever is no layer's work ends a run of layers.
    void gather() {
        std::map<std::int64_t, std::int64_t> rows;
        bool began_backward = false;
        std::vector<ProductFact> lead;
        const auto end_run = [&] {
            if (run_ > 0) runs_.push_back(run_);
            run_ = 0;
            lead.clear();
            in_segment_ = false;
        };
        for (const StepFact& fact : facts_.facts) {
            if (fact.phase == Phase::backward || fact.phase == Phase::recompute) {
                if (std::holds_alternative<MessageFact>(fact.what)) continue;
                if (!began_backward) end_run();
                if (!began_backward && !runs_.empty())
                    layers().first_runs =
                        std::accumulate(runs_.begin(), runs_.end(), std::int64_t{0});
                began_backward = began_backward || !runs_.empty();
                end_run();
                continue;
            }
            if (fact.phase != Phase::forward) continue;
            if (const auto* message = std::get_if<MessageFact>(&fact.what)) {
                if (message->kind == WorkKind::send_receive) end_run();
            } else if (std::holds_alternative<LookupFact>(fact.what) ||
                       std::holds_alternative<LossFact>(fact.what)) {
                end_run();
            } else if (const auto* product = std::get_if<ProductFact>(&fact.what)) {
                if (product->shape.batch != 1 || product->shape.m == 0) continue;
                ++rows[product->shape.m];
                (in_segment_ ? segments_.back().products : lead).push_back(*product);
            } else if (const auto* attention = std::get_if<AttentionFact>(&fact.what)) {
                ++calls_[{attention->batch, attention->heads, attention->kv_heads,
                          attention->tokens, attention->head_dim, attention->fused}];
                if (run_ > 0)
                    segments_.back().ends_run = false;
                else
                    leads_.push_back(lead);
                segments_.emplace_back();
                in_segment_ = true;
                ++run_;
            }
        }
        end_run();
        if (segments_.empty()) miss("no call of attention in a forward pass");
        if (rows.empty())
            miss("no product whose sizes are recorded");
        else
            layers().tokens = most_common(rows);
    }

    void read_attention() {
        const auto& [batch, heads, kv_heads, tokens, head_dim, fused] = most_common(calls_);
        layers().attention = {batch, heads, kv_heads, tokens, head_dim, fused};
        layers().calls = static_cast<std::int64_t>(segments_.size());
    }

    // How many products make queries, keys and values: before a stage's first attention there is
    // nothing else, but what brings another width to the layers' own.
    void read_lead() {
        std::map<std::vector<Width>, std::int64_t> leads, projections;
        for (const Segment& segment : segments_)
            if (!segment.products.empty()) ++projections[widths_of(segment.products, 0, 1)];
        if (projections.empty()) return miss("no product behind attention");
        layers().projection = most_common(projections).front();
        layers().hidden = layers().projection.out;
        for (const auto& lead : leads_) {
            std::size_t from = lead.size();
            while (from > 0 && lead[from - 1].shape.k == layers().hidden)
                --from;
            if (from < lead.size()) ++leads[widths_of(lead, from, lead.size())];
        }
        if (leads.empty()) return miss("no product before attention");
        layers().lead = most_common(leads);
        for (const auto& lead : leads_)
            if (!lead.empty()) layers().lead_bias = layers().lead_bias || lead.back().bias;
    }

    void read_heads() {
        AttentionFact& attention = layers().attention;
        layers().query_width = layers().projection.in;
        std::int64_t width = 0;
        for (const Width& one : layers().lead)
            width += one.out;
        layers().kv_width = (width - layers().query_width) / 2;
        if (width <= layers().query_width || (width - layers().query_width) % 2 != 0)
            miss(
                fmt::format("the products before attention make {} columns, and the one behind it "
                            "takes {}: queries, keys and values are not told apart",
                            width, layers().query_width));
        if (attention.tokens <= 0) return;
        if (attention.batch < 0 && layers().tokens % attention.tokens == 0) {
            const std::int64_t both = -attention.batch;  // sequences × heads
            attention.batch = layers().tokens / attention.tokens;
            attention.heads = both / std::max<std::int64_t>(1, attention.batch);
        }
        if (attention.head_dim == 0 && attention.heads > 0)
            attention.head_dim = layers().query_width / attention.heads;
        if (attention.head_dim > 0) {
            attention.heads = layers().query_width / attention.head_dim;
            // Keys and values may have been repeated before attention saw them.
            attention.kv_heads = layers().kv_width / attention.head_dim;
        }
        layers().sequences = attention.batch;
    }

    // Of each segment without the next layer's lead: the projection, then the feed-forward network
    // up to the product that comes back to the hidden width.
    void read_network() {
        struct Network {
            std::vector<Width> ups;
            Width down;
            auto operator<=>(const Network&) const = default;
        };
        std::map<Network, std::int64_t> networks;
        for (const Segment& segment : segments_) {
            std::size_t end = segment.products.size();
            if (!segment.ends_run) end -= std::min(end, layers().lead.size());
            const std::size_t down = end_of_network(segment.products, end);
            if (down <= 2) continue;
            ++networks[{widths_of(segment.products, 1, down - 1),
                        widths_of(segment.products, down - 1, down).front()}];
            layers().projection_bias = layers().projection_bias || segment.products[0].bias;
            layers().up_bias = layers().up_bias || segment.products[1].bias;
            if (!segment.ends_run) continue;
            for (std::size_t i = down; i < end; ++i) {
                const ProductShape& head = segment.products[i].shape;
                if (head.k != layers().hidden) continue;
                ++layers().head_calls;
                layers().head_rows += head.m;
                layers().head_width = head.n;
            }
        }
        if (networks.empty()) return miss("no feed-forward products between calls of attention");
        const Network network = most_common(networks);
        layers().ups = network.ups;
        layers().down = network.down;
        layers().odd_layers = layers().calls - networks[network];
    }

    // Behind the product that takes all that was made since the projection, or half of it where the
    // rest gates, and comes back to the hidden width; 0: none does.
    std::size_t end_of_network(const std::vector<ProductFact>& products, std::size_t end) const {
        std::int64_t made = 0;
        for (std::size_t i = 1; i < end; ++i) {
            const ProductShape& shape = products[i].shape;
            if (i > 1 && shape.n == layers().hidden && (shape.k == made || 2 * shape.k == made))
                return i + 1;
            made += shape.n;
        }
        return 0;
    }

    void read_vocabulary() {
        struct Calls {
            std::int64_t calls = 0, looked_up = 0, sequences = 0;
        };
        std::map<std::int64_t, Calls> tables;
        each<LookupFact>(facts_, Phase::forward, [&](const LookupFact& fact) {
            if (fact.width != layers().hidden) return;
            Calls& one = tables[fact.table_rows];
            ++one.calls;
            one.looked_up += fact.looked_up;
            one.sequences = std::max(one.sequences, fact.sequences);
        });
        each<LossFact>(facts_, Phase::forward, [&](const LossFact& fact) {
            layers().loss_rows += fact.tokens;
            layers().loss_words = fact.words;
        });
        std::map<std::int64_t, std::int64_t> tables_added;  // by rows, those of other heights
        std::int64_t alike = 0, alike_rows = 0;
        each<AdditionFact>(facts_, Phase::forward, [&](const AdditionFact& fact) {
            if (fact.rows != fact.added_rows) ++tables_added[fact.added_rows];
            if (fact.rows != fact.added_rows) return;
            ++alike;
            alike_rows = fact.rows;
        });
        if (!tables.empty()) {
            // Of two tables that of words has as many rows as the head has columns, else the more.
            auto words = std::prev(tables.end());
            for (auto it = tables.begin(); it != tables.end(); ++it)
                if (it->first == layers().head_width || it->first == layers().loss_words)
                    words = it;
            layers().word_rows = words->first;
            layers().word_lookups = words->second.calls;
            if (layers().sequences == 0) layers().sequences = words->second.sequences;
            for (const auto& [rows, calls] : tables)
                if (rows != layers().word_rows) layers().position_rows = rows;
            for (const auto& [rows, calls] : tables_added)
                if (calls == layers().word_lookups) layers().position_rows = rows;
            // One addition more than layers have, each behind attention and its network.
            if (layers().position_rows == 0 && alike == 2 * layers().calls + layers().word_lookups)
                layers().position_rows = alike_rows;
        }
    }

    void read_runs() {
        if (run_ > 0) runs_.push_back(run_);
        for (const std::int64_t run : runs_)
            layers().run = std::gcd(layers().run, run);
        if (layers().run > 0) layers().first_runs /= layers().run;
    }

    void read_micro_batches() {
        const std::int64_t tokens = layers().tokens;
        const auto told = [&](std::int64_t count, std::string by) {
            if (count <= 0 || layers().calls % count != 0 || layers().micro_batches > 0) return;
            layers().micro_batches = count;
            layers().micro_batches_by = std::move(by);
        };
        told(layers().word_lookups, fmt::format("{} look-ups of words", layers().word_lookups));
        // A loss may leave out the last token of each sequence.
        if (tokens > 0)
            told((layers().loss_rows + tokens - 1) / tokens,
                 fmt::format("a loss over {} tokens", layers().loss_rows));
        if (tokens > 0 && layers().head_rows % tokens == 0)
            told(layers().head_rows / tokens,
                 fmt::format("{} products over the vocabulary", layers().head_calls));
    }

    const StepFacts& facts_;
    LayersRead out_;
    std::vector<Segment> segments_;
    std::vector<std::vector<ProductFact>> leads_;
    std::vector<std::int64_t> runs_;
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>,
             std::int64_t>
        calls_;
    std::int64_t run_ = 0;
    bool in_segment_ = false;
};

}  // namespace

std::int64_t RankLayers::up_width() const {
    std::int64_t width = 0;
    for (const Width& up : ups)
        width += up.out;
    return width;
}

bool RankLayers::layers_end_gated() const {
    return up_width() == 2 * down.in;
}

LayersRead layers_of(const StepFacts& facts) {
    return LayerReader(facts).run();
}

}  // namespace orrery::compare

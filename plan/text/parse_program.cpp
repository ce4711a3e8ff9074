#include <algorithm>

#include "plan/text/parse_slots.hpp"
#include "plan/text/reader.hpp"
#include "plan/text/spelling.hpp"

namespace orrery::plan {
namespace {

// A text of a few bytes must not ask for all memory: "×1000000000".
constexpr std::int64_t kLongestRun = 1 << 16;
constexpr std::size_t kMostResidents = std::size_t{1} << 24;  // they are listed after their users

std::optional<MemoryCategory> category_from_name(std::string_view text) {
    for (std::size_t i = 0; i < kMemoryCategories; ++i)
        if (name(static_cast<MemoryCategory>(i)) == text) return static_cast<MemoryCategory>(i);
    return std::nullopt;
}

std::optional<StateKind> state_from_name(std::string_view text) {
    for (std::size_t i = 0; i < kStateKinds; ++i)
        if (name(static_cast<StateKind>(i)) == text) return static_cast<StateKind>(i);
    return std::nullopt;
}

std::optional<Extent> extent_from_name(std::string_view text) {
    for (std::size_t i = 0; i < kExtents; ++i)
        if (name(static_cast<Extent>(i)) == text) return static_cast<Extent>(i);
    return std::nullopt;
}

class ProgramReader {
  public:
    ProgramReader(Reader& reader, const Plan& plan)
        : reader_(reader), plan_(plan), slots_(reader, plan, [this] { return resident_ahead(); }) {}

    Program read(std::int32_t number) {
        reader_.expect_word("program");
        const std::size_t here = reader_.place();
        program_.pipeline_rank = reader_.index("the number of a program");
        if (program_.pipeline_rank != number)
            reader_.fail_at(here, "program " + std::to_string(number));
        reader_.expect_word("arena");
        program_.arena_bytes = bytes("the bytes of the arena");
        if (reader_.accept_word("host")) program_.host_bytes = bytes("the bytes of host memory");
        if (reader_.accept_word("disk")) program_.disk_bytes = bytes("the bytes on disk");
        read_fixed();
        while (reader_.accept_word("stage"))
            read_stage();
        while (reader_.accept_word("bucket"))
            read_bucket();
        check_bucket_mentions();
        while (reader_.accept_word("procedure"))
            read_procedure();
        if (program_.amendment >= static_cast<std::int32_t>(program_.procedures.size()))
            reader_.fail_at(amendment_place_, "a procedure of this program");
        check_bucket_mentions();
        while (reader_.accept_word("resident"))
            read_resident();
        for (const Mention& mention : residents_)
            if (static_cast<std::size_t>(mention.id) >= program_.residents.size())
                reader_.fail_at(mention.place, "a resident of this program");
        settle_views();
        read_steps();
        settle_lives();
        return std::move(program_);
    }

  private:
    struct Mention {
        std::int64_t id = 0;
        std::size_t place = 0;
    };
    using Range = Reader::Range;

    std::int64_t bytes(std::string_view expected) {
        const std::int64_t n = reader_.integer(expected);
        reader_.expect_word("bytes");
        return n;
    }

    // Of a resident that is listed further down.
    std::int32_t resident_ahead() {
        const std::size_t here = reader_.place();
        const std::int32_t id = reader_.id('r', kMostResidents, "a resident (r12, or r- for none)");
        if (id >= 0) residents_.push_back({id, here});
        return id;
    }

    void read_fixed() {
        reader_.expect_word("fixed");
        reader_.expect_word("scratch");
        program_.scratch = resident_ahead();
        reader_.expect_word("workspace");
        program_.workspace = resident_ahead();
        reader_.expect_word("frames");
        for (std::int32_t& frame : program_.frames)
            frame = resident_ahead();
        reader_.expect_word("scalars");
        program_.scalars = resident_ahead();
        if (reader_.accept_word("recomputed")) program_.recomputed = resident_ahead();
        if (reader_.accept_word("quantized")) program_.quantized = resident_ahead();
        if (reader_.accept_word("beside")) {
            program_.beside_scratch = resident_ahead();
            for (std::int32_t& frame : program_.beside_frames)
                frame = resident_ahead();
        }
        if (reader_.accept_word("amendment")) {
            amendment_place_ = reader_.place();
            program_.amendment = reader_.some_id('p', kMostResidents, "a procedure (p3)");
        }
        if (reader_.accept_word("parameter_ring")) do
                program_.parameter_ring.push_back(resident_ahead());
            while (at_resident(reader_));
        if (reader_.accept_word("gradient_ring")) do
                program_.gradient_ring.push_back(resident_ahead());
            while (at_resident(reader_));
    }

    // "layer.forward b3": a block by name and number.
    std::int32_t block() {
        const std::size_t here = reader_.place();
        const std::string name = reader_.name("the name of a block");
        const std::int32_t id =
            reader_.some_id('b', plan_.blocks.size(), "the number of a block of this plan (b3)");
        const std::string& actual = plan_.blocks[static_cast<std::size_t>(id)].name;
        if (name != actual)
            reader_.fail_at(here, in_quotes(actual) + ", the name of block " + std::to_string(id));
        return id;
    }

    std::int64_t times() {
        if (!reader_.accept_sign("×")) return 1;
        return reader_.integer("the length of a run, from 2 to 65536", 2, kLongestRun);
    }

    Field field(std::int64_t count, std::string_view expected, std::int64_t most) {
        return read_field(reader_, count, expected, most);
    }

    Field bucket_field(std::int64_t count) {
        const std::size_t here = reader_.place();
        const Field found = field(count, "buckets of this program", kMostIndex);
        buckets_.push_back({std::max(found.first, found.at(count - 1)), here});
        return found;
    }

    void check_bucket_mentions() {
        for (const Mention& mention : buckets_)
            if (mention.id >= static_cast<std::int64_t>(program_.buckets.size()))
                reader_.fail_at(mention.place, "buckets of this program");
        buckets_.clear();
    }

    void read_stage() {
        Stage stage;
        stage.index = reader_.index("the number of a stage");
        while (reader_.at_name()) {
            const std::int32_t forward = block();
            const std::int32_t backward = block();
            const std::int64_t count = times();
            Field layer, bucket, other;
            if (reader_.accept_word("layer")) layer = field(count, "layers", kMostIndex);
            if (reader_.accept_word("bucket")) bucket = bucket_field(count);
            if (reader_.accept_word("frozen") || reader_.accept_word("experts"))
                other = bucket_field(count);
            const std::int32_t again = reader_.accept_word("recompute") ? block() : -1;
            const std::int32_t input = reader_.accept_word("input") ? block() : -1;
            const std::int32_t weight = reader_.accept_word("weight") ? block() : -1;
            const std::int32_t quantize = reader_.accept_word("quantize") ? block() : -1;
            for (std::int64_t i = 0; i < count; ++i)
                stage.parts.push_back({forward, backward, layer.index_at(i), bucket.index_at(i),
                                       other.index_at(i), again, input, weight, quantize});
        }
        program_.stages.push_back(std::move(stage));
    }

    void read_bucket() {
        const std::size_t here = reader_.place();
        if (reader_.index("the number of a bucket") !=
            static_cast<std::int32_t>(program_.buckets.size()))
            reader_.fail_at(here, "bucket " + std::to_string(program_.buckets.size()));
        Bucket bucket;
        reader_.expect_word("stage");
        bucket.stage = reader_.index("the number of a stage");
        reader_.expect_word("position");
        const Field positions = field(2, "positions of a stage", kMostIndex);
        bucket.first_position = positions.index_at(0);
        bucket.last_position = positions.index_at(1);
        bucket.frozen = reader_.accept_word("frozen");
        bucket.experts = !bucket.frozen && reader_.accept_word("experts");
        reader_.expect_word("elements");
        bucket.elements = reader_.integer("a number of elements");
        if (reader_.accept_word("tied"))
            bucket.tied_elements = reader_.integer("a number of elements");
        if (reader_.accept_word("replicated"))
            bucket.replicated_elements = reader_.integer("a number of elements");
        if (reader_.accept_word("partial"))
            bucket.partial_elements = reader_.integer("a number of elements");
        if (bucket.frozen && reader_.accept_word("experts"))
            bucket.expert_elements = reader_.integer("a number of elements");
        while (reader_.accept_word("shared")) {
            Share share;
            share.elements = reader_.integer("a number of elements");
            reader_.expect_sign(":");
            share.group = read_sharing_group(reader_);
            bucket.shares.push_back(share);
        }
        reader_.expect_word("states");
        bucket.parameters = resident_ahead();
        bucket.gradients = resident_ahead();
        bucket.optimizer = resident_ahead();
        while (reader_.peek().kind == TokenKind::word && state_from_name(reader_.peek().text))
            bucket.states.push_back(read_state());
        program_.buckets.push_back(std::move(bucket));
    }

    // "first_moments fp32 shard @4096"
    BucketState read_state() {
        BucketState state;
        state.kind = reader_.one_of<StateKind>("a state", state_from_name);
        state.dtype =
            reader_.one_of<DType>("an element type (u8, i32, bf16, fp16, fp32)", from_name<DType>);
        state.extent = reader_.one_of<Extent>("how much of it a rank has (whole, in_place, shard)",
                                              extent_from_name);
        if (reader_.accept_sign("@")) state.offset = reader_.integer("an offset in its resident");
        return state;
    }

    void read_procedure() {
        const std::size_t here = reader_.place();
        if (reader_.some_id('p', program_.procedures.size() + 1, "a procedure (p3)") !=
            static_cast<std::int32_t>(program_.procedures.size()))
            reader_.fail_at(here, "procedure p" + std::to_string(program_.procedures.size()));
        Procedure procedure;
        procedure.name = reader_.in_quotes("the name of a procedure in quotes");
        while (reader_.at_name())
            read_uses(procedure);
        program_.procedures.push_back(std::move(procedure));
    }

    void read_uses(Procedure& procedure) {
        BlockUse use;
        use.block = block();
        const std::int64_t count = times();
        Field layer, position, bucket;
        if (reader_.accept_word("layer")) layer = field(count, "layers", kMostIndex);
        if (reader_.accept_word("position"))
            position = field(count, "positions of a stage", kMostIndex);
        if (reader_.accept_word("bucket")) bucket = bucket_field(count);
        use.fence = reader_.accept_word("fence");
        const std::size_t here = reader_.place();
        const Procedure* as = nullptr;  // says where the tensors lie
        if (reader_.accept_word("as"))
            as = &program_.procedures[static_cast<std::size_t>(
                reader_.some_id('p', program_.procedures.size(), "an earlier procedure (p1)"))];
        std::vector<SlotRun> slots;
        if (as == nullptr) slots = slots_.read(use.block, count);
        for (std::int64_t i = 0; i < count; ++i) {
            use.layer = layer.index_at(i);
            use.position = position.index_at(i);
            use.bucket = bucket.index_at(i);
            use.slots.clear();
            for (const SlotRun& slot : slots)
                use.slots.push_back(slot.at(i));
            if (as != nullptr) {
                const BlockUse* other = use_like(*as, use);
                if (other == nullptr)
                    reader_.fail_at(here, "a procedure with the same use of this block");
                use.slots = other->slots;
            }
            procedure.uses.push_back(use);
        }
    }

    void read_resident() {
        const std::size_t here = reader_.place();
        if (reader_.some_id('r', program_.residents.size() + 1, "a resident (r12)") !=
            static_cast<std::int32_t>(program_.residents.size()))
            reader_.fail_at(here, "resident r" + std::to_string(program_.residents.size()));
        Resident resident;
        resident.name = reader_.in_quotes("the name of a resident in quotes");
        resident.category = reader_.one_of<MemoryCategory>(
            "a category of memory (parameters, gradients, optimizer, activations, workspace, "
            "communication)",
            category_from_name);
        resident.bytes = reader_.integer("a number of bytes");
        if (reader_.accept_word("within")) {
            resident.within = resident_ahead();
        } else {
            reader_.expect_sign("@");
            resident.offset = reader_.integer("an offset in the arena");
        }
        lives_.push_back(reader_.place());
        if (reader_.accept_word("always")) {
            resident.last_step = -1;  // until the number of steps is known
        } else {
            reader_.expect_word("steps");
            const Field steps = field(2, "steps of this program", kMostIndex);
            resident.first_step = steps.index_at(0);
            resident.last_step = steps.index_at(1);
            if (resident.first_step < 0 || resident.last_step < resident.first_step)
                reader_.fail_at(lives_.back() + 1, "a first step and a last step");
        }
        if (reader_.accept_word("host")) resident.tier = Tier::host;
        if (reader_.accept_word("disk")) resident.tier = Tier::disk;
        if (reader_.accept_word("copy")) {
            reader_.expect_word("of");
            resident.copy_of = resident_ahead();
        }
        if (reader_.accept_word("turns"))
            resident.turns = static_cast<std::int32_t>(reader_.integer("a number of copies"));
        if (reader_.accept_word("reuses")) do
                resident.reuses.push_back(resident_ahead());
            while (at_resident(reader_));
        program_.residents.push_back(std::move(resident));
    }

    // A view lies where its slot does.
    void settle_views() {
        for (Resident& resident : program_.residents)
            if (resident.within >= 0)
                resident.offset =
                    program_.residents[static_cast<std::size_t>(resident.within)].offset;
    }

    void settle_lives() {
        const auto last = static_cast<std::int32_t>(program_.steps.size()) - 1;
        for (std::size_t i = 0; i < program_.residents.size(); ++i) {
            Resident& resident = program_.residents[i];
            if (resident.last_step < 0) resident.last_step = last;
            if (resident.last_step > last)
                reader_.fail_at(lives_[i] + 1, "steps up to " + std::to_string(last));
        }
    }

    void read_steps() {
        reader_.expect_word("steps");
        const std::size_t here = reader_.place();
        const std::int64_t count = reader_.integer("the number of steps");
        const UsualBindings usual(plan_, program_);
        while (!reader_.at_end() && !reader_.at_word("program") && !reader_.at_word("end"))
            program_.steps.push_back(step(usual));
        if (static_cast<std::int64_t>(program_.steps.size()) != count)
            reader_.fail_at(here, std::to_string(program_.steps.size()) + ", the steps listed");
    }

    Action action(std::string_view expected) {
        if (reader_.peek().kind == TokenKind::word)
            if (const std::optional<Action> parsed = parse_action(reader_.peek().text)) {
                reader_.word(expected);
                return *parsed;
            }
        reader_.fail(expected);
    }

    Step step(const UsualBindings& usual) {
        Step step;
        if (reader_.accept_word("exchange")) {
            reader_.expect_sign("(");
            do
                step.transfers.push_back(transfer(action("a transfer (0SEND_F3)"), usual));
            while (!reader_.accept_sign(")"));
        } else {
            const Action parsed = action("an action (0F3, 0SEND_F3, exchange)");
            if (!is_transfer(parsed.kind)) return bound(parsed, usual);
            step.transfers.push_back(transfer(parsed, usual));
        }
        step.action = step.transfers.front().action;
        return step;
    }

    Step bound(const Action& parsed, const UsualBindings& usual) {
        Step step = usual.compute(parsed);
        if (!reader_.accept_sign("{")) return step;
        while (!reader_.accept_sign("}")) {
            if (reader_.accept_word("waits")) {
                step.after_transfers = true;
                continue;
            }
            if (reader_.accept_word("beside")) {
                step.beside_last = true;
                continue;
            }
            const std::string& word = reader_.peek().text;
            const std::size_t residents = program_.residents.size();
            const char letter = word.empty() ? ' ' : word[0];
            if (letter == 'p')
                step.procedure =
                    reader_.id('p', program_.procedures.size(), "a procedure of this program");
            else if (letter == 's')
                step.stash = reader_.id('s', residents, "a resident as stash (s12)");
            else if (letter == 'i')
                step.input = reader_.id('i', residents, "a resident as input (i12)");
            else if (letter == 'k')
                step.kept = reader_.id('k', residents, "a resident as what is kept (k12)");
            else if (letter == 'd')
                step.deferred = reader_.id('d', residents, "a resident as what is deferred (d12)");
            else if (letter == 'x')
                step.received = reader_.id('x', residents, "a resident as what was received (x12)");
            else if (letter == 'h')
                step.stored = reader_.id('h', residents, "a resident as stored stash (h12)");
            else
                step.output = reader_.id('o', residents,
                                         "a procedure (p1), stash (s2), input (i3) or output (o4)");
        }
        return step;
    }

    Transfer transfer(const Action& parsed, const UsualBindings& usual) {
        if (!is_transfer(parsed.kind))
            reader_.fail_at(reader_.place() - 1, "a transfer (0SEND_F3)");
        if (carries_statistic(parsed.kind) &&
            static_cast<std::size_t>(parsed.micro_batch) >= plan_.statistics.size())
            reader_.fail_at(reader_.place() - 1, "a statistic of this plan (0SEND_SUM0)");
        Transfer transfer = usual.transfer(parsed);
        if (!reader_.accept_sign("{")) return transfer;
        while (!reader_.accept_sign("}")) {
            if (reader_.accept_word("peer"))
                transfer.peer = static_cast<std::int32_t>(
                    reader_.integer("a pipeline rank of this mesh", 0, plan_.mesh.pipeline - 1));
            else if (reader_.accept_word("bytes"))
                transfer.bytes = reader_.integer("a number of bytes");
            else if (reader_.accept_word("share"))
                transfer.share = read_sharing_group(reader_);
            else
                transfer.resident = reader_.id('r', program_.residents.size(),
                                               "peer, bytes or a resident of this program (r12)");
        }
        return transfer;
    }

    Reader& reader_;
    const Plan& plan_;
    Program program_;
    SlotReader slots_;
    std::vector<Mention> residents_;  // mentioned before they are listed
    std::vector<Mention> buckets_;
    std::size_t amendment_place_ = 0;
    std::vector<std::size_t> lives_;  // place of each resident's lifetime
};

}  // namespace

Program read_program(Reader& reader, const Plan& plan, std::int32_t number) {
    return ProgramReader(reader, plan).read(number);
}

}  // namespace orrery::plan

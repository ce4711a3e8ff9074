#include "plan/scenario/link_kinds.hpp"

namespace orrery::plan {

const Spellings<IntraNodeKind>& intra_node_kinds() {
    static const Spellings<IntraNodeKind> kAll = {
        {"nvswitch", IntraNodeKind::nvswitch},
        {"xgmi", IntraNodeKind::xgmi},
        {"pcie", IntraNodeKind::pcie},
        {"host", IntraNodeKind::host},
        {"hybrid_cube_mesh", IntraNodeKind::hybrid_cube_mesh}};
    return kAll;
}

const Spellings<InterNodeKind>& inter_node_kinds() {
    static const Spellings<InterNodeKind> kAll = {{"none", InterNodeKind::none},
                                                  {"infiniband", InterNodeKind::infiniband},
                                                  {"ethernet", InterNodeKind::ethernet}};
    return kAll;
}

}  // namespace orrery::plan

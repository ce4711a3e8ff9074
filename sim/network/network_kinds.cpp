#include "sim/network/network_kinds.hpp"

#include "plan/check.hpp"

namespace orrery::sim {
namespace {

// Of packets of 4,096 bytes of message. Beside them: InfiniBand 26 bytes (LRH 8, BTH 12, ICRC 4,
// VCRC 2: InfiniBand Architecture Specification, volume 1); RoCEv2 82 bytes (preamble 8, MAC 14,
// IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, gap 12: its annex A17, IEEE 802.3, RFC 791, RFC 768).
constexpr double kPacket = 4096;
constexpr double kInfiniBand = 0.8;
constexpr double kRoce = kInfiniBand * (kPacket / (kPacket + 82)) / (kPacket / (kPacket + 26));

constexpr NetworkShare kInfiniBandShare = {
    kInfiniBand, 0.3,
    "nccl-tests on DGX A100 and H100 with InfiniBand (the profiles' inter_node.efficiency)"};
constexpr NetworkShare kRoceShare = {
    kRoce, 0.3,
    "InfiniBand's, less the longer headers: Llama 3's two clusters, one of each, trained alike "
    "(arXiv 2407.21783, section 3.3.1)"};
constexpr NetworkShare kEthernetShare = {
    0.5, 0.5,
    "estimate: NCCL over TCP sockets, which copies each message through the host's memory; "
    "published clusters reach from a quarter to four fifths"};
constexpr NetworkShare kEfaShare = {
    0.72, 0.3,
    "nccl-tests of aws-ofi-nccl: all-reduces over p4d nodes reach a bus bandwidth of 36 to 40 of "
    "50 GB/s (aws/aws-ofi-nccl, AWS machine learning blog)"};
constexpr NetworkShare kSlingshotShare = {
    0.7, 0.35,
    "collectives over Slingshot 11 reach 70 to 80 of 100 GB/s per node with NCCL and its libfabric "
    "plugin (NERSC, Perlmutter), less with RCCL and oneCCL"};
constexpr NetworkShare kOmniPathShare = {
    0.25, 0.5,
    "hosts move the messages of Omni-Path themselves: training runs on Jean Zay reach 11 to 12 of "
    "50 GB/s per node (bigscience-workshop/bigscience)"};

}  // namespace

const NetworkShare& network_share(plan::InterNodeKind kind) {
    switch (kind) {
        case plan::InterNodeKind::infiniband:
            return kInfiniBandShare;
        case plan::InterNodeKind::ethernet:
            return kEthernetShare;
        case plan::InterNodeKind::roce:
            return kRoceShare;
        case plan::InterNodeKind::efa:
            return kEfaShare;
        case plan::InterNodeKind::slingshot:
            return kSlingshotShare;
        case plan::InterNodeKind::omni_path:
            return kOmniPathShare;
        case plan::InterNodeKind::none:
            break;
    }
    ORRERY_CHECK(false, "no network between nodes has no share of a line rate");
}

}  // namespace orrery::sim

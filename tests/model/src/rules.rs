//! The rules that the model can do without, one at a time: what docs/cluster.md calls R1 to R14, in
//! the parts that can be taken out singly, and the parts of leases and terms that have no number.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Rule {
    // Terms, grants and leases.
    Fence,          // a drive server refuses what comes from an older term than it was OPENed by
    FenceEpoch,     // ... and from an older epoch than its own
    GrantOutlasts,  // a grant runs longer than the lease that it gives
    RestartWaits,   // a drive server that restarted assumes a grant to its durable term
    LeaseAll,       // a lease needs every member
    LeaseBoth,      // while an epoch is undecided, members of both configurations
    OpenAll,        // a leader starts when every member has answered its OPEN, or is excluded
    ReconcileAll,   // a leader's start copies what is pending on any current member to all
    // R1
    R1Success,      // a CAS whose answer was lost is not taken for done
    R1Failure,      // ... nor for failed
    // R3
    R3Remove,       // appends pause while the removal of a slot is undecided
    R3Add,          // records wait for members of both configurations while an addition is undecided
    R3Promote,      // the slot's groups pause while its promotion is undecided
    R3Etcd,         // the configuration is read in the transaction that takes the leader key
    // R4
    R4Leader,       // an epoch's Txn compares the leader key
    R4Epoch,        // ... and the epoch
    R4Failed,       // failed means deposed
    // R5
    R5Current,      // every epoch leaves each group a current member
    R5Two,          // a group with one current member takes no change, and no change is answered that one current member holds
    R5Look,         // a look at an outcome counts as an answer only with two current members
    // R6
    R6Every,        // a commit waits for every member
    R6Refused,      // a refused append is no success
    R6Order,        // no LOOKUP passes COMMIT
    R6Number,       // commits of a group go in the order of their numbers
    // R7
    R7Open,         // a drive server that restarted takes nothing until it was OPENed again
    // R11
    R11Connection,  // a newer connection ends what an older one still has to deliver
    R11Repeat,      // an append is a repeat only of the same record
    // R13
    R13Drop,        // a slot that rejoins first drops what is pending there
    R13Keep,        // ... and keeps its bytes until it is promoted
    R13Open,        // it is OPENed before the CAS that adds it
    R13Decided,     // it is compared when what was sent before it began to receive is decided
    R13SkipCommit,  // a group is skipped by the last COMMIT alone, not by what was appended
    R13SkipIn,      // ... that was applied while `in`
    R13Resend,      // what is undecided is sent to a slot that joins
    // R14
    R14Mark,        // the last current member of a group is marked lost, and is its truth
    R14Pending,     // ... what is pending on other members and not on it is dropped, and its number not given again
    R14Groups,      // when it is back it is current for those groups only
    R14Lease,       // leases and starts do without a lost member
    R14Together,    // members that fall silent together are all the truth
    // R7, R10
    R7Shards,       // a gateway counts a SYNC only of the incarnation that it wrote to
    R10Drive,       // the leader drops from a proof what lies on another drive
    R10Few,         // ... and refuses when too few shards are left
    // R8
    R8Once,         // a number is admitted once
    R8Burn,         // 'never admitted' burns the number
    R8Term,         // a leader takes only sessions of its own term
    R8Look,         // under another term the gateway only looks
    // R9
    R9Unknown,      // an upload of unknown outcome counts as under way
    R9Fence,        // a boot without a bound is past only when it is fenced
    R9Refuse,       // a transaction that introduces an id of a fenced boot is refused
    R9Drain,        // a sweep starts when admitted transactions of fenced boots have drained
    // R2
    R2Cluster,      // a node that finds another cluster id in etcd than its folders name stops
    R2Revision,     // a node that saw a higher revision stops
    R2Epoch,        // an EPOCH record above etcd's, or another of its number, stops the node
    R2Term,         // a TERM that is not below the own one stops the node
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Off(pub u64);

impl Off {
    pub fn with(rules: &[Rule]) -> Off {
        Off(rules.iter().fold(0, |bits, r| bits | 1 << *r as u8))
    }
    pub fn has(self, rule: Rule) -> bool {
        self.0 >> rule as u8 & 1 != 0
    }
}
//! Which configurations are run, with which rules taken out.

use crate::check::{job, Explain, Run};
use crate::pool::judge::End;
use crate::pool::{Act, Change, Pool, State};
use crate::proof::Proof;
use crate::resend::Resend;
use crate::rules::{Off, Rule, Rule::*};
use crate::sweep::Sweep;
use stateright::{Model, Property};

fn slot(d: usize) -> char {
    (b'A' + d as u8) as char
}
fn some(mask: u8) -> String {
    (0..8).filter(|d| mask >> d & 1 != 0).map(slot).collect()
}

impl Model for Pool {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }
    fn actions(&self, s: &State, out: &mut Vec<Act>) {
        Pool::actions(self, s, out);
    }
    fn next_state(&self, s: &State, act: Act) -> Option<State> {
        let n = self.next(s, act);
        (n != *s).then_some(n)
    }
    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("acknowledged is kept", |m: &Pool, s: &State| m.nothing_lost(s)),
            Property::always("members agree", |m: &Pool, s: &State| m.nothing_invented(s)),
            Property::always("one lease", |m: &Pool, s: &State| m.one_lease(s)),
            Property::always("one drive may be lost", |m: &Pool, s: &State| m.survives(s)),
            Property::always("opens again", |m: &Pool, s: &State| m.opens(s) != End::Dead),
        ]
    }
    fn format_action(&self, act: &Act) -> String {
        let leader = |c: usize| if c == 0 { "P" } else { "Q" };
        match *act {
            Act::Elect(c) => format!("{} takes the leader key", leader(c)),
            Act::Stop(c) => format!("{} stops", leader(c)),
            Act::Open(c, d) => format!("{} is answered by OPEN({}) (grants to others have run out there)", slot(d), leader(c)),
            Act::Propose(c, change) => format!(
                "{} sends the CAS of an epoch: {}",
                leader(c),
                match change {
                    Change::Exclude(x) => format!("without {}", some(x)),
                    Change::Join(d) => format!("{} joining", slot(d as usize)),
                    Change::Promote(d) => format!("{} promoted", slot(d as usize)),
                    Change::Return(d) => format!("{} back, the truth of what was lost", slot(d as usize)),
                }
            ),
            Act::Decide(c) => format!("etcd carries out the CAS of {}", leader(c)),
            Act::DecideKept(c) => format!("etcd carries out the CAS of {}, which was sent twice", leader(c)),
            Act::Late(c) => format!("etcd carries out an earlier request of {}", leader(c)),
            Act::Learn(c) => format!("{} learns what became of its CAS", leader(c)),
            Act::Guess(c, true) => format!("{} has no answer and takes its CAS for done", leader(c)),
            Act::Guess(c, false) => format!("{} has no answer and takes its CAS for failed", leader(c)),
            Act::Force(c) => format!("EPOCH of {} is durable on all its members: in force", leader(c)),
            Act::Reconcile(c, d) => format!("{} copies what is pending to {}", leader(c), slot(d)),
            Act::Serve(c) => format!("{} serves", leader(c)),
            Act::Admit(c, w) => format!("{} admits write {}", leader(c), w + 1),
            Act::Append(w, d) => format!("APPEND of write {} reaches {}, which answers", w + 1, slot(d)),
            Act::Commit(c, w) => format!("{} commits write {} and answers its client", leader(c), w + 1),
            Act::CommitAt(c, d, g) => format!("COMMIT of {} in group {g} reaches {}", leader(c), slot(d)),
            Act::Look(c, w) => format!("a gateway looks for write {} at {} and answers its client", w + 1, leader(c)),
            Act::Drop(c, d) => format!("{} drops what is pending, for {}", slot(d), leader(c)),
            Act::Compare(c, d, g) => format!("{} compares group {g} of {}", leader(c), slot(d)),
            Act::Skip(c, d, g) => format!("{} skips group {g} of {}: its number is high enough", leader(c), slot(d)),
            Act::Restart(d) => format!("the server of {} restarts; COMMITs are lost there", slot(d)),
            Act::Destroy(d) => format!("the drive {} is destroyed", slot(d)),
            Act::Restore => "etcd is restored from a backup".to_string(),
            Act::Reseed => "the operator reseeds etcd".to_string(),
        }
    }
}

impl Explain for Pool {
    fn explain(&self, last: &State) -> Vec<Act> {
        self.way(last)
    }
}
impl Explain for Resend {}
impl Explain for Proof {}
impl Explain for Sweep {}

fn base() -> Pool {
    Pool {
        slots: 3,
        place: vec![0b111],
        writes: vec![(0, 0), (0, 0)],
        out: 0,
        terms: 3,
        epochs: 2,
        joins: false,
        restarts: 0,
        destroys: 0,
        falls: 0xff,
        pairs: false,
        backup: false,
        reached: false,
        alike: 0b111,
        off: Off::default(),
        opening: Default::default(),
    }
}

fn failover() -> Pool {
    Pool { terms: 2, ..base() }
}
/// Two failovers, one after the other or at once.
fn twice() -> Pool {
    Pool { epochs: 1, writes: vec![(0, 0)], ..base() }
}
fn restart() -> Pool {
    Pool { restarts: 1, terms: 2, epochs: 1, ..base() }
}
/// A member is excluded and comes back, under one leader.
fn rejoin() -> Pool {
    Pool { joins: true, terms: 1, epochs: 4, falls: 0b100, alike: 0b011, writes: vec![(0, 0), (0, 1)], ..base() }
}
/// The same while another takes over.
fn rejoin_two() -> Pool {
    Pool { terms: 2, epochs: 3, falls: 0, ..rejoin() }
}
/// The same with a restart of any drive server.
fn rejoin_restart() -> Pool {
    Pool { restarts: 1, epochs: 3, ..rejoin() }
}
/// Two failovers with two epochs and two writes.
fn twice_more() -> Pool {
    base()
}
/// Two groups while another takes over.
fn two_groups_two() -> Pool {
    Pool { terms: 2, epochs: 2, falls: 0b0010, ..two_groups() }
}
fn rejoin_all() -> Pool {
    Pool { falls: 0b111, alike: 0b111, writes: vec![(0, 0)], ..rejoin() }
}
/// The same where P may leave C out, too.
fn rejoin_two_more() -> Pool {
    Pool { falls: 0b100, ..rejoin_two() }
}
/// A slot that was out from the beginning comes, goes and comes.
fn joiner() -> Pool {
    Pool { out: 0b100, epochs: 5, ..rejoin() }
}
fn joiner_two() -> Pool {
    Pool { terms: 2, epochs: 3, writes: vec![(0, 0)], ..joiner() }
}
/// One drive is destroyed for good.
fn disk() -> Pool {
    Pool { destroys: 1, joins: true, terms: 1, epochs: 3, writes: vec![(0, 0)], ..base() }
}
/// The same in a failover.
fn disk_two() -> Pool {
    Pool { joins: false, terms: 2, epochs: 1, ..disk() }
}
/// The last current members of the only group fall silent, one that was out comes back.
fn lost() -> Pool {
    Pool { out: 0b100, alike: 0b011, joins: true, pairs: true, epochs: 3, terms: 1, destroys: 1, writes: vec![(0, 0)], ..base() }
}
/// The same of one of two groups, while the other goes on.
fn two_groups() -> Pool {
    Pool { slots: 4, place: vec![0b0011, 0b1110], out: 0b0001, alike: 0b1100, joins: true, epochs: 3, terms: 1, writes: vec![(1, 0)], ..base() }
}
fn lost_two() -> Pool {
    Pool { terms: 2, epochs: 2, destroys: 0, ..lost() }
}
fn lost_restart() -> Pool {
    Pool { restarts: 1, destroys: 0, ..lost() }
}
/// A slot is joining when all current members fall silent together.
fn lost_joining() -> Pool {
    Pool { epochs: 4, falls: 0b011, destroys: 0, writes: vec![(0, 0), (0, 0)], ..lost() }
}
/// etcd is restored from a backup.
fn restored() -> Pool {
    Pool { backup: true, alike: 0, epochs: 2, terms: 2, falls: 0b010, writes: vec![(0, 0)], ..base() }
}
fn restored_reached() -> Pool {
    Pool { reached: true, ..restored() }
}

/// What the design does without, since the model showed that something else does its work.
const DONE_WITHOUT: &[Rule] = &[R13Decided];
/// How the plan had it: a slot that joins is compared when all that was sent before is decided.
const AS_PLANNED: &[Rule] = &[R13Resend];

pub fn all() -> Vec<Run> {
    let mut runs = Vec::new();
    let mut add = |name: &'static str, make: fn() -> Pool, off: &[Rule], breaks: bool| {
        let mut rules: Vec<Rule> = if off == AS_PLANNED { vec![] } else { DONE_WITHOUT.to_vec() };
        rules.extend(off);
        let off_name = off.iter().map(|r| format!("{r:?}")).collect::<Vec<_>>().join("+");
        let rules = Off::with(&rules);
        runs.push(Run { config: name, off: off_name, breaks, job: job(move || Pool { off: rules, ..make() }) });
    };
    add("failover", failover, &[], false);
    for r in [Fence, GrantOutlasts, LeaseAll, LeaseBoth, OpenAll, ReconcileAll, R1Success, R3Remove, R3Etcd, R6Every,
        R6Refused, R6Order] {
        add("failover", failover, &[r], true);
    }
    add("twice", twice, &[], false);
    add("twice, more epochs", twice_more, &[], false);
    for (r, breaks) in [(R3Etcd, true), (R4Leader, true), (R4Failed, false)] {
        add("twice", twice, &[r], breaks);
    }
    add("twice", twice, &[R4Leader, R4Epoch], true);
    add("restart", restart, &[], false);
    for r in [RestartWaits, R7Open] {
        add("restart", restart, &[r], true);
    }
    add("rejoin", rejoin, &[], false);
    for r in [R6Number, R1Success, R11Connection, R11Repeat] {
        add("rejoin", rejoin, &[r], true);
    }
    add("rejoin", rejoin, &[R13Resend, R13Decided], true);
    for r in [R1Failure, R3Add, R3Promote] {
        add("rejoin", rejoin, &[r], false);
    }
    add("rejoin, two leaders", rejoin_two, &[], false);
    add("rejoin, two leaders, more", rejoin_two_more, &[], false);
    for off in [&[R11Repeat][..], &[R13Drop, R14Pending], &[R13Open]] {
        add("rejoin, two leaders", rejoin_two, off, true);
    }
    for r in [R4Failed, R1Failure, R3Add, R3Promote] {
        add("rejoin, two leaders", rejoin_two, &[r], false);
    }
    add("rejoin, restart", rejoin_restart, &[], false);
    add("as planned", rejoin_all, AS_PLANNED, true);
    add("joiner", joiner, &[], false);
    for r in [R13SkipCommit, R13SkipIn] {
        add("joiner", joiner, &[r], true);
    }
    add("joiner, two leaders", joiner_two, &[], false);
    add("joiner, two leaders", joiner_two, &[R4Epoch], true);
    add("disk", disk, &[], false);
    for r in [R5Current, R5Two, R13Keep] {
        add("disk", disk, &[r], true);
    }
    add("disk, two leaders", disk_two, &[], false);
    add("disk, two leaders", disk_two, &[R5Look], true);
    add("lost", lost, &[], false);
    for r in [R5Current, R14Mark, R14Lease, R14Together] {
        add("lost", lost, &[r], true);
    }
    add("lost, one joining", lost_joining, &[], false);
    for r in [FenceEpoch, R14Pending] {
        add("lost, one joining", lost_joining, &[r], true);
    }
    add("lost, two leaders", lost_two, &[], false);
    add("lost, restart", lost_restart, &[], false);
    add("two groups, two leaders", two_groups_two, &[], false);
    add("two groups", two_groups, &[], false);
    add("two groups", two_groups, &[R14Groups], true);
    add("restored", restored, &[], false);
    add("restored", restored, &[R2Cluster], true);
    add("restored, all reached", restored_reached, &[R2Cluster], true);
    for r in [R2Epoch, R2Term] {
        add("restored, all reached", restored_reached, &[R2Cluster, r], true);
    }
    for (r, breaks) in [(None, false), (Some(R8Once), true), (Some(R8Burn), true), (Some(R8Term), true), (Some(R8Look), true)] {
        runs.push(small("resend", r, breaks, |off| Resend { off }));
    }
    for (r, breaks) in [(None, false), (Some(R7Shards), true), (Some(R10Drive), true), (Some(R10Few), true)] {
        runs.push(small("proof", r, breaks, |off| Proof { off }));
    }
    for (r, breaks) in [(None, false), (Some(R9Unknown), true), (Some(R9Fence), true), (Some(R9Refuse), true), (Some(R9Drain), true)] {
        runs.push(small("sweep", r, breaks, |off| Sweep { off }));
    }
    runs
}

fn small<M>(config: &'static str, rule: Option<Rule>, breaks: bool, make: fn(Off) -> M) -> Run
where
    M: Model + Explain + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + std::hash::Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static,
{
    let off = Off::with(rule.as_slice());
    Run { config, off: rule.map_or(String::new(), |r| format!("{r:?}")), breaks, job: job(move || make(off)) }
}

//! The model of one pool: etcd, candidates for the leader, drive servers, and the records of a few
//! writes. A state is what all of them hold; an action is one step of one of them, or one fault.
//!
//! What is left out, and why that is sound, stands in docs/cluster.md ("The model"). In short:
//! - A message that was sent can arrive at any later time, again and again, or never: what was sent is
//!   part of the state, and arriving is an action that may be taken or not.
//! - There is no clock. A grant outlasts the lease that it gives, so the worst case is a lease that
//!   holds until the moment in which its grant is given up for another term. The model takes that one.

mod enabled;
pub mod judge;
mod steps;

use crate::rules::{Off, Rule};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

pub const SLOTS: usize = 4;
pub const GROUPS: usize = 2;
pub const WRITES: usize = 3;
pub const CANDS: usize = 2;

/// What an epoch says: sets of slots, one bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Config {
    pub mem: u8,          // members: every change of their groups is sent to them and waited for
    pub cur: [u8; GROUPS], // members that are current for the group: they are asked
    pub lost: [u8; GROUPS], // not empty: the group is lost, and these are its truth
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Held {
    #[default]
    Absent,
    Pending,
    Applied,
    Joined, // applied while the slot was not current: by COMMIT, or copied
    Void,   // dropped: it counts for nobody, but its bytes are kept until the slot is promoted
}

impl Held {
    fn none(self) -> bool {
        self == Held::Absent || self == Held::Void
    }
    fn applied(self) -> bool {
        self == Held::Applied || self == Held::Joined
    }
}

/// A folder and the server that opens it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Drive {
    pub term: u8,   // durable TERM
    pub epoch: u8,  // durable EPOCH
    pub fresh: bool, // the server restarted and was not OPENed since
    pub gone: bool, // destroyed
    pub log: [Held; WRITES],
    pub seen: [u8; GROUPS], // highest number ever appended; kept only where a rule is off that needs it
    pub made: Config,       // what its EPOCH says, in the configuration with a restored etcd
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    #[default]
    Idle,
    Start,
    Serving,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    Exclude(u8), // a set of slots
    Join(u8),
    Promote(u8),
    Return(u8), // a lost slot is back
}

/// A process that leads, or wants to. All of it is volatile but `saw`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cand {
    pub term: u8,
    pub phase: Phase,
    pub base: u8,  // the epoch that it goes by
    pub config: Config,
    pub force: bool, // that epoch is in force
    pub pending: Option<(Change, Config)>, // its CAS whose outcome it does not know
    pub lease: u8,  // slots whose grant its lease may count
    pub known: u8,  // records whose numbers it knows
    pub committed: u8,
    pub void: u8,   // own records that it will never commit
    pub joiner: u8, // slot that is brought up to date, plus 1
    pub dropped: bool,
    pub compared: u8, // groups
    pub halted: bool, // it noticed that etcd was restored
    pub saw: u8,      // the highest revision of etcd that its node has seen
}

/// A CAS of an epoch on its way to etcd. It may arrive after its sender has crashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cas {
    pub term: u8,
    pub base: u8,
    pub config: Config,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Record {
    pub term: u8, // of the leader that admitted it; 0: not yet
    pub number: u8,
    pub epoch: u8,    // that it was last sent with
    pub sent: u8,     // to these slots
    pub answered: u8, // answers that the leader can have
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Etcd {
    pub term: u8,
    pub epoch: u8,
    pub by: u8, // term that made the epoch
    pub config: Config,
    pub revision: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    pub etcd: Etcd,
    pub cand: [Cand; CANDS],
    pub cas: [Option<Cas>; CANDS],
    pub late: [Option<Cas>; CANDS], // sent before that one, where a rule is off that ends those
    pub drive: [Drive; SLOTS],
    pub rec: [Record; WRITES],
    pub shown: u8, // records that a reader may have seen, or whose writer was told
    pub told: u8,  // records whose writer was told
    pub restarts: u8,
    pub destroyed: u8,
    pub restored: bool,
    pub together: u8, // slots that were current when a group was lost
    pub alike: u8, // slots that are interchangeable
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Elect(usize),
    Stop(usize),
    Open(usize, usize),
    Propose(usize, Change),
    Decide(usize),
    DecideKept(usize),
    Late(usize),
    Learn(usize),
    Guess(usize, bool),
    Force(usize),
    Reconcile(usize, usize),
    Serve(usize),
    Admit(usize, usize),
    Append(usize, usize),
    Commit(usize, usize),
    CommitAt(usize, usize, usize),
    Look(usize, usize),
    Drop(usize, usize),
    Compare(usize, usize, usize),
    Skip(usize, usize, usize),
    Restart(usize),
    Destroy(usize),
    Restore,
    Reseed,
}

/// A configuration of the model: what there is, what may go wrong, and how often.
#[derive(Clone, Debug)]
pub struct Pool {
    pub slots: usize,
    pub place: Vec<u8>,              // the slots of each group
    pub writes: Vec<(usize, usize)>, // group and key
    pub out: u8,                     // slots that are out at the beginning
    pub terms: u8,                   // elections, the first included
    pub epochs: u8,
    pub joins: bool,
    pub restarts: u8,
    pub destroys: u8,
    pub falls: u8,   // slots that a serving leader may exclude
    pub pairs: bool, // two members may be excluded at once by a serving leader
    pub reached: bool, // a leader that starts reaches every member
    pub backup: bool, // etcd may be restored from a backup made at the beginning
    pub alike: u8, // slots that the same groups have; none where etcd may be restored
    pub off: Off,
    pub opening: Opening,
}

/// States of which is known that they open again: a hash of each.
#[derive(Clone, Debug, Default)]
pub struct Opening(pub Arc<Mutex<HashSet<u64>>>);

/// Terms are compared by the revision of the leader key, then by node and boot.
fn term(revision: u8, node: usize, boot: bool) -> u8 {
    revision * 4 + node as u8 * 2 + boot as u8
}
const RESEEDED: u8 = 200; // the first term of the next generation

fn bit(i: usize) -> u8 {
    1 << i
}
fn within(a: u8, b: u8) -> bool {
    a & !b == 0
}
fn slots(mask: u8) -> impl Iterator<Item = usize> {
    (0..SLOTS).filter(move |d| mask >> d & 1 != 0)
}

impl Pool {
    pub fn on(&self, rule: Rule) -> bool {
        !self.off.has(rule)
    }
    fn groups(&self) -> usize {
        self.place.len()
    }
    fn of_group(&self, g: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.writes.len()).filter(move |w| self.writes[*w].0 == g)
    }
    fn group_mask(&self, g: usize) -> u8 {
        self.of_group(g).fold(0, |m, w| m | bit(w))
    }

    pub fn first(&self) -> State {
        let all = (bit(self.slots) - 1) & !self.out;
        let mut config = Config { mem: all, ..Default::default() };
        for g in 0..self.groups() {
            config.cur[g] = self.place[g] & all;
        }
        let etcd = Etcd { term: 4, epoch: 1, by: 4, config, revision: 1 };
        let mut s = State {
            etcd,
            cand: Default::default(),
            cas: [None; CANDS],
            late: [None; CANDS],
            drive: Default::default(),
            rec: Default::default(),
            shown: 0,
            told: 0,
            restarts: 0,
            destroyed: 0,
            restored: false,
            together: 0,
            alike: self.alike,
        };
        for d in 0..self.slots {
            s.drive[d].term = if self.out >> d & 1 != 0 { 1 } else { 4 };
            if self.backup {
                s.drive[d].epoch = 1;
                s.drive[d].made = config;
            }
        }
        s.cand[0] = Cand {
            term: 4,
            phase: Phase::Serving,
            base: 1,
            config,
            force: true,
            lease: all,
            saw: self.backup as u8,
            ..Default::default()
        };
        s.cand[1].saw = 0;
        if !self.on(Rule::R3Etcd) {
            s.cand[1].base = 1;
            s.cand[1].config = config;
        }
        s
    }

    /// The configuration after a change, by R5 and R14.
    fn changed(&self, c: &Config, change: Change) -> Config {
        let mut n = *c;
        match change {
            Change::Exclude(x) => {
                n.mem &= !x;
                for g in 0..self.groups() {
                    let left = c.cur[g] & !x;
                    n.cur[g] = left;
                    if left == 0 && c.cur[g] != 0 && self.on(Rule::R5Current) {
                        n.lost[g] = if self.on(Rule::R14Together) {
                            c.cur[g]
                        } else {
                            bit(slots(c.cur[g]).next().unwrap())
                        };
                    }
                }
            }
            Change::Join(d) => n.mem |= bit(d as usize),
            Change::Promote(d) => {
                let d = d as usize;
                for g in 0..self.groups() {
                    if self.place[g] >> d & 1 != 0 && n.lost[g] == 0 {
                        n.cur[g] |= bit(d);
                    }
                }
            }
            Change::Return(d) => {
                let d = d as usize;
                n.mem |= bit(d);
                for g in 0..self.groups() {
                    let placed = self.place[g] >> d & 1 != 0;
                    let truth = c.lost[g] >> d & 1 != 0 || !self.on(Rule::R14Mark) && c.lost[g] != 0;
                    if placed && truth {
                        n.cur[g] = bit(d);
                        n.lost[g] = 0;
                    } else if placed && c.lost[g] == 0 && !self.on(Rule::R14Groups) {
                        n.cur[g] |= bit(d);
                    }
                }
            }
        }
        n
    }

    // What a leader goes by.

    fn undecided(&self, s: &State, c: usize) -> u8 {
        let l = &s.cand[c];
        (0..self.writes.len()).filter(|w| s.rec[*w].term == l.term).fold(0, |m, w| m | bit(w)) & !l.committed & !l.void
    }
    fn reaches(&self, s: &State, c: usize, d: usize) -> bool {
        let v = &s.drive[d];
        !v.gone && v.term == s.cand[c].term && (!v.fresh || !self.on(Rule::R7Open))
    }
    fn number(&self, s: &State, c: usize, g: usize) -> u8 {
        1 + self.of_group(g).filter(|w| s.cand[c].known >> w & 1 != 0).map(|w| s.rec[w].number).max().unwrap_or(0)
    }
    fn committed_number(&self, s: &State, c: usize, g: usize) -> u8 {
        self.of_group(g).filter(|w| s.cand[c].committed >> w & 1 != 0).map(|w| s.rec[w].number).max().unwrap_or(0)
    }
    /// The groups that slot d still has to be compared in.
    fn wants(&self, c: &Config, d: usize) -> u8 {
        (0..self.groups())
            .filter(|g| self.place[*g] >> d & 1 != 0 && c.cur[*g] >> d & 1 == 0 && c.lost[*g] == 0)
            .fold(0, |m, g| m | bit(g))
    }
    fn all_lost(&self, c: &Config) -> u8 {
        (0..self.groups()).fold(0, |m, g| m | c.lost[g])
    }
    /// COMMITs are on their way to slot d that would show something there.
    fn commits_wait(&self, s: &State, c: usize, d: usize, g: usize) -> bool {
        let top = self.committed_number(s, c, g);
        self.of_group(g).any(|w| s.drive[d].log[w] == Held::Pending && s.rec[w].number <= top)
    }
    /// A current member of the group that shows all that is committed, to copy from.
    fn source(&self, s: &State, c: usize, g: usize) -> Option<usize> {
        slots(s.cand[c].config.cur[g]).find(|d| self.reaches(s, c, *d) && !self.commits_wait(s, c, *d, g))
    }
    /// Pending on a current member of its group that was OPENed.
    fn union(&self, s: &State, c: usize) -> u8 {
        let l = &s.cand[c];
        let held = |w: usize, d: usize| s.drive[d].term == l.term && s.drive[d].log[w] == Held::Pending;
        (0..self.writes.len()).filter(|w| slots(l.config.cur[self.writes[*w].0]).any(|d| held(*w, d))).fold(0, |m, w| m | bit(w))
    }
    fn dropped(&self) -> Held {
        if self.on(Rule::R13Keep) { Held::Void } else { Held::Absent }
    }
    /// Slots that have answered OPEN: none other makes its term durable.
    fn opened(&self, s: &State, c: usize) -> u8 {
        slots(s.cand[c].config.mem).filter(|d| s.drive[*d].term == s.cand[c].term && !s.drive[*d].gone).fold(0, |m, d| m | bit(d))
    }
    /// What slot d holds once the leader that starts has brought it up to the others: what is pending on any current member of
    /// its group is pending there; what else is pending on a slot that is not current is dropped.
    fn reconciled(&self, s: &State, c: usize, d: usize) -> [Held; WRITES] {
        let config = &s.cand[c].config;
        let union = self.union(s, c);
        let mut log = s.drive[d].log;
        for (w, held) in log.iter_mut().enumerate().take(self.writes.len()) {
            let g = self.writes[w].0;
            if self.place[g] >> d & 1 == 0 || config.cur[g] == 0 {
                continue;
            }
            if union >> w & 1 != 0 && held.none() {
                *held = Held::Pending;
            } else if union >> w & 1 == 0 && *held == Held::Pending && config.cur[g] >> d & 1 == 0 {
                *held = self.dropped();
            }
        }
        log
    }
}

/// The bits of slot d in the sets of an epoch.
fn of_slot(c: &Config, d: usize) -> u128 {
    let mut v = (c.mem >> d & 1) as u128;
    for g in 0..GROUPS {
        v = v << 2 | ((c.cur[g] >> d & 1) << 1 | c.lost[g] >> d & 1) as u128;
    }
    v
}

impl State {
    /// All that the state says of slot d.
    fn slot(&self, d: usize) -> u128 {
        let b = |m: u8| (m >> d & 1) as u128;
        let mut v = of_slot(&self.etcd.config, d);
        for l in &self.cand {
            v = v << 5 | of_slot(&l.config, d);
            let (change, next) = match l.pending {
                None => (0, 0),
                Some((Change::Exclude(x), n)) => (b(x), of_slot(&n, d)),
                Some((Change::Join(j) | Change::Promote(j) | Change::Return(j), n)) => ((j as usize == d) as u128, of_slot(&n, d)),
            };
            v = v << 6 | next << 1 | change;
            v = v << 2 | b(l.lease) << 1 | (l.joiner as usize == d + 1) as u128;
        }
        for cas in &self.cas {
            v = v << 5 | cas.map_or(0, |c| of_slot(&c.config, d));
        }
        for r in &self.rec {
            v = v << 2 | b(r.sent) << 1 | b(r.answered);
        }
        let disk = &self.drive[d];
        v = v << 3 | b(self.together) << 2 | (disk.fresh as u128) << 1 | disk.gone as u128;
        for held in disk.log {
            v = v << 3 | held as u128;
        }
        for n in [disk.term, disk.epoch, disk.seen[0], disk.seen[1]] {
            v = v << 8 | n as u128;
        }
        v
    }
}

/// States that differ only in the names of slots that are alike count as one: what a state says of
/// each slot is hashed in order of what it says, not of the slots. No part of a state relates slots
/// to each other but through what it says of each.
impl Hash for State {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let mut each: [u128; SLOTS] = std::array::from_fn(|d| self.slot(d));
        let mut alike: Vec<u128> = slots(self.alike).map(|d| each[d]).collect();
        alike.sort_unstable();
        for (d, v) in slots(self.alike).zip(alike) {
            each[d] = v;
        }
        each.hash(h);
        (self.etcd.term, self.etcd.epoch, self.etcd.by, self.etcd.revision).hash(h);
        for (l, cas) in self.cand.iter().zip(&self.cas) {
            let change = match l.pending {
                None => 0u8,
                Some((Change::Exclude(_), _)) => 1,
                Some((Change::Join(_), _)) => 2,
                Some((Change::Promote(_), _)) => 3,
                Some((Change::Return(_), _)) => 4,
            };
            (l.term, l.phase, l.base, l.force, change, l.known, l.committed, l.void, l.dropped, l.compared, l.halted, l.saw).hash(h);
            cas.map(|c| (c.term, c.base)).hash(h);
        }
        self.late.hash(h);
        for r in &self.rec {
            (r.term, r.number, r.epoch).hash(h);
        }
        (self.shown, self.told, self.restarts, self.destroyed, self.restored, self.together.count_ones()).hash(h);
        for disk in self.drive.iter().filter(|_| self.alike == 0) {
            disk.made.hash(h);
        }
    }
}

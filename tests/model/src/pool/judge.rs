//! What must hold in every state.

use super::{bit, slots, within, Act, Change, Held, Phase, Pool, State, CANDS};
use crate::rules::Rule;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

const NONE: u8 = 0xff;
const CALM_MOST: usize = 120; // steps: a dead end, or a circle, is what takes more

/// What comes of a pool in which nothing fails any more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Open,
    Lost, // it opens, and an acknowledged change is not there
    Dead, // it never opens
}

impl Pool {
    fn lease(&self, s: &State, c: usize) -> bool {
        let l = &s.cand[c];
        if l.phase != Phase::Serving {
            return false;
        }
        let mut need = l.config.mem;
        if let Some((_, n)) = l.pending {
            need = if self.on(Rule::LeaseBoth) { need | n.mem } else { n.mem };
        }
        if !self.on(Rule::R14Lease) {
            need |= self.all_lost(&l.config);
        }
        if self.on(Rule::LeaseAll) {
            need != 0 && within(need, l.lease)
        } else {
            2 * (need & l.lease).count_ones() > need.count_ones()
        }
    }

    /// A LOOKUP of the group may go to slot d, and be answered.
    fn readable(&self, s: &State, c: usize, d: usize, g: usize) -> bool {
        let l = &s.cand[c];
        let v = &s.drive[d];
        if l.config.lost[g] != 0 || l.config.cur[g] >> d & 1 == 0 || v.gone {
            return false;
        }
        if v.fresh {
            return !self.on(Rule::R7Open);
        }
        !self.on(Rule::R6Order) || !self.commits_wait(s, c, d, g)
    }

    fn top(&self, s: &State, key: (usize, usize), of: impl Fn(usize) -> bool) -> (u8, u8) {
        (0..self.writes.len())
            .filter(|w| self.writes[*w] == key && of(*w))
            .map(|w| (s.rec[w].number, s.rec[w].term))
            .max()
            .unwrap_or((0, 0))
    }

    /// Every read that could be answered in this state, and how it compares with what readers and writers know: less, or more.
    fn reads(&self, s: &State, wrong: Ordering) -> bool {
        for c in (0..CANDS).filter(|c| self.lease(s, *c)) {
            for key in &self.writes {
                let floor = self.top(s, *key, |w| s.shown >> w & 1 != 0);
                for d in slots(s.cand[c].config.cur[key.0]) {
                    if self.readable(s, c, d, key.0) && self.top(s, *key, |w| s.drive[d].log[w].applied()).cmp(&floor) == wrong {
                        return false;
                    }
                }
            }
        }
        true
    }
    pub fn nothing_lost(&self, s: &State) -> bool {
        self.reads(s, Ordering::Less) && self.opens(s) != End::Lost
    }
    pub fn nothing_invented(&self, s: &State) -> bool {
        self.reads(s, Ordering::Greater)
    }
    /// A leader whose lease holds may answer for each group that is not lost.
    pub fn one_lease(&self, s: &State) -> bool {
        let answers = |c: usize, g: usize| self.lease(s, c) && s.cand[c].config.cur[g] != 0;
        (0..self.groups()).all(|g| (0..CANDS).filter(|c| answers(*c, g)).count() <= 1)
    }
    /// What a writer was told survives the loss of one drive.
    pub fn survives(&self, s: &State) -> bool {
        (0..self.writes.len()).filter(|w| s.told >> w & 1 != 0).all(|w| {
            let mine = (s.rec[w].number, s.rec[w].term);
            (0..self.slots).any(|d| {
                (0..self.writes.len()).any(|x| {
                    self.writes[x] == self.writes[w] && (s.rec[x].number, s.rec[x].term) >= mine && s.drive[d].log[x] != Held::Absent
                })
            })
        })
    }

    /// With no more faults, the pool opens, every slot that is left becomes current, and what waits is decided.
    pub fn opens(&self, s: &State) -> End {
        let calm = self.unbounded();
        let mut known = self.opening.0.lock().unwrap();
        let mut n = *s;
        let mut path = Vec::new();
        while path.len() < CALM_MOST {
            let mut h = DefaultHasher::new();
            n.hash(&mut h);
            let hash = h.finish();
            if known.contains(&hash) {
                known.extend(path);
                return End::Open;
            }
            path.push(hash);
            match calm.calm(&n) {
                Some(act) => n = calm.next(&n, act),
                None => {
                    if !calm.settled(&n) {
                        return End::Dead;
                    }
                    if !calm.reads(&n, Ordering::Less) {
                        return End::Lost;
                    }
                    known.extend(path);
                    return End::Open;
                }
            }
        }
        End::Dead
    }

    /// The way that `opens` goes, for a trace.
    pub fn way(&self, s: &State) -> Vec<Act> {
        let calm = self.unbounded();
        let mut n = *s;
        let mut acts = Vec::new();
        while let Some(act) = calm.calm(&n).filter(|_| acts.len() < CALM_MOST) {
            n = calm.next(&n, act);
            acts.push(act);
        }
        acts
    }

    fn unbounded(&self) -> Pool {
        Pool { joins: true, terms: u8::MAX, epochs: u8::MAX - 1, reached: false, ..self.clone() }
    }

    fn settled(&self, s: &State) -> bool {
        let gone = (0..self.slots).filter(|d| s.drive[*d].gone).fold(0, |m, d| m | bit(d));
        let Some(c) = (0..CANDS).find(|c| s.cand[*c].phase == Phase::Serving && s.cand[*c].term == s.etcd.term) else {
            return false;
        };
        let l = &s.cand[c];
        (0..self.groups()).all(|g| {
            if l.config.lost[g] != 0 {
                return within(l.config.lost[g] | s.together, gone); // no copy is left that has all: the operator's word is asked for
            }
            let want = self.place[g] & !gone;
            l.config.cur[g] != 0
                && within(want, l.config.cur[g])
                && (l.config.cur[g].count_ones() < 2 || self.undecided(s, c) & self.group_mask(g) == 0)
        }) && l.force && self.lease(s, c) | (l.config.mem == 0)
    }

    /// The next step of a pool in which nothing fails any more.
    fn calm(&self, s: &State) -> Option<Act> {
        let halted = (0..CANDS).any(|c| s.cand[c].halted);
        if halted {
            return Some(Act::Reseed);
        }
        for c in 0..CANDS {
            if s.cas[c].is_some_and(|cas| self.accepts(s, &cas)) {
                return Some(Act::Decide(c));
            }
            if s.cand[c].pending.is_some() && self.learns(s, c).is_some() {
                return Some(Act::Learn(c));
            }
            if s.cand[c].phase != Phase::Idle && s.cand[c].term != s.etcd.term {
                return Some(Act::Stop(c));
            }
        }
        let Some(c) = (0..CANDS).find(|c| s.cand[*c].phase != Phase::Idle) else {
            return Some(Act::Elect(0));
        };
        let l = &s.cand[c];
        if l.pending.is_some() {
            return None;
        }
        let mut acts = Vec::new();
        self.actions_calm(s, c, &mut acts);
        let gone = (0..self.slots).filter(|d| s.drive[*d].gone).fold(0, |m, d| m | bit(d));
        if l.config.mem & gone != 0 {
            return Some(Act::Propose(c, Change::Exclude(l.config.mem & gone)));
        }
        acts.into_iter().next()
    }

    fn actions_calm(&self, s: &State, c: usize, out: &mut Vec<Act>) {
        let mut all = Vec::new();
        self.actions_of(s, c, &mut all);
        let l = &s.cand[c];
        for w in 0..self.writes.len() {
            for d in 0..self.slots {
                let mine = (l.config.mem >> d & 1 != 0) || l.joiner as usize == d + 1;
                if mine && self.undecided(s, c) >> w & 1 != 0 && self.can_append(s, w, d) {
                    out.push(Act::Append(w, d));
                }
            }
        }
        let rank = |a: &Act| match a {
            Act::Open(..) => 0,
            Act::Reconcile(..) => 1,
            Act::Serve(..) | Act::Force(..) => 2,
            Act::Commit(..) => 3,
            Act::CommitAt(..) => 4,
            Act::Propose(_, Change::Return(_)) => 5,
            Act::Propose(_, Change::Promote(_)) => 6,
            Act::Drop(_, d) if self.all_lost(&l.config) >> *d & 1 != 0 => 6,
            Act::Compare(..) => 7,
            Act::Propose(_, Change::Join(_)) => 8,
            Act::Drop(..) => 9,
            _ => NONE,
        };
        all.retain(|a| rank(a) != NONE);
        all.sort_by_key(|a| rank(a));
        out.extend(all);
    }
}

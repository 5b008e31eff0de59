//! What can happen in a state: the steps that the protocol allows, and the faults.

use super::{bit, slots, within, Act, Cas, Change, Held, Phase, Pool, State, CANDS, RESEEDED};
use crate::rules::Rule;

impl Pool {
    pub fn actions(&self, s: &State, out: &mut Vec<Act>) {
        for c in 0..CANDS {
            self.actions_of(s, c, out);
        }
        for w in 0..self.writes.len() {
            for d in 0..self.slots {
                if self.can_append(s, w, d) {
                    out.push(Act::Append(w, d));
                }
            }
        }
        for d in 0..self.slots {
            let v = &s.drive[d];
            if !v.gone && s.restarts < self.restarts {
                out.push(Act::Restart(d));
            }
            if !v.gone && s.destroyed < self.destroys {
                out.push(Act::Destroy(d));
            }
        }
        if self.backup && !s.restored {
            out.push(Act::Restore);
        }
    }

    pub(super) fn actions_of(&self, s: &State, c: usize, out: &mut Vec<Act>) {
        let l = &s.cand[c];
        if let Some(cas) = s.cas[c] {
            if self.accepts(s, &cas) {
                out.push(Act::Decide(c));
                if !self.on(Rule::R4Epoch) && s.late[c].is_none() {
                    out.push(Act::DecideKept(c));
                }
            }
        }
        if s.late[c].is_some_and(|cas| self.accepts(s, &cas)) {
            out.push(Act::Late(c));
        }
        if l.halted {
            return;
        }
        if l.phase == Phase::Idle {
            // While nobody leads, either candidate is as good as the other.
            let alike = c == 1 && s.cand[0].phase == Phase::Idle && !self.backup && self.on(Rule::R3Etcd);
            if s.etcd.term / 4 < self.terms && !alike {
                out.push(Act::Elect(c));
            }
            return;
        }
        out.push(Act::Stop(c));
        for d in 0..self.slots {
            if self.can_open(s, c, d) {
                out.push(Act::Open(c, d));
            }
        }
        if l.pending.is_some() {
            if self.learns(s, c).is_some() {
                out.push(Act::Learn(c));
            }
            for done in [true, false] {
                if !self.on(if done { Rule::R1Success } else { Rule::R1Failure }) {
                    out.push(Act::Guess(c, done));
                }
            }
        } else {
            self.proposals(s, c, self.epochs, out);
        }
        if l.phase == Phase::Start {
            let ready = |mask: u8| {
                if self.on(Rule::OpenAll) {
                    within(l.config.mem, mask)
                } else {
                    2 * (l.config.mem & mask).count_ones() > l.config.mem.count_ones()
                }
            };
            if l.pending.is_none() && ready(self.opened(s, c)) {
                let done = slots(l.config.mem).filter(|d| self.reaches(s, c, *d) && self.reconciled(s, c, *d) == s.drive[*d].log);
                let done = done.fold(0, |m, d| m | bit(d));
                for d in slots(l.config.mem & !done) {
                    if self.reaches(s, c, d) {
                        out.push(Act::Reconcile(c, d));
                    }
                }
                let epoch = slots(l.config.mem).all(|d| self.reaches(s, c, d)) || !self.on(Rule::OpenAll);
                if epoch && (ready(done) || !self.on(Rule::ReconcileAll)) {
                    out.push(Act::Serve(c));
                }
            }
            return;
        }
        if !l.force && l.pending.is_none() && slots(l.config.mem).all(|d| self.reaches(s, c, d)) {
            out.push(Act::Force(c));
        }
        for w in 0..self.writes.len() {
            if self.can_admit(s, c, w) {
                out.push(Act::Admit(c, w));
            }
            if self.can_commit(s, c, w) {
                out.push(Act::Commit(c, w));
            }
            let g = self.writes[w].0;
            if (l.committed & !s.told) >> w & 1 != 0
                && l.config.lost[g] == 0
                && (l.config.cur[g].count_ones() >= 2 || !self.on(Rule::R5Look))
            {
                out.push(Act::Look(c, w));
            }
        }
        for g in 0..self.groups() {
            for d in slots(self.place[g] & l.config.mem) {
                if l.config.lost[g] == 0 && self.reaches(s, c, d) && self.commits_wait(s, c, d, g) {
                    out.push(Act::CommitAt(c, d, g));
                }
            }
        }
        if self.joins {
            self.catch_up(s, c, out);
        }
    }

    fn catch_up(&self, s: &State, c: usize, out: &mut Vec<Act>) {
        let l = &s.cand[c];
        if l.pending.is_some() {
            return;
        }
        for d in 0..self.slots {
            let reaches = self.reaches(s, c, d) || !self.on(Rule::R13Open) && !s.drive[d].gone;
            let mine = l.joiner == 0 || l.joiner == d as u8 + 1 || s.drive[l.joiner as usize - 1].gone
                || self.all_lost(&l.config) >> d & 1 != 0; // what is lost goes before what catches up
            if !reaches || !mine {
                continue;
            }
            if l.config.mem >> d & 1 == 0 {
                if !(l.dropped && l.joiner == d as u8 + 1) && l.force {
                    out.push(Act::Drop(c, d));
                }
                continue;
            }
            if !l.force {
                continue;
            }
            for g in slots(self.wants(&l.config, d) & !l.compared) {
                let decided = !self.of_group(g).any(|w| {
                    self.undecided(s, c) >> w & 1 != 0 && s.rec[w].sent >> d & 1 == 0
                });
                if !decided && self.on(Rule::R13Decided) {
                    continue;
                }
                if self.source(s, c, g).is_some() {
                    out.push(Act::Compare(c, d, g));
                    let top = self.committed_number(s, c, g);
                    if top > 0 && self.skip_number(s, d, g) >= top {
                        out.push(Act::Skip(c, d, g));
                    }
                }
            }
        }
    }

    /// The number up to which slot d need not be compared in group g.
    fn skip_number(&self, s: &State, d: usize, g: usize) -> u8 {
        let v = &s.drive[d];
        let by = |w: &usize| {
            v.log[*w] == Held::Applied || v.log[*w] == Held::Joined && !self.on(Rule::R13SkipIn)
        };
        let number = self.of_group(g).filter(by).map(|w| s.rec[w].number).max().unwrap_or(0);
        if self.on(Rule::R13SkipCommit) { number } else { number.max(v.seen[g]) }
    }

    fn can_open(&self, s: &State, c: usize, d: usize) -> bool {
        let l = &s.cand[c];
        let v = &s.drive[d];
        let wanted = l.config.mem >> d & 1 != 0
            || l.phase == Phase::Serving && (self.joins || self.all_lost(&l.config) >> d & 1 != 0)
            || !self.on(Rule::R14Lease) && self.all_lost(&l.config) >> d & 1 != 0;
        !v.gone && wanted && (v.term < l.term || v.term == l.term && v.fresh)
            || self.backup && !v.gone && wanted && self.meets_restore(s, c, d)
    }
    /// etcd was restored, and shows it by its cluster id.
    pub(super) fn other_etcd(&self, s: &State) -> bool {
        s.restored && s.etcd.term < RESEEDED && self.on(Rule::R2Cluster)
    }
    /// OPEN at drive d shows candidate c that etcd was restored.
    pub(super) fn meets_restore(&self, s: &State, c: usize, d: usize) -> bool {
        let l = &s.cand[c];
        let v = &s.drive[d];
        self.on(Rule::R2Term) && v.term / 4 >= l.term / 4 && v.term != l.term && s.etcd.term == l.term
            || self.on(Rule::R2Epoch) && (v.epoch > s.etcd.epoch || v.epoch == s.etcd.epoch && v.made != s.etcd.config)
    }

    pub(super) fn can_append(&self, s: &State, w: usize, d: usize) -> bool {
        let r = &s.rec[w];
        let v = &s.drive[d];
        if r.sent >> d & 1 == 0 || v.gone || r.answered >> d & 1 != 0 || v.fresh && self.on(Rule::R7Open) {
            return false;
        }
        if v.term > r.term && self.on(Rule::Fence) {
            return !self.on(Rule::R6Refused);
        }
        if v.term < r.term && self.on(Rule::R13Open) {
            return false;
        }
        if v.epoch > r.epoch && self.on(Rule::FenceEpoch) {
            return false;
        }
        let g = self.writes[w].0;
        let before = |x: &usize| {
            let q = &s.rec[*x];
            q.term == r.term && q.number < r.number && q.sent >> d & 1 != 0 && v.log[*x].none() && q.answered >> d & 1 == 0
        };
        if self.of_group(g).any(|x| before(&x)) {
            return false; // they come in the order of their numbers
        }
        let clash = self.of_group(g).any(|x| x != w && v.log[x] == Held::Pending && s.rec[x].number == r.number);
        !(clash && v.log[w].none() && self.on(Rule::R11Repeat))
    }

    fn can_admit(&self, s: &State, c: usize, w: usize) -> bool {
        let l = &s.cand[c];
        let (g, key) = self.writes[w];
        // Writes are interchangeable where they are alike: they come in order.
        if s.rec[w].term != 0 || w > 0 && s.rec[w - 1].term == 0 || !l.force || l.config.lost[g] != 0 || l.config.cur[g] == 0 {
            return false;
        }
        let pause = match l.pending {
            None => false,
            Some((Change::Exclude(_), _)) => self.on(Rule::R3Remove),
            Some((Change::Join(_), _)) => false,
            Some((Change::Promote(d), _)) => self.on(Rule::R3Promote) && self.place[g] >> d & 1 != 0,
            Some((Change::Return(_), _)) => true,
        };
        let undecided = self.undecided(s, c);
        let locked = self.of_group(g).any(|x| undecided >> x & 1 != 0 && self.writes[x].1 == key);
        !pause && !locked && (l.config.cur[g].count_ones() >= 2 || !self.on(Rule::R5Two))
    }

    fn can_commit(&self, s: &State, c: usize, w: usize) -> bool {
        let l = &s.cand[c];
        let r = &s.rec[w];
        let g = self.writes[w].0;
        let undecided = self.undecided(s, c);
        if undecided >> w & 1 == 0 || l.config.lost[g] != 0 || !l.force && self.on(Rule::R3Remove) {
            return false;
        }
        if self.on(Rule::R6Number) && self.of_group(g).any(|x| undecided >> x & 1 != 0 && s.rec[x].number < r.number) {
            return false;
        }
        let mut members = l.config.mem;
        let mut current = l.config.cur[g];
        match l.pending {
            Some((Change::Exclude(_), n)) if !self.on(Rule::R3Remove) => {
                members = n.mem;
                current = n.cur[g];
            }
            Some((Change::Join(_), _)) if !self.on(Rule::R3Add) => (),
            Some((_, n)) => {
                members |= n.mem;
                current |= n.cur[g];
            }
            None => (),
        }
        let need = members & self.place[g] & (r.sent | current);
        let missing = (need & !r.answered).count_ones();
        let two = (current & r.answered).count_ones() >= 2 || !self.on(Rule::R5Two);
        two && (missing == 0 || missing == 1 && !self.on(Rule::R6Every))
    }

    pub(super) fn accepts(&self, s: &State, cas: &Cas) -> bool {
        if self.other_etcd(s) {
            return false;
        }
        (cas.term == s.etcd.term || !self.on(Rule::R4Leader)) && (cas.base == s.etcd.epoch || !self.on(Rule::R4Epoch))
    }

    /// What a look at etcd tells a leader about its CAS: done (true), or that it can never be done.
    pub(super) fn learns(&self, s: &State, c: usize) -> Option<bool> {
        let l = &s.cand[c];
        let (_, config) = l.pending?;
        if s.etcd.by == l.term && s.etcd.config == config && s.cas[c].is_none() {
            return Some(true);
        }
        match s.cas[c] {
            Some(cas) if self.accepts(s, &cas) => None,
            _ => Some(false),
        }
    }

    pub(super) fn proposals(&self, s: &State, c: usize, most: u8, out: &mut Vec<Act>) {
        let l = &s.cand[c];
        if l.base > most {
            return;
        }
        if l.phase == Phase::Start {
            let silent = l.config.mem & !self.opened(s, c);
            if silent != 0 && !self.reached {
                out.push(Act::Propose(c, Change::Exclude(silent)));
            }
            return;
        }
        for d in slots(l.config.mem & self.falls) {
            out.push(Act::Propose(c, Change::Exclude(bit(d))));
            if self.pairs {
                for e in slots(l.config.mem & self.falls).filter(|e| *e > d) {
                    out.push(Act::Propose(c, Change::Exclude(bit(d) | bit(e))));
                }
            }
        }
        if !l.force {
            return;
        }
        for d in 0..self.slots {
            let back = self.all_lost(&l.config) >> d & 1 != 0
                || !self.on(Rule::R14Mark) && self.all_lost(&l.config) != 0 && l.config.mem >> d & 1 == 0;
            if l.joiner == d as u8 + 1 && l.dropped && l.config.mem >> d & 1 == 0 && self.joins {
                if back && self.reaches(s, c, d) {
                    out.push(Act::Propose(c, Change::Return(d as u8)));
                } else if !back {
                    out.push(Act::Propose(c, Change::Join(d as u8)));
                }
            }
            let wants = self.wants(&l.config, d);
            if l.joiner == d as u8 + 1 && l.config.mem >> d & 1 != 0 && wants != 0 && within(wants, l.compared) {
                let undecided = self.undecided(s, c);
                let quiet = slots(wants).all(|g| {
                    self.of_group(g).all(|w| undecided >> w & 1 == 0 || s.rec[w].answered >> d & 1 != 0)
                });
                if quiet || !self.on(Rule::R3Promote) {
                    out.push(Act::Propose(c, Change::Promote(d as u8)));
                }
            }
        }
    }
}

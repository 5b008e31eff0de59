//! What each step does.

use super::{bit, slots, term, within, Act, Cand, Cas, Change, Drive, Etcd, Held, Phase, Pool, Record, State, CANDS, RESEEDED};
use crate::rules::Rule;

impl Pool {
    pub fn next(&self, s: &State, act: Act) -> State {
        let mut n = *s;
        match act {
            Act::Elect(c) => self.elect(&mut n, c),
            Act::Stop(c) => self.stop(&mut n, c),
            Act::Open(c, d) => self.open(&mut n, c, d),
            Act::Propose(c, change) => {
                let l = &mut n.cand[c];
                let config = self.changed(&l.config, change);
                l.pending = Some((change, config));
                let cas = Cas { term: l.term, base: l.base, config };
                if !self.on(Rule::R1Failure) {
                    n.late[c] = n.cas[c].or(n.late[c]);
                }
                n.cas[c] = Some(cas);
            }
            Act::Decide(c) => {
                let cas = n.cas[c].take().unwrap();
                self.decide(&mut n, &cas);
            }
            Act::DecideKept(c) => {
                let cas = n.cas[c].take().unwrap();
                self.decide(&mut n, &cas);
                n.late[c] = Some(cas);
            }
            Act::Late(c) => {
                let cas = n.late[c].take().unwrap();
                self.decide(&mut n, &cas);
            }
            Act::Learn(c) => match self.learns(s, c) {
                Some(true) => self.adopt(&mut n, c),
                _ if self.on(Rule::R4Failed) => self.stop(&mut n, c),
                _ => n.cand[c].pending = None,
            },
            Act::Guess(c, true) => self.adopt(&mut n, c),
            Act::Guess(c, false) => n.cand[c].pending = None,
            Act::Force(c) => self.put_in_force(&mut n, c),
            Act::Reconcile(c, d) => n.drive[d].log = self.reconciled(s, c, d),
            Act::Serve(c) => self.serve(&mut n, c),
            Act::Admit(c, w) => self.admit(&mut n, c, w),
            Act::Append(w, d) => self.append(&mut n, w, d),
            Act::Commit(c, w) => {
                n.cand[c].committed |= bit(w);
                n.shown |= bit(w);
                n.told |= bit(w);
            }
            Act::CommitAt(c, d, g) => {
                let top = self.committed_number(s, c, g);
                let as_in = s.cand[c].config.cur[g] >> d & 1 != 0;
                for w in self.of_group(g) {
                    if n.drive[d].log[w] == Held::Pending && n.rec[w].number <= top {
                        n.drive[d].log[w] = if as_in { Held::Applied } else { Held::Joined };
                    }
                }
            }
            Act::Look(_, w) => n.told |= bit(w),
            Act::Drop(c, d) => self.drop_pending(&mut n, c, d),
            Act::Compare(c, d, g) => self.compare(&mut n, c, d, g),
            Act::Skip(c, d, g) => {
                n.cand[c].joiner = d as u8 + 1;
                n.cand[c].compared |= bit(g);
            }
            Act::Restart(d) => {
                n.restarts += 1;
                n.drive[d].fresh = true;
                for w in 0..self.writes.len() {
                    if n.drive[d].log[w] == Held::Applied {
                        n.drive[d].log[w] = Held::Pending; // the record was flushed, its COMMIT was not
                    }
                }
            }
            Act::Destroy(d) => {
                n.destroyed += 1;
                n.drive[d] = Drive { gone: true, ..Default::default() };
            }
            Act::Restore => {
                n.restored = true;
                n.etcd = self.first().etcd;
            }
            Act::Reseed => self.reseed(&mut n),
        }
        self.tidy(&mut n);
        n
    }

    fn decide(&self, n: &mut State, cas: &Cas) {
        n.etcd.epoch = n.etcd.epoch.max(cas.base) + 1;
        for g in 0..self.groups() {
            if cas.config.lost[g] != 0 && n.etcd.config.lost[g] == 0 {
                n.together = n.etcd.config.cur[g];
            } else if cas.config.lost[g] == 0 && n.etcd.config.lost[g] != 0 {
                n.together = 0;
            }
        }
        n.etcd.config = cas.config;
        n.etcd.by = cas.term;
        n.etcd.revision += 1;
    }

    fn elect(&self, n: &mut State, c: usize) {
        let saw = n.cand[c].saw;
        let (base, config) = (n.cand[c].base, n.cand[c].config);
        if self.other_etcd(n) || self.backup && self.on(Rule::R2Revision) && n.etcd.revision < saw {
            n.cand[c].halted = true;
            return;
        }
        n.etcd.term = term(n.etcd.term / 4 + 1, c, n.restored);
        n.etcd.revision += 1;
        n.cand[c] = Cand { term: n.etcd.term, phase: Phase::Start, base: n.etcd.epoch, config: n.etcd.config, ..Default::default() };
        if !self.on(Rule::R3Etcd) && base != 0 {
            n.cand[c].base = base;
            n.cand[c].config = config;
        }
        n.cand[c].saw = if self.backup { n.etcd.revision } else { 0 };
    }

    fn stop(&self, n: &mut State, c: usize) {
        let old = n.cand[c];
        n.cand[c] = Cand { saw: old.saw, halted: old.halted, ..Default::default() };
        if !self.on(Rule::R3Etcd) {
            n.cand[c].base = old.base;
            n.cand[c].config = old.config;
        }
    }

    fn open(&self, n: &mut State, c: usize, d: usize) {
        if self.backup && self.meets_restore(n, c, d) {
            self.stop(n, c);
            n.cand[c].halted = true;
            return;
        }
        let term = n.cand[c].term;
        let restarted = n.drive[d].fresh;
        if n.drive[d].term != term {
            // The grant to the term before has run out by now, and with it what that leader made of it.
            for o in 0..CANDS {
                if o != c && self.on(Rule::GrantOutlasts) && (!restarted || self.on(Rule::RestartWaits)) {
                    n.cand[o].lease &= !bit(d);
                }
            }
        }
        if n.drive[d].term != term && !self.backup {
            n.drive[d].epoch = 0; // it fenced appends of the term before, which are refused by now
        }
        n.drive[d].term = term;
        n.drive[d].fresh = false;
        let l = &mut n.cand[c];
        l.lease |= bit(d);
    }

    fn adopt(&self, n: &mut State, c: usize) {
        let (change, config) = n.cand[c].pending.take().unwrap();
        n.cand[c].config = config;
        n.cand[c].base += 1;
        n.cand[c].force = false;
        n.cand[c].saw = n.cand[c].saw.max(if self.backup { n.etcd.revision } else { 0 });
        let undecided = self.undecided(n, c);
        match change {
            Change::Exclude(x) => {
                for w in 0..self.writes.len() {
                    if undecided >> w & 1 != 0 {
                        n.rec[w].answered &= !x;
                        if n.cand[c].config.cur[self.writes[w].0] == 0 {
                            n.cand[c].void |= bit(w); // its group is lost: the truth decides
                        }
                    }
                }
                let j = n.cand[c].joiner;
                if j != 0 && x >> (j - 1) & 1 != 0 {
                    n.cand[c].joiner = 0;
                    n.cand[c].dropped = false;
                    n.cand[c].compared = 0;
                }
            }
            Change::Join(d) => {
                self.send_undecided(n, c, d as usize);
                n.cand[c].compared = 0;
            }
            Change::Promote(d) => {
                let d = d as usize;
                for w in 0..self.writes.len() {
                    if n.drive[d].log[w] == Held::Joined && config.cur[self.writes[w].0] >> d & 1 != 0 {
                        n.drive[d].log[w] = Held::Applied; // the MARKS record
                    } else if n.drive[d].log[w] == Held::Void {
                        n.drive[d].log[w] = Held::Absent;
                    }
                }
                n.cand[c].joiner = 0;
                n.cand[c].dropped = false;
                n.cand[c].compared = 0;
            }
            Change::Return(d) => {
                let d = d as usize;
                for g in 0..self.groups() {
                    if config.cur[g] == bit(d) {
                        let has = self.of_group(g).filter(|w| !n.drive[d].log[*w].none()).fold(0, |m, w| m | bit(w));
                        let l = &mut n.cand[c];
                        l.void |= undecided & self.group_mask(g);
                        l.known = if self.on(Rule::R14Pending) { l.known | has } else { l.known & !self.group_mask(g) | has };
                        l.committed |= has;
                        n.shown |= has;
                    }
                }
                self.send_undecided(n, c, d);
                n.cand[c].compared = 0;
                if self.wants(&config, d) == 0 {
                    n.cand[c].joiner = 0;
                    n.cand[c].dropped = false;
                }
            }
        }
    }

    fn send_undecided(&self, n: &mut State, c: usize, d: usize) {
        let undecided = self.undecided(n, c);
        for w in 0..self.writes.len() {
            let placed = self.place[self.writes[w].0] >> d & 1 != 0;
            if undecided >> w & 1 != 0 && placed && self.on(Rule::R13Resend) {
                n.rec[w].sent |= bit(d);
            }
        }
    }

    /// EPOCH is durable on all members; what is undecided is sent again under it.
    fn put_in_force(&self, n: &mut State, c: usize) {
        n.cand[c].force = true;
        let undecided = self.undecided(n, c);
        for d in slots(n.cand[c].config.mem) {
            n.drive[d].epoch = n.cand[c].base;
            if self.backup {
                n.drive[d].made = n.cand[c].config;
            }
        }
        let config = n.cand[c].config;
        for w in 0..self.writes.len() {
            let g = self.writes[w].0;
            if undecided >> w & 1 != 0 {
                n.rec[w].epoch = n.cand[c].base;
            } else if n.cand[c].committed >> w & 1 == 0 && config.cur[g] != 0 && self.on(Rule::R14Pending) {
                // Its group was lost, and its truth does not have it.
                for d in slots(config.mem & self.place[g] & !config.cur[g]) {
                    if n.drive[d].log[w] == Held::Pending {
                        n.drive[d].log[w] = self.dropped();
                    }
                }
            }
        }
    }

    fn serve(&self, n: &mut State, c: usize) {
        let config = n.cand[c].config;
        let mut has = 0;
        for w in 0..self.writes.len() {
            let cur = config.cur[self.writes[w].0];
            if slots(cur).any(|d| !n.drive[d].gone && !n.drive[d].log[w].none()) {
                has |= bit(w);
            }
        }
        let l = &mut n.cand[c];
        l.phase = Phase::Serving;
        l.known = has;
        l.committed = has;
        n.shown |= has;
        self.put_in_force(n, c);
    }

    fn admit(&self, n: &mut State, c: usize, w: usize) {
        let g = self.writes[w].0;
        let number = self.number(n, c, g);
        let l = &mut n.cand[c];
        let mut to = l.config.mem;
        match l.pending {
            Some((Change::Exclude(_), m)) => to = m.mem, // only where the rule is off
            Some((Change::Join(_), m)) if self.on(Rule::R3Add) => to |= m.mem,
            _ => (),
        }
        l.known |= bit(w);
        n.rec[w] = Record { term: l.term, number, epoch: l.base, sent: to & self.place[g], answered: 0 };
    }

    fn append(&self, n: &mut State, w: usize, d: usize) {
        let r = n.rec[w];
        let g = self.writes[w].0;
        if n.drive[d].term > r.term && self.on(Rule::Fence) {
            n.rec[w].answered |= bit(d); // refused, and yet taken for an answer
            return;
        }
        n.rec[w].answered |= bit(d);
        if !n.drive[d].log[w].none() {
            return;
        }
        let repeat = !self.on(Rule::R11Repeat) && n.drive[d].seen[g] >= r.number;
        if !repeat {
            n.drive[d].log[w] = Held::Pending;
        }
        if !self.on(Rule::R11Repeat) || !self.on(Rule::R13SkipCommit) {
            n.drive[d].seen[g] = n.drive[d].seen[g].max(r.number);
        }
    }

    fn drop_pending(&self, n: &mut State, c: usize, d: usize) {
        let lost = n.cand[c].config.lost;
        for w in 0..self.writes.len() {
            let g = self.writes[w].0;
            if n.rec[w].term == n.cand[c].term && self.on(Rule::R11Connection) {
                n.rec[w].sent &= !bit(d); // a connection is in order: what was sent before came before, or never comes
                n.rec[w].answered &= !bit(d);
            }
            if self.on(Rule::R13Drop) && n.drive[d].log[w] == Held::Pending && lost[g] >> d & 1 == 0 {
                n.drive[d].log[w] = self.dropped();
            }
        }
        n.cand[c].joiner = d as u8 + 1;
        n.cand[c].dropped = true;
        n.cand[c].compared = 0;
    }

    fn compare(&self, n: &mut State, c: usize, d: usize, g: usize) {
        let m = self.source(n, c, g).unwrap();
        for w in self.of_group(g) {
            let there = n.drive[m].log[w].applied();
            let here = n.drive[d].log[w];
            if there && !here.applied() {
                n.drive[d].log[w] = Held::Joined;
            } else if !there && here.applied() {
                n.drive[d].log[w] = Held::Absent;
            }
        }
        n.cand[c].joiner = d as u8 + 1;
        n.cand[c].compared |= bit(g);
    }

    /// The operator's word after a restore: every drive server that is left is OPENed with the next generation, then read.
    fn reseed(&self, n: &mut State) {
        let newest = (0..self.slots).filter(|d| !n.drive[*d].gone).max_by_key(|d| n.drive[*d].epoch).unwrap();
        let made = n.drive[newest].made;
        n.etcd = Etcd { term: RESEEDED, epoch: 100, by: 0, config: made, revision: 100 };
        n.cas = [None; CANDS];
        n.late = [None; CANDS];
        for d in 0..self.slots {
            n.drive[d].term = RESEEDED;
            n.drive[d].fresh = false;
        }
        for c in 0..CANDS {
            n.cand[c] = Cand::default();
        }
    }

    /// Takes out of a state what can have no effect any more, so that states that differ in nothing else are one.
    fn tidy(&self, n: &mut State) {
        for c in 0..CANDS {
            if n.late[c].is_some_and(|cas| !self.accepts(n, &cas)) {
                n.late[c] = None;
            }
            if let Some(cas) = n.cas[c] {
                if !self.accepts(n, &cas) && (cas.term != n.etcd.term || cas.base < n.etcd.epoch) && !n.restored {
                    n.cas[c] = None;
                }
            }
        }
        let by = n.etcd.by;
        if !n.cand.iter().any(|l| l.pending.is_some() && l.term == by) {
            n.etcd.by = 0;
        }
        for d in (0..self.slots).filter(|_| !self.backup) {
            let term = n.drive[d].term;
            let late = |w: &usize| n.rec[*w].term == term && n.rec[*w].sent >> d & 1 != 0 && n.drive[d].log[*w].none();
            if !(0..self.writes.len()).any(|w| late(&w)) {
                n.drive[d].epoch = 0; // nothing is on its way that it could refuse
            }
        }
        for w in 0..self.writes.len() {
            let r = n.rec[w];
            let owner = n.cand.iter().find(|l| l.phase != Phase::Idle && l.term == r.term).copied();
            let decided = owner.map_or(true, |l| (l.committed | l.void) >> w & 1 != 0);
            if decided {
                n.rec[w].answered = 0;
                for d in 0..self.slots {
                    let v = &n.drive[d];
                    let refused = v.gone || v.term > r.term && self.on(Rule::Fence) || v.epoch > r.epoch && self.on(Rule::FenceEpoch);
                    if refused || !v.log[w].none() && owner.is_none() {
                        n.rec[w].sent &= !bit(d);
                    }
                }
                let held = (0..self.slots).any(|d| n.drive[d].log[w] != Held::Absent);
                if owner.is_none() && r.term != 0 && !held && n.rec[w].sent == 0 && n.shown >> w & 1 == 0 {
                    n.rec[w] = Record { term: 1, ..Default::default() }; // it never was
                } else if owner.is_none() && n.rec[w].sent == 0 {
                    n.rec[w].epoch = 0;
                }
            }
            if within(n.rec[w].sent, n.rec[w].answered) {
                n.rec[w].epoch = 0; // put_in_force sets it where it is sent again
            }
        }
    }
}

//! R7 and R10: the shards of one upload (k = 1, m = 2) on three slots, and the proof that they are
//! stable, which the leader looks at before it takes the record. It must not name a shard that is
//! not on its drive, and not be taken with fewer than k+1.

use crate::rules::{Off, Rule};
use stateright::{Model, Property};

const SLOTS: usize = 3;
const LEAST: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Slot {
    drive: u8,
    incarnation: u8,
    shard: u8,            // 0 absent, 1 written, 2 stable
    wrote: Option<(u8, u8)>,  // what WRITE's answer said: drive, incarnation
    proof: Option<(u8, u8)>,  // what the gateway puts into the proof
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    slots: [Slot; SLOTS],
    sent: bool,
    named: Option<u8>, // slots that the record names, once it is taken
    stable: u8,        // slots that had the shard then
    faults: u8,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Act {
    Write(usize),
    Sync(usize),
    Send,
    Admit,
    Restart(usize),
    Replace(usize),
}

#[derive(Clone)]
pub struct Proof {
    pub off: Off,
}

impl Model for Proof {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State { slots: Default::default(), sent: false, named: None, stable: 0, faults: 0 }]
    }

    fn actions(&self, s: &State, out: &mut Vec<Act>) {
        for (d, slot) in s.slots.iter().enumerate() {
            if !s.sent && slot.wrote.is_none() {
                out.push(Act::Write(d));
            }
            if !s.sent && slot.wrote.is_some() && slot.proof.is_none() {
                out.push(Act::Sync(d));
            }
            if s.faults < 3 && s.named.is_none() {
                out.push(Act::Restart(d));
                out.push(Act::Replace(d));
            }
        }
        if !s.sent && s.slots.iter().filter(|v| v.proof.is_some()).count() as u32 >= LEAST {
            out.push(Act::Send);
        }
        if s.sent && s.named.is_none() {
            out.push(Act::Admit);
        }
    }

    fn next_state(&self, s: &State, act: Act) -> Option<State> {
        let on = |r| !self.off.has(r);
        let mut n = s.clone();
        match act {
            Act::Write(d) => {
                n.slots[d].shard = 1;
                n.slots[d].wrote = Some((s.slots[d].drive, s.slots[d].incarnation));
            }
            Act::Sync(d) => {
                let v = &mut n.slots[d];
                let now = (v.drive, v.incarnation);
                if v.shard == 1 {
                    v.shard = 2;
                }
                if v.wrote != Some(now) && on(Rule::R7Shards) {
                    return None; // it is not what was written to
                }
                v.proof = Some(now);
            }
            Act::Send => n.sent = true,
            Act::Admit => {
                let mut named = 0u8;
                for (d, v) in s.slots.iter().enumerate() {
                    if v.proof.is_some_and(|(drive, _)| drive == v.drive || !on(Rule::R10Drive)) {
                        named |= 1 << d;
                    }
                    if v.shard == 2 {
                        n.stable |= 1 << d;
                    }
                }
                if named.count_ones() < LEAST && on(Rule::R10Few) {
                    return None; // -EROFS
                }
                n.named = Some(named);
            }
            Act::Restart(d) => {
                n.faults += 1;
                n.slots[d].incarnation += 1;
                if s.slots[d].shard == 1 {
                    n.slots[d].shard = 0;
                }
            }
            Act::Replace(d) => {
                n.faults += 1;
                let v = &mut n.slots[d];
                *v = Slot { drive: v.drive + 1, incarnation: 0, shard: 0, ..*v };
            }
        }
        Some(n)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a record names what is there", |_, s: &State| s.named.is_none_or(|m| m & !s.stable == 0)),
            Property::always("one drive may be lost", |_, s: &State| s.named.is_none_or(|m| m.count_ones() >= LEAST)),
        ]
    }

    fn format_action(&self, act: &Act) -> String {
        match act {
            Act::Write(d) => format!("the shard is written to slot {d}, not flushed"),
            Act::Sync(d) => format!("slot {d} answers SYNC"),
            Act::Send => "the gateway sends the transaction with its proof".into(),
            Act::Admit => "the leader takes the record".into(),
            Act::Restart(d) => format!("the server of slot {d} restarts; what was not flushed is gone"),
            Act::Replace(d) => format!("slot {d} gets an empty drive"),
        }
    }
}

//! R9: the sweep of shards that no record names, beside an upload whose outcome is not known. A
//! record that counts must keep its shards. One gateway that may crash and start again, two leaders.

use crate::rules::{Off, Rule};
use stateright::{Model, Property};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    shards: bool,
    sent: Vec<u8>,       // terms to whose leaders the transaction is on its way
    term: u8,
    admitted: bool,      // in the leader's queue: volatile
    counts: bool,        // the record is committed
    alive: bool,         // the boot that uploads
    under_way: bool,     // as the gateway tells
    unknown: bool,       // it gave up waiting for the answer
    closing: bool,       // the session's close is on its way
    fenced: bool,        // boots/N is above that boot, in etcd
    knows: bool,         // the leader has read that
    sweep: Option<bool>, // a sweep has its bounds; whether its listing saw the record, once it has listed
    listed: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Act {
    Upload,
    Send,
    Admit,
    Commit,
    Told,
    GiveUp,
    Close,
    CloseDone,
    Crash,
    Restart,
    Fail(bool),
    ReadBoots,
    Begin,
    List,
    Discard,
}

#[derive(Clone)]
pub struct Sweep {
    pub off: Off,
}

impl Sweep {
    fn on(&self, r: Rule) -> bool {
        !self.off.has(r)
    }
    fn may_begin(&self, s: &State) -> bool {
        if s.alive {
            return !s.under_way; // it told its bound
        }
        let past = s.knows || !self.on(Rule::R9Fence);
        past && (!s.admitted || !self.on(Rule::R9Drain))
    }
}

impl Model for Sweep {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            shards: false, sent: vec![], term: 1, admitted: false, counts: false, alive: true, under_way: true, unknown: false,
            closing: false, fenced: false, knows: false, sweep: None, listed: false,
        }]
    }

    fn actions(&self, s: &State, out: &mut Vec<Act>) {
        if s.alive && !s.shards && s.under_way && s.sent.is_empty() {
            out.push(Act::Upload);
        }
        if s.alive && s.shards && s.sent.is_empty() && !s.unknown {
            out.push(Act::Send);
        }
        let refused = s.knows && self.on(Rule::R9Refuse);
        if s.sent.contains(&s.term) && !s.admitted && !s.counts && !refused && !s.closing {
            out.push(Act::Admit);
        }
        if s.admitted {
            out.push(Act::Commit);
        }
        if s.alive && !s.sent.is_empty() && !s.unknown && s.under_way {
            if s.counts {
                out.push(Act::Told);
            }
            out.push(Act::GiveUp);
        }
        if s.alive && s.unknown && s.under_way {
            if s.sent.contains(&s.term) && !s.closing {
                out.push(Act::Close);
            }
            // The close is acknowledged when the queue has drained; a later term has reconciled.
            if s.closing && !s.admitted || !s.sent.contains(&s.term) {
                out.push(Act::CloseDone);
            }
        }
        if s.alive {
            out.push(Act::Crash);
        } else if !s.fenced {
            out.push(Act::Restart);
        }
        if s.term < 2 {
            out.push(Act::Fail(false));
            if s.admitted {
                out.push(Act::Fail(true));
            }
        }
        if s.fenced && !s.knows {
            out.push(Act::ReadBoots);
        }
        match s.sweep {
            None if s.shards && self.may_begin(s) => out.push(Act::Begin),
            Some(_) if !s.listed => out.push(Act::List),
            Some(false) if s.listed && s.shards => out.push(Act::Discard),
            _ => (),
        }
    }

    fn next_state(&self, s: &State, act: Act) -> Option<State> {
        let mut n = s.clone();
        match act {
            Act::Upload => n.shards = true,
            Act::Send => n.sent.push(s.term),
            Act::Admit => n.admitted = true,
            Act::Commit => {
                n.admitted = false;
                n.counts = true;
            }
            Act::Told => n.under_way = false,
            Act::GiveUp => {
                n.unknown = true;
                if !self.on(Rule::R9Unknown) {
                    n.under_way = false;
                }
            }
            Act::Close => n.closing = true,
            Act::CloseDone => n.under_way = false,
            Act::Crash => n.alive = false,
            Act::Restart => n.fenced = true, // a new boot; the old one is below boots/N
            Act::Fail(kept) => {
                n.counts |= kept; // its record was pending somewhere, and was rolled forward
                n.term += 1;
                n.admitted = false;
                n.closing = false;
                n.knows = false;
                n.sweep = None;
                n.listed = false;
            }
            Act::ReadBoots => n.knows = true,
            Act::Begin => n.sweep = Some(false),
            Act::List => {
                n.sweep = Some(s.counts);
                n.listed = true;
            }
            Act::Discard => n.shards = false,
        }
        Some(n)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a record keeps its shards", |_, s: &State| !s.counts || s.shards),
        ]
    }

    fn format_action(&self, act: &Act) -> String {
        match act {
            Act::Upload => "the gateway's shards are stable",
            Act::Send => "the gateway sends the transaction",
            Act::Admit => "the leader admits it",
            Act::Commit => "its record counts",
            Act::Told => "the gateway is answered: the upload is no longer under way",
            Act::GiveUp => "the gateway gives up waiting: outcome unknown",
            Act::Close => "the gateway closes its session: nothing more of it is admitted",
            Act::CloseDone => "the close is acknowledged with the queue drained, or a later term has reconciled",
            Act::Crash => "the gateway's process ends",
            Act::Restart => "it starts again: its boot number in etcd fences the old boot",
            Act::Fail(false) => "another leader takes over, and what was admitted is gone",
            Act::Fail(true) => "another leader takes over, and rolls what was admitted forward",
            Act::ReadBoots => "the leader reads the boot numbers",
            Act::Begin => "a sweep begins: every boot has told its bound or is past",
            Act::List => "the sweep lists the names",
            Act::Discard => "the sweep discards the shards, which no name that it saw has",
        }
        .into()
    }
}

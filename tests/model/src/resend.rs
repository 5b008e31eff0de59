//! R8: a transaction whose answer was lost. One gateway wants X under a key, another client then
//! wants Y there. X must not count twice, or it could hide Y, which came after it.

use crate::rules::{Off, Rule};
use stateright::{Model, Property};

const NUMBERS: u8 = 2; // of the session, under which X was sent

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Op {
    X,
    Y,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Gateway {
    Waits,          // for an answer under the newest number
    Told(bool),     // its client: 200, or 503 (unknown)
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    term: u8,
    log: Vec<Op>,        // what counts, in order: durable
    met: u8,             // numbers of this term's session that were admitted or burnt: volatile
    sent: Vec<(u8, u8)>, // transactions on their way: term, number; each may come late, and again
    newest: (u8, u8),
    never: bool,         // 'never admitted' is on its way to the gateway, for the newest number
    gateway: Gateway,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Act {
    Arrives(u8, u8),
    Answered,
    Ask,
    Again,
    Fail,
    Look,
    AgainInTerm,
    Other,
}

#[derive(Clone)]
pub struct Resend {
    pub off: Off,
}

impl Resend {
    fn on(&self, r: Rule) -> bool {
        !self.off.has(r)
    }
}

impl Model for Resend {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State { term: 1, log: vec![], met: 0, sent: vec![(1, 1)], newest: (1, 1), never: false, gateway: Gateway::Waits }]
    }

    fn actions(&self, s: &State, out: &mut Vec<Act>) {
        for &(term, number) in &s.sent {
            let met = s.met >> number & 1 != 0;
            if (term == s.term || !self.on(Rule::R8Term)) && (!met || !self.on(Rule::R8Once)) && s.log.len() < 4 {
                out.push(Act::Arrives(term, number));
            }
        }
        let waits = s.gateway == Gateway::Waits;
        if waits && s.newest.0 == s.term {
            if s.met >> s.newest.1 & 1 != 0 && !s.never && s.log.contains(&Op::X) {
                out.push(Act::Answered);
            }
            if s.met >> s.newest.1 & 1 == 0 && !s.never {
                out.push(Act::Ask);
            }
        }
        if waits && s.never && s.newest.0 == s.term && s.newest.1 < NUMBERS {
            out.push(Act::Again);
        }
        if s.term < 2 {
            out.push(Act::Fail);
        }
        if waits && s.newest.0 < s.term {
            out.push(Act::Look);
            if !self.on(Rule::R8Look) {
                out.push(Act::AgainInTerm);
            }
        }
        // The other client begins once X counts, so its Y comes after X.
        if s.log.contains(&Op::X) && !s.log.contains(&Op::Y) {
            out.push(Act::Other);
        }
    }

    fn next_state(&self, s: &State, act: Act) -> Option<State> {
        let mut n = s.clone();
        match act {
            Act::Arrives(_, number) => {
                n.met |= 1 << number;
                n.log.push(Op::X);
            }
            Act::Answered => n.gateway = Gateway::Told(true),
            Act::Ask => {
                n.never = true;
                if self.on(Rule::R8Burn) {
                    n.met |= 1 << s.newest.1;
                }
            }
            Act::Again | Act::AgainInTerm => {
                n.newest = (s.term, if act == Act::Again { s.newest.1 + 1 } else { 1 });
                n.sent.push(n.newest);
                n.never = false;
            }
            Act::Fail => {
                n.term += 1;
                n.met = 0;
            }
            // Its object id is under the key: done. All else is unknown.
            Act::Look => n.gateway = Gateway::Told(s.log.last() == Some(&Op::X)),
            Act::Other => n.log.push(Op::Y),
        }
        Some(n)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a transaction counts once", |_, s: &State| s.log.iter().filter(|o| **o == Op::X).count() <= 1),
            Property::always("acknowledged is kept", |_, s: &State| s.gateway != Gateway::Told(true) || s.log.contains(&Op::X)),
        ]
    }

    fn format_action(&self, act: &Act) -> String {
        match act {
            Act::Arrives(term, number) => format!("the leader admits number {number} of the session of term {term}: X counts"),
            Act::Answered => "the gateway is answered".into(),
            Act::Ask => "the gateway's connection broke; it asks, and the leader says 'never admitted'".into(),
            Act::Again => "the gateway sends X again under the next number".into(),
            Act::Fail => "another leader takes over with a new term".into(),
            Act::Look => "the gateway looks whether X is there, and answers its client".into(),
            Act::AgainInTerm => "the gateway sends X again to the new leader".into(),
            Act::Other => "another client writes Y under the key".into(),
        }
    }
}

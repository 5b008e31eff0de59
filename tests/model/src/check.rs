//! One run of the checker, several at a time, and the table of what they found.

use stateright::{Checker, HasDiscoveries, Model};
use std::fmt::Debug;
use std::hash::Hash;
use std::io::Write;
use std::sync::{mpsc, Mutex};
use std::time::{Duration, Instant};

#[derive(Clone)]
pub struct Options {
    pub trace: bool,
    pub most: usize, // states of one run: for trying things out
}

pub struct Found {
    pub states: usize,
    pub depth: usize,
    pub broken: Option<(&'static str, usize, Vec<String>)>,
    pub whole: bool, // every state was visited
}

/// What a model can add to a trace of its own: what would follow if nothing failed any more.
pub trait Explain: Model {
    fn explain(&self, _last: &Self::State) -> Vec<Self::Action> {
        Vec::new()
    }
}

type Job = Box<dyn Fn(&str, &Options) -> Found + Send + Sync>;

pub struct Run {
    pub config: &'static str,
    pub off: String,    // empty: all rules
    pub breaks: bool,   // a violation has to be found
    pub job: Job,
}

impl Run {
    fn name(&self) -> String {
        format!("{}/{}", self.config, if self.off.is_empty() { "all rules" } else { &self.off })
    }
}

/// A job that checks a model. Breadth first by one thread, so that a trace is a shortest one.
pub fn job<M>(make: impl Fn() -> M + Send + Sync + 'static) -> Job
where
    M: Model + Explain + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    Box::new(move |name, options| {
        let start = Instant::now();
        let checker = make().checker().threads(1).finish_when(HasDiscoveries::Any).spawn_bfs();
        let mut said = start;
        while !checker.is_done() {
            std::thread::sleep(Duration::from_millis(20));
            if said.elapsed() > Duration::from_secs(10) {
                said = Instant::now();
                eprintln!("  ... {name}: {} states, depth {}, {} s", checker.unique_state_count(), checker.max_depth(), start.elapsed().as_secs());
                if checker.unique_state_count() > options.most {
                    return Found { states: checker.unique_state_count(), depth: checker.max_depth(), broken: None, whole: false };
                }
            }
        }
        let broken = checker.discoveries().into_iter().min_by_key(|(_, p)| p.clone().into_actions().len()).map(|(name, path)| {
            let model = make();
            let steps = path.into_vec();
            let mut lines: Vec<String> = steps.iter().filter_map(|(_, act)| act.as_ref().map(|a| model.format_action(a))).collect();
            let length = lines.len();
            if name == "opens again" || name == "acknowledged is kept" {
                let last = &steps.last().unwrap().0;
                lines.extend(model.explain(last).iter().take(30).map(|a| format!("(then) {}", model.format_action(a))));
                lines.push(format!("{last:?}"));
            }
            (name, length, lines)
        });
        Found { states: checker.unique_state_count(), depth: checker.max_depth(), whole: broken.is_none(), broken }
    })
}

pub fn run_all(runs: Vec<Run>, only: &str, options: &Options, table: Option<&str>) -> bool {
    let runs: Vec<Run> = runs.into_iter().filter(|r| r.name().contains(only)).collect();
    let next = Mutex::new(0..runs.len());
    let threads = std::env::var("MODEL_THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(2usize);
    let (send, receive) = mpsc::channel();
    let mut rows = vec![String::new(); runs.len()];
    let mut good = true;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, next, runs) = (send.clone(), &next, &runs);
            scope.spawn(move || loop {
                let Some(i) = next.lock().unwrap().next() else { return };
                let name = runs[i].name();
                let start = Instant::now();
                let found = (runs[i].job)(&name, options);
                send.send((i, name, found, start.elapsed())).unwrap();
            });
        }
        drop(send);
        for (i, name, found, took) in receive {
            let run = &runs[i];
            let right = found.broken.is_some() == run.breaks && (found.whole || run.breaks);
            good &= right;
            let what = match &found.broken {
                Some((property, length, _)) => format!("{property}, {length} steps"),
                None if found.whole => "holds".to_string(),
                None => "not finished".to_string(),
            };
            println!(
                "{} {name}: {what}; {} states, depth {}, {:.1} s",
                if right { "ok  " } else { "FAIL" }, found.states, found.depth, took.as_secs_f64()
            );
            if let Some((_, _, steps)) = found.broken.as_ref().filter(|_| options.trace || !run.breaks) {
                for (n, step) in steps.iter().enumerate() {
                    println!("       {:2}. {step}", n + 1);
                }
            }
            std::io::stdout().flush().unwrap();
            let (property, steps) = found.broken.map_or(("-".to_string(), "-".to_string()), |(p, n, _)| (p.to_string(), n.to_string()));
            rows[i] = format!(
                "| {} | {} | {property} | {steps} | {} | {} |",
                if run.off.is_empty() { "(all rules)" } else { &run.off }, run.config, found.states, found.depth
            );
        }
    });
    if let Some(file) = table {
        let head = "| taken out | configuration | broken | steps | states | depth |\n|---|---|---|---|---|---|\n";
        std::fs::write(file, format!("{head}{}\n", rows.join("\n"))).expect("the table can be written");
    }
    println!("{} runs, {}", runs.len(), if good { "all as they should be" } else { "SOME NOT AS THEY SHOULD BE" });
    good
}

//! Runs the model: every configuration with all rules, then each rule taken out.
//!
//!   model [--only TEXT] [--trace] [--table FILE] [--max STATES]

mod check;
mod pool;
mod proof;
mod resend;
mod runs;
mod rules;
mod sweep;

fn main() {
    let mut only = String::new();
    let mut options = check::Options { trace: false, most: usize::MAX };
    let mut table = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--only" => only = args.next().unwrap_or_default(),
            "--trace" => options.trace = true,
            "--table" => table = args.next(),
            "--max" => options.most = args.next().and_then(|n| n.parse().ok()).unwrap_or(usize::MAX),
            _ => {
                eprintln!("model: unknown option '{arg}'");
                std::process::exit(2);
            }
        }
    }
    let good = check::run_all(runs::all(), &only, &options, table.as_deref());
    std::process::exit(if good { 0 } else { 1 });
}

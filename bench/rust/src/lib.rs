//! What the programs share: the environment of the loops, the CPU clock and the report line, and what
//! the forwarders read of a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::runtime::Builder;

/// Reads a number from the environment, or `fallback` when it is absent or malformed.
pub fn env(name: &str, fallback: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(fallback)
}

/// The mock's base URL, ending in `/v1`.
pub fn url() -> String {
    std::env::var("PERF_URL").expect("PERF_URL")
}

/// Whether replies are to be streamed.
pub fn stream() -> bool {
    env("PERF_STREAM", 0) == 1
}

/// CPU seconds this process has used so far, user and system.
pub fn cpu() -> f64 {
    // SAFETY: `rusage` is plain numbers, so all zeroes is a valid value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live `rusage` that nothing else borrows.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Does the warm-up runs, then the measured ones at the asked concurrency; prints the report line.
pub async fn drive<F, Fut>(one: F)
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = String> + Send + 'static,
{
    let (runs, conc, warm) = (env("PERF_RUNS", 1), env("PERF_CONC", 1), env("PERF_WARM", 1));
    for _ in 0..warm {
        assert_eq!(one().await, "Done.");
    }
    let (wall_start, cpu_start) = (Instant::now(), cpu());
    if conc == 1 {
        for _ in 0..runs {
            assert_eq!(one().await, "Done.");
        }
    } else {
        drive_workers(one, runs, conc).await;
    }
    let (wall, cpu) = (wall_start.elapsed().as_secs_f64(), cpu() - cpu_start);
    println!("{{\"wall\":{wall},\"cpu\":{cpu},\"runs\":{runs}}}");
}

/// Shares `runs` among `conc` tasks; each takes the next one as soon as it is free.
async fn drive_workers<F, Fut>(one: F, runs: usize, conc: usize)
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = String> + Send + 'static,
{
    let left = Arc::new(AtomicIsize::new(runs as isize));
    let workers: Vec<_> = (0..conc)
        .map(|_| {
            let (left, one) = (left.clone(), one.clone());
            tokio::spawn(async move {
                while left.fetch_sub(1, Ordering::Relaxed) > 0 {
                    assert_eq!(one().await, "Done.");
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
}

/// Blocks on `future`: one thread for sequential runs, two workers for concurrent ones.
pub fn block<F: Future>(future: F) -> F::Output {
    let mut builder = if env("PERF_CONC", 1) == 1 {
        Builder::new_current_thread()
    } else {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2);
        builder
    };
    builder.enable_all().build().unwrap().block_on(future)
}

/// What a forwarder reads of a message.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    pub method: Option<&'a str>,
    #[serde(borrow)]
    pub params: Option<Params<'a>>,
}

/// What it reads of the call in it.
#[derive(Deserialize)]
pub struct Params<'a> {
    pub name: Option<&'a str>,
    #[serde(borrow)]
    pub arguments: Option<&'a RawValue>,
}

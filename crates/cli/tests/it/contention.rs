//! Four processes work in one project and are killed with SIGKILL at random: the log stays sound, and what
//! was said to be done is there.

#![allow(clippy::disallowed_methods)] // How long it lasts is measured.

use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Desk;

const PROCESSES: u64 = 4;
const LASTS: Duration = Duration::from_secs(5);

fn start(desk: &Desk, session: u64, key: &str) -> Child {
    let args = json!({"key": key, "data": key}).to_string();
    let mut command = desk.command();
    command.args(["call", "write_notes", &args, "--session", &format!("p{session}")]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn four_processes_that_are_killed_at_random_leave_a_sound_log() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    desk.ok(&["call", "list_notes"]);
    let (done, kills) = (Mutex::new(Vec::new()), Mutex::new(0_u64));
    let ends = Instant::now() + LASTS;
    thread::scope(|scope| {
        for process in 0..PROCESSES {
            let (desk, done, kills) = (&desk, &done, &kills);
            scope.spawn(move || {
                let mut dice = u64::from(std::process::id()) + process;
                let mut at = 0;
                while Instant::now() < ends {
                    at += 1;
                    let key = format!("p{process}-{at}");
                    let mut child = start(desk, process, &key);
                    dice = dice
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    if dice >> 40 & 1 == 0 {
                        thread::sleep(Duration::from_millis((dice >> 33) % 300));
                        // It may have ended already.
                        drop(child.kill());
                    }
                    match child.wait().unwrap().code() {
                        Some(0) => done.lock().unwrap().push(key),
                        None => *kills.lock().unwrap() += 1,
                        // Another process keeps the log locked.
                        Some(75) => {}
                        Some(code) => panic!("{key} ended with {code}"),
                    }
                }
            });
        }
    });
    let (done, kills) = (done.into_inner().unwrap(), kills.into_inner().unwrap());
    let verified = desk.run(&["verify"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let told = desk.ok(&["call", "list_notes", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    for key in &done {
        assert!(told["data"].get(key).is_some(), "{key} was done and is lost");
    }
    println!("{kills} kills, {} calls done", done.len());
    assert!(kills >= 4 && done.len() >= 4, "{kills} kills, {} done", done.len());
    let shown: Value = serde_json::from_str(&desk.ok(&["verify", "--json"])).unwrap();
    assert_eq!(shown["anchored"], shown["commits"], "{shown}");
}

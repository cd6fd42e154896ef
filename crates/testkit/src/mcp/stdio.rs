//! Decides how the misbehaving server speaks over its input and output.

use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::{Mode, Server};

/// Serves until the input ends.
pub fn serve(server: Arc<Server>) {
    match server.mode {
        Mode::ExitAtOnce => {
            let _ = std::io::stderr().write_all(b"fake: no such configuration\n");
            std::process::exit(3);
        }
        Mode::NoiseFlood => (0..200).for_each(|_| write(b"npm WARN deprecated foo@1.0.0\n")),
        Mode::StderrFlood => {
            std::thread::spawn(|| {
                let line = [b'e'; 4_096];
                while std::io::stderr().write_all(&line).is_ok() {}
            });
        }
        _ => {}
    }
    let last = Arc::new(Mutex::new(None::<std::thread::JoinHandle<()>>));
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let asks = message.get("method").and_then(Value::as_str) == Some("tools/call");
        if !asks {
            server.hear(&message, &mut |text| say(&server, text, false));
            continue;
        }
        // A call may take long; the input is read meanwhile.
        let speaker = Arc::clone(&server);
        let handle = std::thread::spawn(move || {
            speaker.hear(&message, &mut |text| say(&speaker, text, true));
            if speaker.mode == Mode::Half {
                write(br#"{"jsonrpc":"2.0","id":"tg-"#);
            }
        });
        if let Ok(mut last) = last.lock() {
            *last = Some(handle);
        }
    }
    if server.mode == Mode::IgnoreEof {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
}

fn say(server: &Server, text: &str, call: bool) {
    match server.mode {
        Mode::Noise => write(b"npm WARN deprecated foo@1.0.0\n"),
        Mode::BadUtf8 => write(b"\xff\xfe\xc3\n"),
        Mode::LongLine if call => {
            let line = [vec![b'A'; 5 << 20], b"\n".to_vec()].concat();
            write(&line);
        }
        Mode::Drip if call => {
            for byte in text.as_bytes() {
                write(&[*byte]);
                std::thread::sleep(Duration::from_millis(100));
            }
            return write(b"\n");
        }
        _ => {}
    }
    write(format!("{text}\n").as_bytes());
}

fn write(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes);
    let _ = stdout.flush();
}

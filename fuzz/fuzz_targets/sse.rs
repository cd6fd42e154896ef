//! Arbitrary bytes as a stream: every split gives the same events and the same fault.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_http::sse::{Reader, SseFault};

fuzz_target!(|data: &[u8]| {
    let Some((at, stream)) = data.split_first() else { return };
    let whole = read(&[stream]);
    let at = usize::from(*at) * stream.len() / 256;
    let (head, tail) = stream.split_at(at);
    assert_eq!(read(&[head, tail]), whole);
    assert_eq!(read(&stream.chunks(1).collect::<Vec<_>>()), whole);
});

fn read(pieces: &[&[u8]]) -> (Vec<(String, String)>, Option<SseFault>) {
    let (mut reader, mut events) = (Reader::bounded(64, 512), Vec::new());
    for piece in pieces {
        let told = reader.read(piece, |event| {
            assert!(event.name.len() + event.data.len() <= 64);
            events.push((event.name.to_owned(), event.data.to_owned()));
            Ok::<(), SseFault>(())
        });
        if let Err(fault) = told {
            return (events, Some(fault));
        }
    }
    (events, None)
}

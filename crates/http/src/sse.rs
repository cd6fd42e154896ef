//! Decides how a stream of server-sent events is read: line by line, each event and the whole bounded.

/// Most bytes one event may have.
pub const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes a whole response may have where nobody says another bound.
pub const RESPONSE_BYTES_MAX: usize = 32 * 1024 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event, lent until the next is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its name; empty when it has none.
    pub name: &'a str,
    /// Its data, lines joined by `\n`.
    pub data: &'a str,
}

/// Why a stream cannot be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseFault {
    /// One event is too long.
    #[error("an event of the stream is longer than {0} bytes")]
    EventTooLong(usize),
    /// The stream is too long.
    #[error("the stream is longer than {0} bytes")]
    TooLong(usize),
    /// A line is not UTF-8.
    #[error("the stream is not valid UTF-8")]
    NotText,
}

/// Takes the bytes of a stream, however they are split, and gives its events.
///
/// An event counts when its blank line has come. What follows the last one is no event.
#[derive(Debug)]
pub struct Reader {
    event_max: usize,
    total_max: usize,
    total: usize,
    /// The begin of a line whose end has not come.
    line: Vec<u8>,
    name: String,
    data: String,
    has_data: bool,
    /// The last byte was a CR, so that an LF belongs to it.
    after_cr: bool,
    /// Nothing but the first line may begin with a byte order mark.
    begun: bool,
    /// The id of the newest event.
    id: Option<String>,
    retry_ms: Option<u64>,
}

/// Most bytes of an id that is kept.
const ID_BYTES_MAX: usize = 1_024;

impl Default for Reader {
    fn default() -> Self {
        Self::bounded(EVENT_BYTES_MAX, RESPONSE_BYTES_MAX)
    }
}

impl Reader {
    /// A reader with bounds of its own.
    pub fn bounded(event_max: usize, total_max: usize) -> Self {
        Self {
            event_max,
            total_max,
            total: 0,
            line: Vec::new(),
            name: String::new(),
            data: String::new(),
            has_data: false,
            after_cr: false,
            begun: false,
            id: None,
            retry_ms: None,
        }
    }

    /// The newest id that the stream told, for whoever wants to go on from there.
    pub fn last_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// How many milliseconds the stream wants one to wait before it is opened again.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// The data of the event whose end has not come, as far as it is there.
    pub fn open(&self) -> Vec<u8> {
        let line = self.line.strip_prefix(b"data:").unwrap_or_default();
        let line = line.strip_prefix(b" ").unwrap_or(line);
        let between: &[u8] = if self.has_data { b"\n" } else { b"" };
        [self.data.as_bytes(), between, line].concat()
    }

    /// Reads the next bytes and hands out every event that is whole by then.
    pub fn read<F: From<SseFault>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Event<'_>) -> Result<(), F>,
    ) -> Result<(), F> {
        let room = self.total_max.saturating_sub(self.total);
        self.total = self.total.saturating_add(bytes.len());
        // What fits is read all the same: how bytes are split must not decide which events come.
        let mut rest = bytes.get(..room).unwrap_or(bytes);
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr)
                && let Some(after) = rest.strip_prefix(b"\n")
            {
                rest = after;
                continue;
            }
            let Some(end) = line_end(rest) else {
                self.fits(rest.len())?;
                self.line.extend_from_slice(rest);
                break;
            };
            let (line, after) = rest.split_at(end);
            self.after_cr = after.starts_with(b"\r");
            rest = after.get(1..).unwrap_or_default();
            self.line_ended(line, &mut each)?;
        }
        if bytes.len() > room { Err(SseFault::TooLong(self.total_max).into()) } else { Ok(()) }
    }

    /// Whether the open event may have so many bytes more.
    fn fits(&self, more: usize) -> Result<(), SseFault> {
        let open = self.data.len() + self.name.len() + self.line.len();
        if open.saturating_add(more) > self.event_max {
            return Err(SseFault::EventTooLong(self.event_max));
        }
        Ok(())
    }

    fn line_ended<F: From<SseFault>>(
        &mut self,
        end: &[u8],
        each: &mut impl FnMut(Event<'_>) -> Result<(), F>,
    ) -> Result<(), F> {
        self.fits(end.len())?;
        if self.line.is_empty() {
            // The usual case: the whole line is at hand and nothing is copied.
            return self.take(end, each);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        let taken = self.take(&line, each);
        line.clear();
        self.line = line;
        taken
    }

    fn take<F: From<SseFault>>(
        &mut self,
        line: &[u8],
        each: &mut impl FnMut(Event<'_>) -> Result<(), F>,
    ) -> Result<(), F> {
        let first = !std::mem::replace(&mut self.begun, true);
        let line = if first { line.strip_prefix(BOM).unwrap_or(line) } else { line };
        let line = std::str::from_utf8(line).map_err(|_| SseFault::NotText)?;
        if !line.is_empty() {
            self.field(line);
            return Ok(());
        }
        let given = match self.has_data {
            true => each(Event { name: &self.name, data: &self.data }),
            false => Ok(()),
        };
        self.has_data = false;
        self.name.clear();
        self.data.clear();
        given
    }

    fn field(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            "id" if value.len() <= ID_BYTES_MAX && !value.contains('\0') => {
                self.id = Some(value.to_owned());
            }
            "retry" => self.retry_ms = value.parse().ok().or(self.retry_ms),
            // A line that begins with a colon is a comment.
            _ => {}
        }
    }
}

/// Where a line ends. Blocks without an end are passed as a whole, not byte by byte.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let (blocks, _) = bytes.as_chunks::<32>();
    let has_none = |block: &&[u8; 32]| !block.iter().fold(false, |found, byte| found | ends(byte));
    let passed = blocks.iter().take_while(has_none).count() * 32;
    let end = bytes.get(passed..)?.iter().position(ends)?;
    Some(passed + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = (Vec<(String, String)>, Option<SseFault>);

    fn read(reader: &mut Reader, pieces: &[&[u8]]) -> Told {
        let mut events = Vec::new();
        for piece in pieces {
            let told = reader.read(piece, |event| {
                events.push((event.name.to_owned(), event.data.to_owned()));
                Ok::<(), SseFault>(())
            });
            if let Err(fault) = told {
                return (events, Some(fault));
            }
        }
        (events, None)
    }

    fn told(text: &[u8]) -> Told {
        read(&mut Reader::default(), &[text])
    }

    /// What a stream says, as `name|data` per event.
    const STREAMS: &[(&str, &[&str])] = &[
        ("data: a\n\n", &["|a"]),
        ("data: a\r\n\r\n", &["|a"]),
        ("data: a\r\rdata: b\r\r", &["|a", "|b"]),
        ("data: a\r\n\ndata: b\n\r\n", &["|a", "|b"]),
        ("\u{feff}data: a\n\n", &["|a"]),
        ("data: a\n\n\u{feff}data: b\n\n", &["|a"]),
        (": ping\n\ndata:a\n: note\ndata:  b\n\n", &["|a\n b"]),
        ("event: delta\ndata: {\"x\":1}\n\ndata: y\n\n", &["delta|{\"x\":1}", "|y"]),
        ("event: ping\n\ndata: x\n\n", &["|x"]),
        ("event: one\nevent: two\ndata: x\n\n", &["two|x"]),
        ("data\n\n", &["|"]),
        ("data:\ndata:\n\n", &["|\n"]),
        ("id: 7\nretry: 10\nfield: x\ndata: Żółć 📜\n\n", &["|Żółć 📜"]),
        ("data: a:b\n\n", &["|a:b"]),
        ("data: whole\n\ndata: cut", &["|whole"]),
        ("data: whole\n\ndata: cut\n", &["|whole"]),
        ("\n\n\r\n\r", &[]),
        ("", &[]),
    ];

    #[test]
    fn events_are_read_and_every_split_gives_the_same_ones() {
        for (stream, expected) in STREAMS {
            let whole = told(stream.as_bytes());
            let words: Vec<String> =
                whole.0.iter().map(|(name, data)| format!("{name}|{data}")).collect();
            assert_eq!(words, *expected, "{stream:?}");
            assert_eq!(whole.1, None, "{stream:?}");
            every_split(stream.as_bytes(), Reader::default, &whole);
        }
    }

    fn every_split(stream: &[u8], reader: impl Fn() -> Reader, whole: &Told) {
        for at in 0..=stream.len() {
            let (head, tail) = stream.split_at(at);
            assert_eq!(&read(&mut reader(), &[head, tail]), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(&read(&mut reader(), &bytes), whole, "byte by byte");
    }

    #[test]
    fn the_end_of_a_line_is_found_wherever_it_is() {
        for len in 0..100 {
            let line = vec![b'x'; len];
            assert_eq!(line_end(&line), None);
            for end in [&b"\n"[..], b"\r", b"\r\n", b"\n\n"] {
                for after in [0, 1, 31, 32, 70] {
                    let bytes = [line.as_slice(), end, &vec![b'\n'; after]].concat();
                    assert_eq!(line_end(&bytes), Some(len));
                }
            }
        }
    }

    #[test]
    fn what_is_no_utf8_is_a_fault_after_the_events_before_it() {
        for bad in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x93"] {
            let stream = [b"data: good\n\ndata: ", bad, b"\n\n"].concat();
            let whole = told(&stream);
            assert_eq!(whole.1, Some(SseFault::NotText));
            assert_eq!(whole.0.len(), 1);
            every_split(&stream, Reader::default, &whole);
        }
    }

    #[test]
    fn events_and_streams_are_bounded_at_the_limit() {
        let cases: &[(&str, usize, usize, usize, Option<SseFault>)] = &[
            ("data: 1234\n\n", 10, 99, 1, None),
            ("data: 12345\n\n", 10, 99, 0, Some(SseFault::EventTooLong(10))),
            ("data: 12\ndata: 3\n\n", 10, 99, 1, None),
            ("data: 12\ndata: 345\n\n", 10, 99, 0, Some(SseFault::EventTooLong(10))),
            ("data: 123456789 and no end of line", 10, 99, 0, Some(SseFault::EventTooLong(10))),
            (": 1\n: 2\n: 3\n: 4\ndata: 1\n\n", 10, 99, 1, None),
            ("data: 1\n\ndata: 2\n\n", 10, 18, 2, None),
            ("data: 1\n\ndata: 2\n\n", 10, 17, 1, Some(SseFault::TooLong(17))),
            ("data: 1\n\ndata: 2\n\ndata: 3", 10, 18, 2, Some(SseFault::TooLong(18))),
        ];
        for (stream, event_max, total_max, events, fault) in cases {
            let reader = || Reader::bounded(*event_max, *total_max);
            let whole = read(&mut reader(), &[stream.as_bytes()]);
            assert_eq!((whole.0.len(), whole.1), (*events, *fault), "{stream:?}");
            every_split(stream.as_bytes(), reader, &whole);
        }
    }

    #[test]
    fn ids_and_waits_are_remembered() {
        let mut reader = Reader::default();
        assert_eq!((reader.last_id(), reader.retry_ms()), (None, None));
        read(&mut reader, &[b"id: 7\nretry: 250\ndata: \n\nretry: soon\nid: a\0b\ndata: x\n\n"]);
        assert_eq!((reader.last_id(), reader.retry_ms()), (Some("7"), Some(250)));
        read(&mut reader, &[format!("id: {}\n", "x".repeat(ID_BYTES_MAX + 1)).as_bytes()]);
        assert_eq!(reader.last_id(), Some("7"));
    }

    #[test]
    fn a_fault_of_whoever_takes_the_events_ends_the_reading() {
        let mut seen = 0;
        let told = Reader::default().read(b"data: a\n\ndata: b\n\n", |_| {
            seen += 1;
            Err(SseFault::NotText)
        });
        assert_eq!((told, seen), (Err(SseFault::NotText), 1));
    }
}

//! Decides what a line of a server's output is: bounded, whole, and text.

use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes of the end of a line that is too long, where its id may stand.
const PEEK_BYTES: usize = 256;

/// One line, or what stands in its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineRead<'a> {
    /// A line of text.
    Text(&'a str),
    /// A line that is no UTF-8.
    NotText(&'a [u8]),
    /// A line that is longer than anything that is taken; its begin and its end.
    TooLong { begin: Vec<u8>, end: Vec<u8> },
}

/// Reads lines. Giving up a wait loses nothing: what was read stays here.
pub(super) struct Lines<R> {
    from: R,
    bytes_max: usize,
    buffer: Vec<u8>,
    /// Where the line that is read now begins.
    start: usize,
    /// How far it was searched for its end.
    searched: usize,
    /// The begin and the end of a line that is thrown away as it comes.
    dropping: Option<(Vec<u8>, Vec<u8>)>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R, bytes_max: usize) -> Self {
        Self { from, bytes_max, buffer: Vec::new(), start: 0, searched: 0, dropping: None }
    }

    /// The next line that is not empty; nothing at the end. A line without its end is no line.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<LineRead<'_>>> {
        loop {
            if let Some(end) = self.end_of_line() {
                let begin = std::mem::replace(&mut self.start, end + 1);
                self.searched = self.start;
                if let Some(dropped) = self.dropping.take() {
                    return Ok(Some(self.dropped(dropped, begin..end)));
                }
                let line = self.buffer.get(begin..end).unwrap_or_default();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                if line.len() > self.bytes_max {
                    let kept = line.get(..self.bytes_max).unwrap_or(line).to_vec();
                    return Ok(Some(self.dropped((kept, Vec::new()), begin..end)));
                }
                // The borrow checker wants the range again.
                let line = self.buffer.get(begin..end).unwrap_or_default();
                return Ok(Some(match std::str::from_utf8(line) {
                    Ok(text) => LineRead::Text(text),
                    Err(_) => LineRead::NotText(line),
                }));
            }
            self.make_room();
            self.buffer.reserve(CHUNK_BYTES);
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn end_of_line(&mut self) -> Option<usize> {
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(at) => Some(self.searched + at),
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }

    /// Throws away what was read already, and what of an endless line cannot be kept.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.dropping.is_none() && self.buffer.len() > self.bytes_max {
            let begin = self.buffer.get(..self.bytes_max).unwrap_or(&self.buffer).to_vec();
            self.dropping = Some((begin, Vec::new()));
            let end = std::mem::take(&mut self.buffer);
            self.buffer.extend_from_slice(last(&end));
        }
        if let Some((_, tail)) = &mut self.dropping {
            keep_last(tail, &self.buffer);
            self.buffer.clear();
            self.searched = 0;
        }
    }

    fn dropped(
        &self,
        (begin, mut tail): (Vec<u8>, Vec<u8>),
        rest: std::ops::Range<usize>,
    ) -> LineRead<'_> {
        keep_last(&mut tail, self.buffer.get(rest).unwrap_or_default());
        LineRead::TooLong { begin, end: tail }
    }
}

fn last(bytes: &[u8]) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(PEEK_BYTES)..).unwrap_or_default()
}

fn keep_last(tail: &mut Vec<u8>, more: &[u8]) {
    tail.extend_from_slice(last(more));
    let surplus = tail.len().saturating_sub(PEEK_BYTES);
    tail.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &[u8], bytes_max: usize) -> Vec<String> {
        let mut lines = Lines::new(text, bytes_max);
        let mut told = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            told.push(match line {
                LineRead::Text(text) => text.to_owned(),
                LineRead::NotText(_) => "(not text)".to_owned(),
                LineRead::TooLong { begin, end } => {
                    assert!(begin.len() <= bytes_max);
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    format!("(too long) {} … {}", text(&begin[..5]), text(&end))
                }
            });
        }
        told
    }

    #[tokio::test]
    async fn lines_are_whole_and_text() {
        assert_eq!(all(b"a\n\n  \r\nb\xff\nc\nhalf", 10).await, ["a", "(not text)", "c"]);
        assert_eq!(all(b"", 10).await, [""; 0]);
    }

    #[tokio::test]
    async fn a_line_at_the_bound_is_read_and_one_above_it_is_thrown_away() {
        let max = CHUNK_BYTES;
        for (length, read) in [(max - 1, true), (max, true), (max + 1, false), (4 * max, false)] {
            let mut text = vec![b'A'; length];
            text.splice(0..5, *b"BEGIN");
            let at = text.len() - 3;
            text.splice(at.., *b"END");
            text.extend_from_slice(b"\nnext\n");
            let told = all(&text, max).await;
            assert_eq!(told.len(), 2);
            assert_eq!(!told[0].starts_with("(too long) BEGIN"), read, "{length}");
            assert!(told[0].ends_with("END"));
            assert!(told[0].len() < 1_000 || read);
            assert_eq!(told[1], "next");
        }
    }

    #[tokio::test]
    async fn an_endless_line_is_not_kept() {
        let text = vec![b'A'; 40 * CHUNK_BYTES];
        let mut lines = Lines::new(&text[..], CHUNK_BYTES);
        assert_eq!(lines.next().await.unwrap(), None);
        assert!(lines.buffer.capacity() <= 4 * CHUNK_BYTES, "{}", lines.buffer.capacity());
        assert!(lines.dropping.unwrap().0.len() <= CHUNK_BYTES);
    }
}

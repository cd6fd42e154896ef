//! Decides to which request a message belongs that is too long to be kept: its bytes are seen once.

use super::message::RequestId;

/// Bytes of a key or an id that are kept.
const KEPT_BYTES_MAX: usize = 256;

/// What was seen of one message so far. Only what stands at the top of it counts.
#[derive(Debug, Default)]
pub(super) struct Skim {
    depth: u64,
    in_text: bool,
    escaped: bool,
    /// The key or the value that is being read at the top.
    part: Vec<u8>,
    /// The key whose value is being read.
    key: Option<Vec<u8>>,
    has_method: bool,
    ids: Vec<Vec<u8>>,
}

impl Skim {
    /// Sees the next bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.see(*byte));
    }

    fn see(&mut self, byte: u8) {
        if self.in_text {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.part_ends();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key = Some(std::mem::take(&mut self.part)),
            b',' if self.depth == 1 => self.part_ends(),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => {
                self.in_text = byte == b'"';
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.part.len() <= KEPT_BYTES_MAX {
            self.part.push(byte);
        }
    }

    fn part_ends(&mut self) {
        let value = std::mem::take(&mut self.part);
        match self.key.take().as_deref() {
            Some(b"\"id\"") if self.ids.len() < 2 => self.ids.push(value),
            Some(b"\"method\"") => self.has_method = true,
            Some(_) | None => {}
        }
    }

    /// The id of the request, where it is one and has one. An answer to us waits for nothing.
    pub(super) fn id(&self) -> Option<RequestId> {
        let [id] = self.ids.as_slice() else { return None };
        let id = std::str::from_utf8(id).ok().filter(|id| id.len() <= KEPT_BYTES_MAX)?;
        RequestId::read(id).filter(|_| self.has_method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_of_a_request_counts() {
        let long = "x".repeat(300);
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"id":8}}"#.to_owned(), Some("7")),
            (
                r#"{"params":{"a":"}],\"id\":1","id":[2]}, "method" : "a", "id" : -3 }"#.into(),
                Some("-3"),
            ),
            (r#"{"method":"a","id":"a\"b"}"#.into(), Some(r#""a\"b""#)),
            (r#"{"id":7,"result":{"method":"a"}}"#.into(), None),
            (r#"{"id":7,"id":8,"method":"a"}"#.into(), None),
            (r#"{"id":{"id":7},"method":"a"}"#.into(), None),
            (r#"{"id":null,"method":"a"}"#.into(), None),
            (r#"[{"id":7,"method":"a"}]"#.into(), None),
            (r#"{"method":"a","params":{"id":7"#.into(), None),
            (format!(r#"{{"method":"a","id":"{long}"}}"#), None),
            (long.clone(), None),
        ] {
            let mut skim = Skim::default();
            for part in text.as_bytes().chunks(3) {
                skim.take(part);
            }
            assert_eq!(skim.id().as_ref().map(RequestId::as_json), id, "{text}");
        }
    }
}

//! Decides how records lie on their way to the log: one behind the other, in one piece of memory.

use toolgate_kernel::digest::Digest;

use super::Row;

/// Records that follow one another. Before each of them lies the chain hash that it follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Place of the first one.
    first: u64,
    /// A hash, a record, its hash, the next record, and so on.
    bytes: Vec<u8>,
    /// Where each record ends and its hash begins.
    ends: Vec<usize>,
}

/// A record where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Lying<'a> {
    /// Place in the stream.
    pub seq: u64,
    /// The bytes that were chained.
    pub bytes: &'a [u8],
    /// Chain hash up to and with this record.
    pub hash: Digest,
}

/// Bytes of a hash.
const HASH: usize = size_of::<Digest>();

/// Bytes that most appends fit in: a call of a few words is received, admitted and settled.
const ROOM: usize = 1_024;

impl Rows {
    /// None yet, with room for so many bytes.
    pub fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many bytes they take.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Puts a record at the end. It follows a hash; what comes before it must end with that. Tells
    /// the hash that the next one follows.
    pub fn add<E>(
        &mut self,
        seq: u64,
        follows: Digest,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Digest, E> {
        let before = self.bytes.len();
        if self.is_empty() {
            self.first = seq;
            self.bytes.reserve(ROOM);
            self.bytes.extend_from_slice(&follows.0);
        }
        let start = self.bytes.len();
        if let Err(refusal) = write(&mut self.bytes) {
            self.bytes.truncate(before);
            return Err(refusal);
        }
        let hash = Digest::link(follows, self.bytes.get(start..).unwrap_or_default());
        self.close(hash);
        Ok(hash)
    }

    /// Puts others behind these. They must follow them.
    pub fn extend(&mut self, others: &Self) {
        debug_assert!(others.first().is_none_or(|first| self.is_followed_by(first)));
        let (before, shift) = (self.bytes.len(), if self.is_empty() { 0 } else { HASH });
        if self.is_empty() {
            self.first = others.first;
        }
        self.bytes.extend_from_slice(others.bytes.get(shift..).unwrap_or_default());
        self.ends.extend(others.ends.iter().map(|end| before + end - shift));
    }

    /// Those from a place on.
    pub fn since(&self, seq: u64) -> impl Iterator<Item = Lying<'_>> {
        let skipped = usize::try_from(seq.saturating_sub(self.first)).unwrap_or(usize::MAX);
        (self.first..).zip(0..self.ends.len()).skip(skipped).filter_map(|(seq, at)| {
            let end = *self.ends.get(at)?;
            let start = at.checked_sub(1).and_then(|at| self.ends.get(at)).map_or(0, |end| *end);
            let bytes = self.bytes.get(start + HASH..end)?;
            Some(Lying { seq, bytes, hash: self.hash_at(end)? })
        })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Lying<'_>> {
        self.since(self.first)
    }

    /// Place and hash of the last one.
    pub fn last(&self) -> Option<(u64, Digest)> {
        let last = u64::try_from(self.ends.len()).ok()?.checked_sub(1)?;
        Some((self.first + last, self.hash_at(*self.ends.last()?)?))
    }

    /// Place of the first one.
    pub fn first(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.first)
    }

    fn is_followed_by(&self, seq: u64) -> bool {
        self.last().is_none_or(|(last, _)| last + 1 == seq)
    }

    fn hash_at(&self, at: usize) -> Option<Digest> {
        self.bytes.get(at..)?.first_chunk().copied().map(Digest)
    }

    fn close(&mut self, hash: Digest) {
        self.ends.push(self.bytes.len());
        self.bytes.extend_from_slice(&hash.0);
    }
}

/// Records as they were read, one right after the other. What the first one follows is not known,
/// and no log asks.
impl FromIterator<Row> for Rows {
    fn from_iter<I: IntoIterator<Item = Row>>(list: I) -> Self {
        let mut rows = Self::default();
        for row in list {
            debug_assert!(rows.is_followed_by(row.seq));
            if rows.is_empty() {
                rows.first = row.seq;
                rows.bytes.extend_from_slice(&Digest::ZERO.0);
            }
            rows.bytes.extend_from_slice(&row.bytes);
            rows.close(row.hash);
        }
        rows
    }
}

impl Lying<'_> {
    /// The same, on its own.
    pub fn to_row(self) -> Row {
        Row { seq: self.seq, bytes: self.bytes.to_vec(), hash: self.hash }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(rows: &mut Rows, seq: u64, follows: Digest, text: &str) -> Digest {
        let hash = rows.add(seq, follows, |bytes| {
            bytes.extend_from_slice(text.as_bytes());
            Ok::<_, ()>(())
        });
        hash.unwrap()
    }

    fn texts<'a>(list: impl Iterator<Item = Lying<'a>>) -> Vec<(u64, String)> {
        list.map(|row| (row.seq, String::from_utf8(row.bytes.to_vec()).unwrap())).collect()
    }

    #[test]
    fn rows_are_read_as_they_were_put_there_and_chained() {
        let (mut rows, start) = (Rows::default(), Digest::of(b"before"));
        let one = add(&mut rows, 7, start, "one");
        let none = add(&mut rows, 8, one, "");
        let three = add(&mut rows, 9, none, "three");
        assert_eq!(one, Digest::link(start, b"one"));
        assert_eq!(three, Digest::link(Digest::link(one, b""), b"three"));
        let all = [(7, "one".to_owned()), (8, String::new()), (9, "three".to_owned())];
        assert_eq!(texts(rows.iter()), all);
        assert_eq!((rows.first(), rows.last()), (Some(7), Some((9, three))));
        assert_eq!(rows.iter().map(|row| row.hash).collect::<Vec<_>>(), [one, none, three]);
        for (from, left) in [(0, 3), (7, 3), (9, 1), (10, 0), (u64::MAX, 0)] {
            assert_eq!(rows.since(from).count(), left, "from {from}");
        }
        let read: Rows = rows.iter().map(Lying::to_row).collect();
        assert_eq!(texts(read.iter()), all);
        assert_eq!(read.last(), rows.last());
    }

    #[test]
    fn rows_behind_others_are_read_as_if_put_there_one_by_one() {
        let (mut page, mut all, mut tip) = (Rows::with_room(10), Rows::default(), Digest::ZERO);
        for (at, texts) in [["a", "bc"], ["", "d"], ["ef", ""]].iter().enumerate() {
            let mut rows = Rows::default();
            for (text, seq) in texts.iter().zip(u64::try_from(2 * at).unwrap() + 1..) {
                add(&mut all, seq, tip, text);
                tip = add(&mut rows, seq, tip, text);
            }
            page.extend(&rows);
        }
        assert_eq!(page, all);
        page.extend(&Rows::default());
        assert_eq!(page, all);
    }

    #[test]
    fn a_refused_record_leaves_nothing_behind() {
        let mut rows = Rows::default();
        let one = add(&mut rows, 1, Digest::ZERO, "one");
        let before = rows.clone();
        let half = |bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(b"half");
            Err("no")
        };
        assert_eq!(rows.add(2, one, half), Err("no"));
        assert_eq!(rows, before);
        assert_eq!(add(&mut rows, 2, one, "two"), Digest::link(one, b"two"));
        let mut none = Rows::default();
        assert_eq!(none.add(1, one, half), Err("no"));
        assert!(none.is_empty() && none.iter().next().is_none() && none.last().is_none());
        assert_eq!(add(&mut none, 1, Digest::ZERO, "x"), Digest::link(Digest::ZERO, b"x"));
    }
}

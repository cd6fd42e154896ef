//! Decides which pictures can be shown to a model: their kind, their size, their hash.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::Image;
use toolgate_kernel::limits::Limits;

/// A picture with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    image: Image,
    bytes: Vec<u8>,
}

/// A picture that cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PictureRefusal {
    /// It is too long.
    #[error(
        "the picture has {bytes} bytes; at most {bytes_max} can be shown. Make it smaller, or \
         raise limits.picture_bytes_max"
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// What can be shown.
        bytes_max: u64,
    },
    /// It is of a kind that models do not read.
    #[error("this is no PNG, JPEG, GIF or WebP picture")]
    UnknownKind,
    /// There are too many at once.
    #[error(
        "{given} pictures are too many; at most {max} can be shown at once. Show fewer, or raise \
         limits.pictures_max"
    )]
    TooMany {
        /// How many were given.
        given: usize,
        /// How many can be shown.
        max: u64,
    },
}

impl Picture {
    /// Takes a picture for what its first bytes say it is.
    pub fn read(bytes: Vec<u8>, limits: &Limits) -> Result<Self, PictureRefusal> {
        let bytes_max = limits.picture_bytes_max;
        if u64::try_from(bytes.len()).is_ok_and(|bytes| bytes > bytes_max) {
            return Err(PictureRefusal::TooLong { bytes: bytes.len(), bytes_max });
        }
        let media_type = match bytes.as_slice() {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "image/png",
            [0xff, 0xd8, 0xff, ..] => "image/jpeg",
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
            _ => return Err(PictureRefusal::UnknownKind),
        };
        let image = Image { media_type: media_type.to_owned(), hash: Digest::of(&bytes) };
        Ok(Self { image, bytes })
    }

    /// Refuses more pictures than can be shown at once.
    pub(crate) fn count(pictures: &[Self], limits: &Limits) -> Result<(), PictureRefusal> {
        let (given, max) = (pictures.len(), limits.pictures_max);
        if u64::try_from(given).is_ok_and(|given| given > max) {
            return Err(PictureRefusal::TooMany { given, max });
        }
        Ok(())
    }

    /// What the log says of it.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// What the log says of it, and what is kept beside it.
    pub(crate) fn into_parts(self) -> (Image, Vec<u8>) {
        (self.image, self.bytes)
    }

    /// What the log says of pictures, and what is kept beside it.
    pub(crate) fn split(pictures: Vec<Self>) -> (Vec<Image>, Vec<(Digest, Vec<u8>)>) {
        let parts = pictures.into_iter().map(|picture| {
            let hash = picture.image.hash;
            (picture.image, (hash, picture.bytes))
        });
        parts.unzip()
    }
}

/// The pictures of an iteration that a driver holds, so that they are read once.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    iteration: u64,
    bytes: u64,
    shown: BTreeMap<Digest, Arc<[u8]>>,
    /// Those for which there was no room. They stay out, so that a request begins as the one
    /// before it.
    left_out: BTreeSet<Digest>,
}

impl Pictures {
    /// Forgets the pictures of another iteration; whether it did.
    pub(crate) fn begin(&mut self, iteration: u64) -> bool {
        let anew = self.iteration != iteration;
        if anew {
            *self = Self { iteration, ..Self::default() };
        }
        anew
    }

    /// Whether a picture was looked up before.
    pub(crate) fn holds(&self, hash: Digest) -> bool {
        self.shown.contains_key(&hash) || self.left_out.contains(&hash)
    }

    /// Keeps a picture, unless all of them together would be too long.
    pub(crate) fn keep(&mut self, hash: Digest, bytes: Vec<u8>, bytes_max: u64) {
        let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let together = self.bytes.saturating_add(more);
        if together > bytes_max {
            self.left_out.insert(hash);
        } else {
            self.bytes = together;
            self.shown.insert(hash, bytes.into());
        }
    }

    /// Those that can be shown.
    pub(crate) fn shown(&self) -> &BTreeMap<Digest, Arc<[u8]>> {
        &self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Picture, PictureRefusal> {
        Picture::read(bytes.to_vec(), &Limits { picture_bytes_max: 20, ..Limits::default() })
    }

    #[test]
    fn a_picture_is_what_its_bytes_say() {
        assert_eq!(read(b"\x89PNG\r\n\x1a\nrest").unwrap().image().media_type, "image/png");
        assert_eq!(read(b"RIFF\0\0\0\0WEBPVP8 ").unwrap().image().media_type, "image/webp");
        assert_eq!(read(b"<svg/>"), Err(PictureRefusal::UnknownKind));
    }

    #[test]
    fn a_picture_and_a_set_of_pictures_have_their_bounds() {
        let jpeg = |length: usize| [&[0xff, 0xd8, 0xff][..], &vec![0; length - 3]].concat();
        let fits = read(&jpeg(20)).unwrap();
        assert_eq!(read(&jpeg(21)), Err(PictureRefusal::TooLong { bytes: 21, bytes_max: 20 }));
        let limits = Limits { pictures_max: 2, ..Limits::default() };
        assert_eq!(Picture::count(&[fits.clone(), fits.clone()], &limits), Ok(()));
        let three = [fits.clone(), fits.clone(), fits];
        let refused = Picture::count(&three, &limits);
        assert_eq!(refused, Err(PictureRefusal::TooMany { given: 3, max: 2 }));
    }

    #[test]
    fn what_a_driver_holds_is_bounded_and_forgotten_with_its_iteration() {
        let hash = |byte: u8| Digest::of(&[byte]);
        let mut pictures = Pictures::default();
        assert!(pictures.begin(1));
        pictures.keep(hash(1), vec![0; 6], 10);
        pictures.keep(hash(2), vec![0; 5], 10);
        pictures.keep(hash(3), vec![0; 4], 10);
        let shown = |pictures: &Pictures| pictures.shown().keys().copied().collect::<BTreeSet<_>>();
        assert_eq!(shown(&pictures), BTreeSet::from([hash(1), hash(3)]));
        assert!(pictures.holds(hash(2)), "what was left out is not looked up again");
        assert!(!pictures.begin(1) && pictures.holds(hash(1)));
        assert!(pictures.begin(2) && !pictures.holds(hash(1)));
        pictures.keep(hash(2), vec![0; 10], 10);
        assert_eq!(shown(&pictures), BTreeSet::from([hash(2)]));
    }
}

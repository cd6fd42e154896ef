//! Decides which pictures can be shown to a model: their kind, their size, their hash.

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::Image;

/// Bytes of one picture.
pub const PICTURE_BYTES_MAX: usize = 5 << 20;

/// Pictures shown at once.
pub const PICTURES_MAX: usize = 16;

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
    #[error("the picture has {0} bytes; at most {PICTURE_BYTES_MAX} can be shown. Make it smaller")]
    TooLong(usize),
    /// It is of a kind that models do not read.
    #[error("this is no PNG, JPEG, GIF or WebP picture")]
    UnknownKind,
}

impl Picture {
    /// Takes a picture for what its first bytes say it is.
    pub fn read(bytes: Vec<u8>) -> Result<Self, PictureRefusal> {
        if bytes.len() > PICTURE_BYTES_MAX {
            return Err(PictureRefusal::TooLong(bytes.len()));
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

    /// What the log says of it.
    pub fn image(&self) -> &Image {
        &self.image
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_what_its_bytes_say() {
        let png = b"\x89PNG\r\n\x1a\nrest".to_vec();
        assert_eq!(Picture::read(png).unwrap().image().media_type, "image/png");
        let webp = b"RIFF\0\0\0\0WEBPVP8 ".to_vec();
        assert_eq!(Picture::read(webp).unwrap().image().media_type, "image/webp");
        assert_eq!(Picture::read(b"<svg/>".to_vec()), Err(PictureRefusal::UnknownKind));
        let long = vec![0xff; PICTURE_BYTES_MAX + 1];
        assert_eq!(Picture::read(long), Err(PictureRefusal::TooLong(PICTURE_BYTES_MAX + 1)));
    }
}

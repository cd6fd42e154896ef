//! Decides how a picture is written into a request: as base64, or in words where none can be shown.

use toolgate_kernel::event::Image;
use toolgate_kernel::plan::Plan;

use super::Options;

/// The bytes of a picture in base64; nothing when the model sees no pictures, or they are not there.
pub(super) fn shown(image: &Image, plan: &Plan, options: &Options) -> Option<String> {
    if !options.capabilities.images {
        return None;
    }
    plan.pictures.get(&image.hash).map(|bytes| base64(bytes))
}

/// The same as an address that holds the bytes themselves.
pub(super) fn address(image: &Image, plan: &Plan, options: &Options) -> Option<String> {
    let base64 = shown(image, plan, options)?;
    Some(format!("data:{};base64,{base64}", image.media_type))
}

/// What stands in the place of a picture that cannot be shown.
pub(super) fn in_words(image: &Image) -> String {
    format!("[a picture ({}) that cannot be shown here]", image.media_type)
}

/// Bytes in base64, padded.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| {
        let at = usize::try_from(bits & 63).unwrap_or(0);
        char::from(DIGITS.get(at).copied().unwrap_or(b'A'))
    };
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        out.push(digit(bits >> 18));
        out.push(digit(bits >> 12));
        out.push(if group.len() > 1 { digit(bits >> 6) } else { '=' });
        out.push(if group.len() > 2 { digit(bits) } else { '=' });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_the_standard_says() {
        let table: &[(&[u8], &str)] = &[
            (b"", ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (&[0xff, 0xfe, 0xfb, 0xef], "//777w=="),
        ];
        for (bytes, text) in table {
            assert_eq!(base64(bytes), *text);
        }
    }
}

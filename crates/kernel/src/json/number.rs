//! Decides how a whole number is written. Its digits are put together in one word and stored in one
//! go: digits that were stored one by one a moment ago are slow to copy, and a record has many.

/// What eight digits can say.
const EIGHT: u64 = 100_000_000;

/// Appends a number.
pub(crate) fn write_number(number: u64, out: &mut Vec<u8>) {
    let (rest, low) = (number / EIGHT, number % EIGHT);
    if rest == 0 {
        return write_short(low, out);
    }
    if rest < EIGHT {
        write_short(rest, out);
    } else {
        write_short(rest / EIGHT, out);
        out.extend_from_slice(&written(rest % EIGHT));
    }
    out.extend_from_slice(&written(low));
}

/// Appends a number that may be below zero.
pub(crate) fn write_signed(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    write_number(number.unsigned_abs(), out);
}

/// Appends a number of at most eight digits without zeros before it.
fn write_short(number: u64, out: &mut Vec<u8>) {
    let digits = digits(number);
    // The last digit is written in any case.
    let zeros = (digits.trailing_zeros() / 8).min(7);
    let end = out.len() + 8 - usize::try_from(zeros).unwrap_or(0);
    out.extend_from_slice(&(ascii(digits) >> (8 * zeros)).to_le_bytes());
    out.truncate(end);
}

/// A number of at most eight digits, with zeros before it.
fn written(number: u64) -> [u8; 8] {
    ascii(digits(number)).to_le_bytes()
}

fn ascii(digits: u64) -> u64 {
    digits | 0x3030_3030_3030_3030
}

/// Eight digits, one in each byte, the first one in the lowest: halves, then quarters, then digits,
/// all at once.
fn digits(number: u64) -> u64 {
    let halves = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((halves - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - tens * 10) << 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(number: u64) -> String {
        let mut out = b"x".to_vec();
        write_number(number, &mut out);
        String::from_utf8(out.split_off(1)).unwrap()
    }

    #[test]
    fn every_length_is_written() {
        let mut power = 1_u64;
        for _ in 0..20 {
            for n in [power - 1, power, power + 1, power.saturating_mul(9)] {
                assert_eq!(number(n), n.to_string());
            }
            power = power.saturating_mul(10);
        }
        assert_eq!(number(u64::MAX), u64::MAX.to_string());
        for n in [0, 1, -1, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_signed(n, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), n.to_string());
        }
        (0..100_000).for_each(|n| assert_eq!(number(n), n.to_string()));
    }

    proptest! {
        #[test]
        fn any_number_is_written(n: u64, shift in 0_u32..64) {
            prop_assert_eq!(number(n >> shift), (n >> shift).to_string());
        }
    }
}

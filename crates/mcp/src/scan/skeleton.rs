//! Decides which plain letters a text is taken for by whoever reads it, so that words are found
//! however they are dressed up.

/// Letters that look like a plain one, or are one with something on it.
const LIKE: &[(char, &str)] = &[
    ('a', "аαᴀɑӑӓàáâãäåāăąǎǟǡǻȁȃȧḁạảấầẩẫậắằẳẵặ"),
    ('b', "ьЬвВβʙḃḅḇƀɓ"),
    ('c', "сϲᴄçćĉċčḉƈ"),
    ('d', "ԁⅾᴅďđḋḍḏḑḓɗ"),
    ('e', "еєҽᴇɛèéêëēĕėęěȅȇȩḕḗḙḛḝẹẻẽếềểễệѐё"),
    ('f', "ғϝḟƒꜰ"),
    ('g', "ɡɢցĝğġģǥǧǵḡ"),
    ('h', "һհнʜĥħȟḣḥḧḩḫẖ"),
    ('i', "іιɩıɪӏїìíîïĩīĭįǐȉȋḭḯỉịⅰꙇ"),
    ('j', "јϳᴊĵǰʝ"),
    ('k', "кκᴋķǩḱḳḵƙ"),
    ('l', "ⅼʟłĺļľḷḹḻḽƚɫ"),
    ('m', "мⅿᴍḿṁṃ"),
    ('n', "ոпηɴñńņňǹṅṇṉṋŋ"),
    ('o', "оοσօᴏòóôõöøōŏőơǒǫǭǿȍȏȫȭȯȱṍṏṑṓọỏốồổỗộớờởỡợӧ"),
    ('p', "рρᴘṕṗƥ"),
    ('q', "ԛզ"),
    ('r', "гʀŕŗřȑȓṙṛṝṟ"),
    ('s', "ѕꜱśŝşšșṡṣṥṧṩ"),
    ('t', "тτᴛţťŧțṫṭṯṱẗ"),
    ('u', "υսᴜùúûüũūŭůűųưǔǖǘǚǜȕȗṳṵṷṹṻụủứừửữự"),
    ('v', "ѵνᴠṽṿⅴ"),
    ('w', "ԝωᴡŵẁẃẅẇẉẘ"),
    ('x', "хχҳẋẍⅹ"),
    ('y', "уγʏýÿŷȳẏẙỳỵỷỹўӯ"),
    ('z', "ᴢźżžẑẓẕƶ"),
];

/// Capitals that look like one, where the small letter does not.
const LIKE_CAPITAL: &[(char, &str)] = &[
    ('A', "АΑ"),
    ('B', "Β"),
    ('C', "СϹ"),
    ('E', "ЕΕ"),
    ('H', "НΗ"),
    ('I', "ІΙӀ"),
    ('J', "Ј"),
    ('K', "КΚ"),
    ('M', "МΜ"),
    ('N', "Ν"),
    ('O', "ОΟ"),
    ('P', "РΡ"),
    ('S', "Ѕ"),
    ('T', "ТΤ"),
    ('V', "Ѵ"),
    ('X', "ХΧ"),
    ('Y', "ҮΥУ"),
    ('Z', "Ζ"),
];

/// Marks that stand over, under or across the letter before them. Marks that some scripts are
/// written with are none of these.
pub(super) fn is_mark(c: char) -> bool {
    matches!(u32::from(c),
        0x300..=0x36f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe20..=0xfe2f)
}

/// The text in plain letters, as far as its letters look like them; the marks are gone.
pub(crate) fn skeleton(text: &str) -> String {
    text.chars().filter(|c| !is_mark(*c)).map(plain).collect()
}

fn plain(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    if let Some(plain) = styled(c) {
        return plain;
    }
    let of = |table: &[(char, &str)], c: char| {
        table.iter().find(|(_, like)| like.contains(c)).map(|(plain, _)| *plain)
    };
    let small = || c.to_lowercase().next().and_then(|small| of(LIKE, small));
    of(LIKE_CAPITAL, c).or_else(|| of(LIKE, c)).or_else(small).unwrap_or(c)
}

/// Letters of alphabets that are the plain one in another dress.
fn styled(c: char) -> Option<char> {
    let code = u32::from(c);
    let at = |start: u32| u8::try_from((code - start) % 26).ok().map(|at| char::from(b'a' + at));
    match code {
        0xff21..=0xff3a => at(0xff21),
        0xff41..=0xff5a => at(0xff41),
        0x24b6..=0x24cf => at(0x24b6),
        0x24d0..=0x24e9 => at(0x24d0),
        0x1_d400..=0x1_d6a3 => at(0x1_d400),
        0x1_f130..=0x1_f149 => at(0x1_f130),
        0x1_f150..=0x1_f169 => at(0x1_f150),
        0x1_f170..=0x1_f189 => at(0x1_f170),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_taken_for_what_they_look_like() {
        for (dressed, bare) in [
            ("i\u{336}g\u{336}n\u{336}o\u{336}r\u{336}e\u{336}", "ignore"),
            ("Ígnóre prévìous", "ignore previous"),
            ("\u{456}gn\u{43e}r\u{435}", "ignore"),
            ("ѕесrеt", "secret"),
            ("ɪɢɴᴏʀᴇ", "ignore"),
            ("\u{1d4d8}\u{1d4f0}\u{1d4f7}\u{1d4f8}\u{1d4fb}\u{1d4ee}", "ignore"),
            ("\u{ff29}\u{ff27}NORE", "igNORE"),
            ("\u{24d8}\u{24d6}nore", "ignore"),
            ("ІGNОRЕ", "IGNORE"),
            ("天気 ok", "天気 ok"),
        ] {
            assert_eq!(skeleton(dressed), bare, "{dressed}");
        }
    }

    #[test]
    fn no_letter_stands_for_two() {
        let all: Vec<char> = LIKE.iter().flat_map(|(_, like)| like.chars()).collect();
        let each: std::collections::BTreeSet<&char> = all.iter().collect();
        assert_eq!(each.len(), all.len());
        assert!(all.iter().all(|c| !c.is_ascii()));
    }
}

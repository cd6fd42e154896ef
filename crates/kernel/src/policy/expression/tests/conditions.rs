//! Tables of conditions and their answers.

use serde_json::json;

use super::check;

#[test]
fn numbers_keep_their_type_and_compare_by_value() {
    check(
        &json!({ "n": 3, "f": 2.5, "big": 9_007_199_254_740_993_i64, "huge": u64::MAX, "low": i64::MIN }),
        &[
            ("args.n == 3", true),
            ("args.n == 3u && args.n == 3.0", true),
            ("args.n + 1 == 4 && args.n * 2 - 1 == 5", true),
            ("args.n / 2 == 1 && args.n % 2 == 1 && -args.n == -3", true),
            ("args.f > 2 && args.f < 3 && 2 < args.f", true),
            ("args.f + 0.5 == 3", true),
            ("args.big == 9007199254740993", true),
            ("args.big == 9007199254740992", false),
            ("args.big == 9007199254740992.0", false),
            ("args.big > 9007199254740992.0", true),
            ("args.huge == 18446744073709551615u", true),
            ("args.huge > 9223372036854775807", true),
            ("args.huge < 18446744073709551616.0", true),
            ("args.low == -9223372036854775808", true),
            ("args.low >= -9223372036854775808.0 && args.low < -9223372036854775807", true),
            ("0x10 == 16 && 1e3 == 1000", true),
            ("--args.n == 3", true),
            ("1 - 2 - 3 == -4 && 2 + 3 * 4 == 14 && (2 + 3) * 4 == 20", true),
            ("-0.5 < 0 && -0.5 > -1 && -0.0 == 0", true),
        ],
    );
}

#[test]
fn texts_compare_search_and_count() {
    check(
        &json!({ "s": "Grüße aus Köln", "url": "http://example.org", "n": "12", "z": "a\u{0}b" }),
        &[
            ("args.s.size() == 14 && size(args.s) == 14", true),
            ("words(args.s) == 3 && words('') == 0 && words('  a \\t b\\n') == 2", true),
            ("words('a\\u00a0b\\u2003c') == 3 && words('日本語 テキスト') == 2", true),
            ("args.url.startsWith('http://') && args.url.endsWith('.org')", true),
            ("args.url.contains('ample') && !args.url.contains('AMPLE')", true),
            ("args.url.upperAscii().lowerAscii() == args.url", true),
            ("args.s.upperAscii() == 'GRüßE AUS KöLN'", true),
            ("'a' < 'b' && 'Z' < 'a' && 'a' <= 'a' && 'ä' > 'z'", true),
            ("args.s + '!' == 'Grüße aus Köln!'", true),
            ("args.s == \"Gr\\u00fc\\u00dfe aus Köln\"", true),
            ("args.z == 'a\\x00b' && args.z.size() == 3", true),
            ("r'\\d' == '\\\\d' && '''it's''' == \"it's\"", true),
            ("'(((((((((((((((((((((((((((((((((((' != '||||||||'", true),
            ("int(args.n) == 12 && double(args.n) == 12 && uint(args.n) == 12u", true),
            ("string(12) == args.n && string(true) == 'true' && string(1.5) == '1.5'", true),
            ("int(2.9) == 2 && int(-2.9) == -2 && double(3) == 3.0", true),
        ],
    );
}

#[test]
fn patterns_match_anywhere_unless_anchored() {
    check(
        &json!({ "path": "notes/ch-01.md", "long": "a".repeat(100_000) + "!" }),
        &[
            ("args.path.matches('ch-[0-9]+')", true),
            ("args.path.matches('^ch')", false),
            ("matches(args.path, r'^notes/[\\w-]+\\.md$')", true),
            ("args.path.matches('(?i)NOTES')", true),
            ("args.long.matches('(a+)+$')", false),
            ("'köln'.matches('^k.ln$')", true),
        ],
    );
}

#[test]
fn presence_null_and_equality() {
    check(
        &json!({ "a": { "b": 1 }, "none": null, "list": [1, "x", null], "empty": {} }),
        &[
            ("has(args.a)", true),
            ("has(args.a.b) && !has(args.a.c) && !has(args.zzz)", true),
            ("has(args.none) && args.none == null", true),
            ("args.a != null && args.empty == {}", true),
            ("args.a == {'b': 1} && args.a == {'b': 1.0}", true),
            ("args.a == {'b': 2}", false),
            ("args.a == {'c': 1}", false),
            ("args.list == [1, 'x', null]", true),
            ("args.list != [1, 'x']", true),
            ("1 == '1'", false),
            ("1 != '1' && null != false && [] != {}", true),
            ("!has(args.zzz) || args.zzz > 5", true),
            ("{'k': 1}.k == 1 && {1: 'a'}[1] == 'a' && {true: 2}[true] == 2", true),
        ],
    );
}

#[test]
fn membership_and_index() {
    check(
        &json!({ "tags": ["a", "b"], "map": { "a": 1, "b-c": 2 }, "k": "b-c" }),
        &[
            ("'a' in args.tags && !('z' in args.tags)", true),
            ("'a' in args.map && !('z' in args.map) && !(1 in args.map)", true),
            ("phase in ['draft', 'edit'] && tool in ['write_section']", true),
            ("1 in [1.0, 'x'] && !(1 in ['1'])", true),
            ("args.tags[0] == 'a' && args.tags[1u] == 'b' && args.tags[1.0] == 'b'", true),
            ("args.map['b-c'] == 2 && args.map[args.k] == 2", true),
            ("[[1, 2], [3]][1][0] == 3", true),
            ("(args.tags + ['c'])[2] == 'c' && size(args.tags + []) == 2", true),
        ],
    );
}

#[test]
fn logic_lets_the_deciding_side_win() {
    check(
        &json!({ "yes": true, "no": false, "n": 1 }),
        &[
            ("args.yes || args.missing", true),
            ("args.missing || args.yes", true),
            ("args.no && args.missing", false),
            ("args.missing && args.no", false),
            ("args.n || true", true),
            ("1 / 0 == 1 || true", true),
            ("args.no || args.yes && !args.no", true),
            ("args.yes ? args.n == 1 : args.missing", true),
            ("args.no ? args.missing : args.n == 1", true),
            ("args.no ? 1 == 2 : args.no ? 3 == 4 : 5 == 5", true),
            ("!args.no && !!args.yes", true),
            ("false < true", true),
        ],
    );
}

#[test]
fn comprehensions_visit_lists_and_keys() {
    check(
        &json!({ "l": [1, 2, 3], "m": { "a": 1, "b": 2 }, "mixed": [1, "x"], "none": [] }),
        &[
            ("args.l.all(x, x > 0)", true),
            ("args.l.all(x, x > 1)", false),
            ("args.l.exists(x, x == 2)", true),
            ("args.l.exists(x, x == 9)", false),
            ("args.l.exists_one(x, x > 2) && args.l.existsOne(x, x == 1)", true),
            ("args.l.exists_one(x, x > 1)", false),
            ("args.l.filter(x, x > 1) == [2, 3]", true),
            ("args.l.map(x, x * 2) == [2, 4, 6]", true),
            ("args.l.map(x, x > 1, x * 2) == [4, 6]", true),
            ("args.none.all(x, x) && !args.none.exists(x, x)", true),
            ("args.m.all(k, args.m[k] > 0) && args.m.exists(k, k == 'b')", true),
            ("args.l.filter(x, x > 1).map(y, y + 1).all(z, z > 2)", true),
            ("args.l.all(x, x > 0) && args.l.exists(x, x > 2)", true),
            ("args.l.exists(args, args == 3) && args.l.size() == 3", true),
            ("args.mixed.exists(x, x > 0)", true),
            ("args.mixed.all(x, x > 1)", false),
            ("args.l.all(x, has(args.m.a) && x in args.l)", true),
        ],
    );
}

#[test]
fn comments_and_line_breaks_are_allowed() {
    check(
        &json!({ "n": 1 }),
        &[("args.n == 1 // (((\n  && true", true), ("\targs.n\r\n== 1", true)],
    );
}

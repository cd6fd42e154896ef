// Writes and checks the answers of a JavaScript engine to patterns of JSON Schema.
//
//   node patterns.mjs generate > cases.jsonl    writes the cases with the engine's answers
//   node patterns.mjs answer   < cases.jsonl    answers the same cases again, one line each
//
// A line is {"pattern", "flags", "subjects", "matches"}: flags is "u" where the pattern is valid
// with the flag, "" where it is valid only without it, and null where it is not valid at all.
import { readFileSync } from "node:fs";

// Nothing that depends on the engine's version: `(?i:a)` and a name in two alternatives are newer
// than some, and `tests/it/patterns.rs` says that both are refused.
const WRITTEN = [
  // Plain text, and characters that other engines read as syntax.
  "", "a", "abc", "^a", "a$", "^a$", "^$", "^", "$", "$^", "a^", "$a", "a#b", "a b", "# a", "a # b",
  "a/b", "a\\/b", "<a>", "a&&b", "a--b", "a~~b", "é", "^é$", "😀", "^😀$", "\n", "\t", "\u2028", "a\nb",
  "-", "~", "&", "!", "%", "@", ":", "=", ",", "\"", "'", "`", ";", "^-$", "_",
  // Alternatives and groups.
  "a|b", "^a|b$", "^(a|b)$", "^(?:a|b)$", "|", "a|", "|a", "^(|a)$", "()", "(?:)", "^()$", "((a))",
  "^(a(b(c)))$", "^(?<name>a)$", "(?<a1>a)(?<b_>b)", "(?<$x>a)", "(?<n>a)(?<n>b)",
  "(?<1>a)", "(?<>a)", "(?<n", "(?<é>a)", "(?P<n>a)", "(?P=n)", "(?'n'a)", "(?#a)", "(?>a)", "(?|a)",
  "(?i)a", "(?x)a b", "(?x:a b)", "(?s).", "(?m)^a", "(?U)a", "(?u)a", "(?R)a",
  "(?-u:a)", "(?:a", "(a", "a)", "(", ")", "(?", "(?:", "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b",
  "^(?!.*\\.\\.)[a-z.]+$", "(?=a)*", "(?:a)(?:b)", "^(?:ab|a)(?:c|bc)$",
  // Quantifiers.
  "a*", "a+", "a?", "^a*$", "^a+$", "^a?$", "a*?", "a+?", "a??", "^a{2}$", "^a{2,}$", "^a{2,3}$", "^a{0}$",
  "^a{0,0}$", "^a{0,}$", "^a{1,2}?$", "^a{2}?$", "^a{01}$", "a{3,2}", "a{,2}", "a{,}", "a{}", "a{", "a}", "{", "}",
  "a{b}", "a{2", "a{2,", "a{ 2}", "a{2, 3}", "x{1}{2}", "a**", "a+*", "a?+", "a*+", "a++", "a???", "*a", "+", "?",
  "{2}", "(*a)", "(+)", "(|*)", "a|*", "^*", "$?", "\\b+", "\\B{2}", "^{2}", "(?:^)*a", "^(a*)*$", "^(a+)+$",
  "^(?:a?)*$", "^(?:a|b)*?$", "^(ab){2}$", "^😀{2}$", "^é+$", "^(?:a{2}){2}$", "a{4294967296}", "^.{3}$",
  // The dot and line ends.
  ".", "^.$", "^.*$", "^.+$", "a.b", "^..$", "\\.", "^\\.$", "[.]", "^a\\nb$", "^[^\\n]+$", "^\\n$", "^\\r\\n$",
  // Word boundaries, which are those of ASCII.
  "\\ba", "a\\b", "\\bword\\b", "^\\b", "\\b$", "\\bé", "é\\b", "\\B", "^\\B", "a\\B", "\\Bé\\B", "a\\b-", "^\\Ba",
  "[\\b]", "^[\\b]$", "[\\B]", "\\b{start}", "\\b{end}a", "\\<a", "\\>a", "^\\ba\\b$", "\\ba\\Bb", "^\\B$",
  // Classes, with what other engines read as operations on sets.
  "[abc]", "[^abc]", "^[abc]+$", "^[^abc]+$", "[]", "[^]", "^[^]$", "^[^]*$", "[]a]", "[^]a]", "a[]", "a|[]", "[a", "[",
  "]", "a]", "[]]", "[\\]]", "^[\\]]$", "^[^\\]]$", "[[]", "^[[]$", "^[[a]+$", "[[a]]", "^[[a]b]$", "[a[b]c]", "[[:alpha:]]",
  "^[[:alpha:]]$", "[[^a]]", "^[^;&&|]+$", "^[^;&|]+$", "[&&]", "^[a&&b]$", "^[a&&]+$", "^[&&a]+$", "^[a-z&&[aeiou]]$",
  "^[a-z&&aeiou]+$", "[a--b]", "^[a--]$", "^[+--]+$", "[--a]", "^[--/]+$", "^[a-]+$", "^[-a]+$", "^[a\\-z]+$", "^[\\-]$",
  "[-]", "[--]", "^[---]$", "^[a-c-e]+$", "^[a-c--]+$", "[a~~b]", "^[a~~b]+$", "^[~~]+$", "^[^~~a]+$", "^[a^]+$", "^[^^]+$",
  "^[\\^a]+$", "[^^]", "^[^^^]$", "^[a b]+$", "^[ #]+$", "[a-z", "[z-a]", "[a-a]", "^[a-a]$", "^[!-~]+$", "^[ -~]*$", "^[.]$",
  "^[.*+?]+$", "^[(){}]+$", "^[$^]+$", "^[|]$", "^[/]$", "^[\\/]$", "[\\d-x]", "[a-\\d]", "[\\w-]", "^[\\w-]+$", "[\\w-.]",
  "[-\\w]", "^[\\w.-]+$", "[\\s-a]", "[\\d-\\w]", "^[😀]$", "^[^😀]$", "^[😀-😂]$", "^[a😀]+$", "^[é-ü]$", "^[^a]$", "^[^a]{2}$",
  "[\\n]", "^[^\\n\\r]$", "[\\t ]", "^[\\0]$", "^[\\x41-\\x43]$", "^[\\u0041-\\u0043]$", "^[\\u{41}-\\u{43}]$", "[\\cA]",
  "^[\\uD83D\\uDE00]$", "[\\uD83D]", "^[\\uD800-\\uDFFF]$", "^[^\\uD800-\\uDFFF]+$", "^[\\u0000-\\uFFFF]$", "^[\\uD800-\\uFFFF]+$",
  "^[\\u0000-\\uD83D]+$", "^[\\u{10000}-\\u{10FFFF}]+$", "^[\\s\\S]*$", "^[\\d\\D]$", "^[^\\s\\S]$", "^[^\\w\\W]*$", "^[^\\d\\s]+$",
  "^[\\D]$", "^[^\\D]+$", "^[\\W_]+$", "^[^\\W_]+$", "^[^\\S ]+$", "^[\\S\\n]+$", "[\\c]", "[\\c1]", "[\\1]", "[\\8]", "[\\k]", "[\\p]",
  // Escapes for sets of characters.
  "\\d", "^\\d+$", "\\D", "^\\D+$", "\\w", "^\\w+$", "\\W", "^\\W+$", "\\s", "^\\s+$", "\\S", "^\\S+$", "^\\w$", "^\\W$", "^\\s$", "^\\S$",
  "^\\d{4}-\\d{2}$", "^\\D\\d$", "\\h", "\\H", "\\R", "\\X", "\\N", "\\K", "\\G", "\\A", "\\Aa", "\\z", "a\\z", "\\Z", "\\Q", "\\Qa\\E", "\\E", "\\a", "\\e",
  "\\l", "\\L", "\\U", "\\i", "\\y", "\\Y", "\\o{141}", "\\g1", "\\C", "\\m", "\\j",
  // Escapes for one character.
  "\\0", "^\\0$", "\\00", "\\01", "\\1", "(a)\\1", "\\2(a)(b)", "\\8", "\\9", "\\10", "\\377", "\\k<n>", "(?<n>a)\\k<n>", "\\k", "\\k<n",
  "\\cA", "^\\cJ$", "^\\cj$", "\\c", "\\c1", "\\c_", "\\x41", "^\\x41$", "\\x4", "\\x", "\\x{41}", "\\xg1", "\\u0041", "^\\u0041$", "\\u004", "\\u",
  "\\u{41}", "^\\u{1F600}$", "\\u{110000}", "\\u{}", "\\u{41", "\\u{ 41}", "\\u{000041}", "\\U0001F600", "^\\uD83D\\uDE00$", "^\\uD83D$", "^\\uDE00$",
  "\\uD83D", "\\uDE00\\uD83D", "^\\uD83D\\u{DE00}$", "^\\u{D83D}\\u{DE00}$", "^\\u{D83D}\\uDE00$", "^\\uD83Da$", "^(?:\\uD83D\\uDE00)+$", "^\\uD83D\\uDE00+$",
  "^\\ud83d\\ude00$", "a|\\uD83D", "^\\t$", "^\\v$", "^\\f$", "^\\r$", "\\\\", "^\\\\$", "\\^", "\\$", "\\*", "\\+", "\\?", "\\(", "\\)", "\\[", "\\]", "\\{",
  "\\}", "\\|", "\\/", "^\\{\\}$", "^\\[a\\]$", "a\\", "\\", "[\\", "[\\]", "\\-", "^a\\-b$", "\\_", "\\@", "^a\\@b$", "\\#", "\\:", "\\ ", "\\%", "\\!", "\\,", "\\;", "\\=",
  "\\&", "\\~", "\\'", "\\\"", "\\`", "\\<", "\\é", "\\😀", "[\\@]", "^[a\\@]+$", "^[\\w\\:]+$", "^[\\_]+$", "^[^\\@]+$", "^.\\-.$", "^\\W\\@$", "\\@\\B", "^\\@[^a]$",
  "^\\:\\uD83D$", "^\\:😀$", "^\\:[a-z]*$", "^\\#[0-9a-f]{6}$", "^\\-?\\d+$", "^\\@\\p{L}$", "^[\\@-\\C]$", "^[\\!-\\~]+$",
  // Unicode properties.
  "\\p{L}", "^\\p{L}+$", "^\\P{L}+$", "^\\p{Lu}$", "^\\p{Ll}$", "^\\p{Letter}+$", "^\\p{Uppercase_Letter}$", "^\\p{Lowercase_Letter}+$", "^\\p{N}+$",
  "^\\p{Nd}+$", "^\\p{Number}$", "^\\p{P}$", "^\\p{Punctuation}$", "^\\p{S}$", "^\\p{Symbol}$", "^\\p{Z}$", "^\\p{Zs}$", "^\\p{M}$", "^\\p{Mn}$",
  "^\\p{gc=L}$", "^\\p{General_Category=Letter}$", "^\\p{General_Category=Lu}$", "^\\p{Alphabetic}+$", "^\\p{Alpha}+$", "^\\p{White_Space}$", "^\\p{Uppercase}$",
  "^\\p{Lowercase}$", "^\\p{ASCII}+$", "^\\P{ASCII}+$", "^\\p{Any}$", "^\\p{Script=Latin}+$", "^\\p{sc=Greek}+$", "^\\p{Script=Cyrillic}+$", "^\\p{Script=Han}+$",
  "^\\p{Script=Hiragana}+$", "^\\p{sc=Grek}$", "^\\p{Script_Extensions=Latin}$", "^\\p{scx=Greek}$", "^[\\p{L}\\p{N}_-]+$", "^[^\\p{L}]+$", "^[\\P{L}]+$",
  "^[^\\P{L}]+$", "^[\\p{Lu}0-9]+$", "^\\p{Emoji}$", "^\\p{Emoji_Presentation}$", "^\\p{ID_Start}$", "^\\p{XID_Continue}$", "^\\p{Cn}$", "^\\p{C}$", "^\\p{Cc}$",
  "\\pL", "\\p", "\\p{", "\\p{}", "\\p{l}", "\\p{letter}", "\\p{ L}", "\\p{L }", "\\p{^L}", "\\p{Latin}", "\\p{Greek}", "\\p{IsLatin}", "\\p{InBasic_Latin}", "\\p{L&}",
  "\\p{LC}", "\\p{script=latin}", "\\p{Script=latin}", "\\p{Script:Latin}", "\\p{gc!=L}", "\\p{alpha}", "\\p{digit}", "\\p{space}", "\\p{word}", "\\p{upper}",
  "\\p{RGI_Emoji}", "\\P", "[\\p{L}-z]", "[a-\\p{L}]", "^[\\p{L}-]+$", "\\p{Age=6.0}", "\\p{Uppercase Letter}", "\\p{uppercase_letter}",
  // Patterns as tools declare them.
  "^[a-zA-Z0-9_-]{1,64}$", "^[^/\\\\]+$", "^(\\d{3})-(\\d{4})$", "^https?://[^\\s/$.?#].[^\\s]*$", "^#[0-9a-fA-F]{6}$", "^\\S+@\\S+\\.\\S+$",
  "^([0-9]{1,3}\\.){3}[0-9]{1,3}$", "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z$", "^[A-Z]{3}$", "^(?:[a-z0-9]+-)*[a-z0-9]+$", "^(main|test|dev)$",
  "^[\\w.+-]+@[\\w-]+\\.[\\w.]+$", "^\\/(?:[^\\/]+\\/)*[^\\/]*$", "^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)$", "^[0-9a-f]{8}-[0-9a-f]{4}$", "^[^\\x00-\\x1F\\x7F]*$",
  "^[^\\u0000-\\u001F]+$", "^\\s*$", "^\\s*\\S[\\s\\S]*$", "\\.(js|ts)$", "^\\$\\{\\w+\\}$", "^[^;&|`$<>]*$", "^(?!-)[a-z]+$", "^--?[a-z]+$", "^\\.{1,2}/",
];

const SUBJECTS = [
  "", "a", "b", "ab", "abc", "aa", "aaa", "aaaa", "A", "z", "é", "ü", "aé", "éa", "😀", "😀😀", "a😀a", "😁", "ß", "Ω", "я", "中", "あ", "ﬁ", "ǅ", "٣", "3", "42", "2024-01",
  "_", "-", "--", "a-b", "a--b", "a-", "--output", "&", "&&", "a&&b", "~", "~~", "a~~b", "^", "a^", "[", "]", "[]", "[a]", "[a", "a]", "a]]", "e]", ":", ":]", "a:", "|", ";",
  "ls; rm -rf /", "ls && rm", "(", ")", "{", "}", "{}", "a{2}", "a{,2}", ".", "..", "../x", "a.b", "a\nb", "a\n", "\n", "\r\n", "\r", "\t", "\u000b", "\f", "\b", "\0", "\u0001",
  "\u0085", "\u00a0", "\u1680", "\u180e", "\u2003", "\u2028", "\u2029", "\u202f", "\u3000", "\ufeff", "\u200b", " ", "  ", "a b", " a", "# a", "#a", "#00ff00", "/", "\\", "a/b", "a\\b", "$", "$a",
  "${ab}", "<a>", "@", "a@b", "a@b.c", "a:b", "-1", "!", "%", ",", "=", "'", "\"", "`", "*", "+", "?", "a*", "k", "p", "pL", "d", "w", "word", "two words", "xwordx", "h", "Z", "u0041", "x41", "e\u0301",
  "\u0301", "Ⅷ", "½", "€", "…", "_a", "a1", "A1_b-2", "main", "main\n", "https://x.y/z", "127.0.0.1", "\ue000", "\uffff", "\u{10ffff}", "\ud7ff", ":a", ":😀", "@é", "@B", "C",
];

// Every pair of a piece and a frame, so that a mistake in one is seen in each place.
const PIECES = ["a", "[a-c]", "[^a]", "[^;&&|]", "[a&&b]", "[+--]", "[a~~b]", "[[]", "\\d", "\\W", "\\s", ".", "(a|b)", "\\u{1F600}", "\\uD83D\\uDE00", "[\\w-]", "\\p{L}", "[^\\d&&a]", "\\-", "[]", "[^]"];
const FRAMES = ["%", "^%", "%$", "^%*$", "^%+$", "^%{2}$", "^(?:%|-)+$", "\\b%", "^%?b$"];

function cases() {
  const patterns = [...WRITTEN];
  for (const frame of FRAMES) for (const piece of PIECES) patterns.push(frame.replace("%", () => piece));
  return [...new Set(patterns)].map((pattern) => ({ pattern, subjects: SUBJECTS }));
}

// Each subject is tried by each pattern; what is kept are the matches, as one character each.
function answer(pattern, subjects) {
  for (const flags of ["u", ""]) {
    try {
      const regex = new RegExp(pattern, flags);
      return { flags, matches: subjects.map((text) => (regex.test(text) ? "1" : "0")).join("") };
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  return { flags: null, matches: "" };
}

const lines = [];
if (process.argv[2] === "generate") {
  lines.push(JSON.stringify({ subjects: SUBJECTS }));
  for (const { pattern, subjects } of cases()) lines.push(JSON.stringify({ pattern, ...answer(pattern, subjects) }));
} else if (process.argv[2] === "answer") {
  const [head, ...rest] = readFileSync(0, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
  lines.push(JSON.stringify(head));
  for (const { pattern } of rest) lines.push(JSON.stringify({ pattern, ...answer(pattern, head.subjects) }));
} else {
  console.error("usage: node patterns.mjs generate | answer");
  process.exit(2);
}
process.stdout.write(lines.join("\n") + "\n");

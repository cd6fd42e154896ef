//! Properties of the file: what is written reads back, and what a person leaves is never lost.

use proptest::prelude::*;
use serde_json::json;
use toolgate_kernel::event::Change;
use toolgate_kernel::fold::Project;

use super::block::{Block, Name, blocks, trimmed};
use super::parse::{Piece, parse};
use super::render::{closing_lines, lay_out, render};
use super::take_in::take_in;

/// A project whose manuscript has these blocks, in this order.
fn project(parts: &[(Name, String)]) -> Project {
    let mut project = Project::default();
    for (index, (name, text)) in parts.iter().enumerate() {
        let value = json!({ "at": (index + 1) << 20, "text": text });
        let change = Change::Put { key: name.key().unwrap(), value, v: 1 };
        project.state.apply(&change).unwrap();
    }
    project
}

fn taken(project: &Project, file: &str) -> (Project, Vec<Change>) {
    let changes = take_in(project, file.as_bytes(), &[]).unwrap();
    let mut after = project.clone();
    changes.iter().for_each(|change| after.state.apply(change).unwrap());
    (after, changes)
}

#[test]
fn a_passage_that_begins_like_the_next_one_keeps_its_place() {
    let passage = |n: &str, text: &str| (Name::Passage(n.to_owned()), text.to_owned());
    let project = project(&[passage("0", "a"), passage("1", "a\n\na")]);
    let file = render(&blocks(&project.state));
    assert_eq!(taken(&project, &file).1.len(), 1);
}

/// What a manuscript says, with passages that follow each other as one.
fn said(blocks: &[Block]) -> Vec<(Option<String>, String)> {
    let mut said: Vec<(Option<String>, String)> = Vec::new();
    for block in blocks {
        match (said.last_mut(), block.section()) {
            (Some((None, text)), None) => *text = format!("{text}\n\n{}", block.text()),
            (_, name) => said.push((name.map(str::to_owned), block.text().to_owned())),
        }
    }
    said
}

fn pieces(file: &str) -> Vec<(Option<String>, String)> {
    let piece = |piece: Piece<'_>| match piece {
        Piece::Section { name, text } => (Some(name), text.to_owned()),
        Piece::Free(text) => (None, text.to_owned()),
    };
    parse(file).into_iter().map(piece).collect()
}

fn text() -> impl Strategy<Value = String> {
    let line = "[a-cé —<!>:-]{0,6}|<!-- note -->|<!-- SECTION A";
    prop::collection::vec(line, 0..5).prop_map(|lines| trimmed(&lines.join("\n")).to_owned())
}

fn name() -> impl Strategy<Value = String> {
    "[A-C]( [a-c])?|[a-b]/[a-b]/[a-c]|a/b|x: -|a--"
}

/// Blocks as the tools could have made them.
fn parts() -> impl Strategy<Value = Vec<(Name, String)>> {
    let part = prop_oneof![
        (name().prop_map(Name::Section), text()),
        ((0_u32..9).prop_map(|n| Name::Passage(n.to_string())), text()),
    ];
    prop::collection::vec(part, 0..8).prop_map(|mut parts| {
        let mut seen = std::collections::BTreeSet::new();
        parts.retain(|(name, text)| {
            let blank = matches!(name, Name::Passage(_)) && text.trim().is_empty();
            !blank && seen.insert(name.clone())
        });
        parts
    })
}

/// Files as people leave them: markers in any spelling, anywhere.
fn wild() -> impl Strategy<Value = String> {
    let bit = prop_oneof![
        "[a-z]{1,3}",
        Just("\n".to_owned()),
        Just("\n\n".to_owned()),
        Just(" ".to_owned()),
        name().prop_map(|name| format!("<!-- SECTION: {name} -->")),
        name().prop_map(|name| format!("<!--start section:{name}-->")),
        name().prop_map(|name| format!("<!-- end SECTION : {name} -->")),
        Just("<!-- END SECTION -->".to_owned()),
        Just("<!-- SECTION: -->".to_owned()),
        "[A-B]".prop_map(|name| format!("<!-- STORYLINE: {name} -->")),
        "[A-B]".prop_map(|name| format!("<!-- CHAPTER: {name}/x -->")),
        "[A-B]".prop_map(|name| format!("<!-- BEAT: {name} -->")),
        "[A-B]".prop_map(|name| format!("<!-- END BEAT: {name} -->")),
        Just("<!-- END CHAPTER: A -->".to_owned()),
        Just("<!-- SECTION: broken\n".to_owned()),
    ];
    prop::collection::vec(bit, 0..20).prop_map(|bits| bits.concat())
}

proptest! {
    #[test]
    fn what_is_written_reads_back(parts in parts()) {
        let project = project(&parts);
        let blocks = blocks(&project.state);
        prop_assert_eq!(pieces(&render(&blocks)), said(&blocks));
    }

    /// Our own file taken in changes nothing but the fingerprint.
    #[test]
    fn our_own_file_is_no_change(parts in parts()) {
        let project = project(&parts);
        let file = render(&blocks(&project.state));
        let (after, changes) = taken(&project, &file);
        prop_assert_eq!(changes.len(), 1, "{:?}", changes);
        prop_assert_eq!(take_in(&after, file.as_bytes(), &[]).map(|changes| changes.len()), Ok(1));
    }

    /// Healing loses no word, and what it makes of a file is what that file says from then on.
    #[test]
    fn healing_loses_nothing(file in wild()) {
        let healed = pieces(&file);
        let mut words: Vec<String> = Vec::new();
        let mut plain = file.clone();
        for marker in super::marker::markers(&file).collect::<Vec<_>>().into_iter().rev() {
            plain.replace_range(marker.begin..marker.end, " ");
        }
        words.extend(plain.split_whitespace().map(str::to_owned));
        let kept: Vec<String> = healed
            .iter()
            .flat_map(|(_, text)| text.split_whitespace().map(str::to_owned))
            .collect();
        prop_assert_eq!(kept, words);
    }

    /// After a person's edit the state says what the file says, whatever it said before.
    #[test]
    fn the_state_follows_the_file(parts in parts(), file in prop_oneof![wild(), wild(), text()]) {
        let (after, _) = taken(&project(&parts), &file);
        let blocks = blocks(&after.state);
        prop_assert!(blocks.windows(2).all(|pair| pair[0].at < pair[1].at));
        let words = |said: Vec<(Option<String>, String)>| -> Vec<(Option<String>, Vec<String>)> {
            // Passages side by side are one for the eye; how many there are says nothing.
            let mut joined: Vec<(Option<String>, Vec<String>)> = Vec::new();
            for (name, text) in said {
                let words = text.split_whitespace().map(str::to_owned);
                match (joined.last_mut(), &name) {
                    (Some((None, all)), None) => all.extend(words),
                    _ => joined.push((name, words.collect())),
                }
            }
            joined
        };
        prop_assert_eq!(words(said(&blocks)), words(pieces(&file)));
        // Rendered anew it is the same manuscript, so the next writing call changes no word.
        prop_assert_eq!(words(pieces(&render(&blocks))), words(pieces(&file)));
    }

    #[test]
    fn lines_are_those_of_the_file(parts in parts()) {
        let project = project(&parts);
        let blocks = blocks(&project.state);
        let file = render(&blocks);
        let lines: Vec<&str> = file.lines().collect();
        let last = lay_out(&blocks).last().map_or(0, |placed| placed.last);
        prop_assert_eq!(last + closing_lines(&blocks), lines.len());
        for placed in lay_out(&blocks) {
            let text: Vec<&str> = placed.block.text().split('\n').collect();
            let from = placed.text_line() - 1;
            prop_assert_eq!(&lines[from..from + text.len()], &text[..]);
            if let Some(name) = placed.block.section() {
                let name = name.rsplit('/').next().unwrap_or(name);
                prop_assert!(lines[placed.first - 1].contains(name));
                prop_assert!(lines[placed.last - 1].contains("END"));
            }
        }
    }
}

fn section(name: &str, text: &str) -> (Option<String>, String) {
    (Some(name.to_owned()), text.to_owned())
}

fn free(text: &str) -> (Option<String>, String) {
    (None, text.to_owned())
}

/// R19, R20 and the rest of 1.6.
#[test]
fn files_are_healed() {
    let long = "x".repeat(300);
    let table = [
        ("", vec![]),
        (" \n\n ", vec![]),
        ("just words\n", vec![free("just words")]),
        ("<!--start section: A-->\nx\n<!--end section: A-->", vec![section("A", "x")]),
        ("<!-- Section :  A  -->\n\nx\n\n<!-- END  SECTION: A -->\n", vec![section("A", "x")]),
        // An end without a start is an empty section; what stood before it stays where it was.
        (
            "before\n<!-- END SECTION: A -->\nafter",
            vec![free("before"), section("A", ""), free("after")],
        ),
        // No end: closed at the next marker, or at the end of the file.
        (
            "<!-- SECTION: A -->\nx\n<!-- SECTION: B -->\ny",
            vec![section("A", "x"), section("B", "y")],
        ),
        ("<!-- SECTION: A -->\nx\n<!-- END SECTION -->\ny", vec![section("A", "x"), free("y")]),
        // An end that names another section: both are kept.
        (
            "<!-- SECTION: A -->\nx\n<!-- END SECTION: B -->\ny\n<!-- END SECTION: A -->",
            vec![section("A", "x"), section("B", ""), free("y")],
        ),
        (
            "<!-- SECTION: A -->\n1\n<!-- END SECTION: A -->\n<!-- SECTION: A -->\n2\n<!-- END SECTION: A -->",
            vec![section("A", "1"), section("A (2)", "2")],
        ),
        ("<!-- SECTION: -->\nx", vec![section("untitled", "x")]),
        ("<!-- SECTION: A\u{200b}b -->\nx", vec![section("Ab", "x")]),
        (
            "a <!-- SECTION: A --> b <!-- END SECTION: A --> c",
            vec![free("a "), section("A", " b "), free(" c")],
        ),
        ("<!-- BEAT: B -->\nx", vec![section("untitled/untitled/B", "x")]),
        (
            "<!-- STORYLINE: S -->\n<!-- CHAPTER: 1/2 -->\n<!-- BEAT: B -->\nx\n<!-- END BEAT: B -->\nfree\n<!-- BEAT: C -->\ny",
            vec![section("S/1-2/B", "x"), free("free"), section("S/1-2/C", "y")],
        ),
    ];
    for (file, expected) in table {
        assert_eq!(pieces(file), expected, "{file}");
    }
    let named = pieces(&format!("<!-- SECTION: {long} -->\n1\n<!-- SECTION: {long} -->\n2"));
    let lengths: Vec<usize> =
        named.iter().map(|(name, _)| name.as_ref().unwrap().chars().count()).collect();
    assert_eq!(lengths, [200, 200]);
    assert!(named[1].0.as_ref().unwrap().ends_with(" (2)"));
}

fn manuscript(parts: &[(&str, &str)]) -> Project {
    let part = |(name, text): &(&str, &str)| {
        let name = match name.strip_prefix('#') {
            Some(number) => Name::Passage(number.to_owned()),
            None => Name::Section((*name).to_owned()),
        };
        (name, (*text).to_owned())
    };
    project(&parts.iter().map(part).collect::<Vec<_>>())
}

/// Only what differs is changed.
#[test]
fn the_fewest_changes() {
    let before = manuscript(&[("A", "a"), ("#1", "p"), ("#2", "q\n\nr"), ("B", "b"), ("C", "c")]);
    let [a, b, c] = ["A", "B", "C"].map(|name| {
        format!("<!-- SECTION: {name} -->\n{}\n<!-- END SECTION: {name} -->\n", name.to_lowercase())
    });
    let table = [
        ("as it is", format!("{a}\np\n\nq\n\nr\n\n{b}\n{c}"), vec![]),
        (
            "other line ends",
            format!("\u{feff}{a}\np\n\nq\n\nr\n\n{b}\n{c}").replace('\n', "\r\n"),
            vec![],
        ),
        (
            "one text",
            format!("{a}\np\n\nq\n\nr\n\n{b}\n{}", c.replace("\nc\n", "\nd\n")),
            vec!["put section:C"],
        ),
        ("one passage", format!("{a}\nP\n\nq\n\nr\n\n{b}\n{c}"), vec!["put passage:1"]),
        ("one passage more", format!("{a}\np\n\nnew\n\nq\n\nr\n\n{b}\n{c}"), vec!["put passage:3"]),
        ("one passage less", format!("{a}\nq\n\nr\n\n{b}\n{c}"), vec!["remove passage:1"]),
        ("the last goes first", format!("{c}\n{a}\np\n\nq\n\nr\n\n{b}"), vec!["put section:C"]),
        ("one section less", format!("{a}\np\n\nq\n\nr\n\n{c}"), vec!["remove section:B"]),
        (
            "one section more",
            format!("{a}\np\n\nq\n\nr\n\n{b}\n<!-- SECTION: N -->\nn\n{c}"),
            vec!["put section:N"],
        ),
        (
            "all gone",
            "\n".to_owned(),
            vec![
                "remove section:A",
                "remove passage:1",
                "remove passage:2",
                "remove section:B",
                "remove section:C",
            ],
        ),
    ];
    for (about, file, expected) in table {
        let (_, changes) = taken(&before, &file);
        let told = |change: &Change| match change {
            Change::Put { key, .. } => format!("put {key}"),
            Change::Remove { key } => format!("remove {key}"),
            Change::Push { .. } | Change::Clear {} => "other".to_owned(),
        };
        let (last, rest) = changes.split_last().unwrap();
        assert_eq!(told(last), "put manuscript", "{about}");
        assert_eq!(rest.iter().map(told).collect::<Vec<_>>(), expected, "{about}");
    }
}

#[test]
fn what_is_no_text_is_not_taken_in() {
    let project = manuscript(&[("A", "a")]);
    let large = vec![b'x'; (16 << 20) + 1];
    for (content, reason) in
        [(&b"\xff\xfe"[..], "not UTF-8"), (large.as_slice(), "at most 16777216")]
    {
        let refused = take_in(&project, content, &[]).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
}

/// A file that was made to be slow is not.
#[test]
fn odd_files_cost_no_more_than_their_length() {
    let project = Project::default();
    for file in
        ["<!--".repeat(200_000), "<!-- SECTION: a -->".repeat(20_000), "\n\n".repeat(500_000)]
    {
        taken(&project, &file);
    }
}

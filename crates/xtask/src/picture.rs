//! Decides how a run is drawn: what the program printed, colours and all, as an SVG for the docs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::step::root;

/// What is drawn, where, and which of its lines: the first ones, then the last ones.
const PICTURES: &[(&str, &[&str], usize, usize)] = &[
    ("docs/img/run.svg", &["run", "a lighthouse keeper who collects storms"], 19, 23),
    ("docs/img/explain.svg", &["explain", "create_section", "{}", "--phase", "REVISION"], 40, 0),
];

const LINE: usize = 18;
const COLUMN: f64 = 8.43;
const COLUMNS: f64 = 80.0;

/// Draws every picture anew.
pub(crate) fn run() -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("toolgate-picture-{}", std::process::id()));
    for (path, args, first, last) in PICTURES {
        let project = folder.join("project");
        std::fs::create_dir_all(&project)?;
        let printed = printed(&project, &folder.join("home"), args)?;
        std::fs::remove_dir_all(&folder)?;
        let lines: Vec<&str> = printed.lines().collect();
        let svg = draw(args, &shown(&lines, *first, *last));
        let path = root().join(path);
        std::fs::create_dir_all(path.parent().context("a picture needs a folder")?)?;
        std::fs::write(&path, svg)?;
        println!("drew {}", path.display());
    }
    Ok(())
}

fn printed(project: &Path, home: &Path, args: &[&str]) -> anyhow::Result<String> {
    let manifest = root().join("Cargo.toml");
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--manifest-path"]).arg(manifest).arg("--").args(args);
    command.current_dir(project).env("XDG_CONFIG_HOME", home).env("CLICOLOR_FORCE", "1");
    let output = command.output().context("cargo cannot be started")?;
    let told = String::from_utf8(output.stdout)?;
    ensure!(!told.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(told)
}

/// The first and the last lines, with a mark where something is left out.
fn shown<'a>(lines: &[&'a str], first: usize, last: usize) -> Vec<&'a str> {
    if lines.len() <= first + last {
        return lines.to_vec();
    }
    let (head, tail) = (lines.iter().take(first), lines.iter().skip(lines.len() - last));
    head.copied().chain(["", "  ⋮"]).chain(tail.copied()).collect()
}

fn draw(args: &[&str], lines: &[&str]) -> String {
    let word =
        |arg: &&str| if arg.contains([' ', '{']) { format!("'{arg}'") } else { (*arg).to_owned() };
    let words: Vec<String> = args.iter().map(word).collect();
    let command = format!("$ toolgate {}", words.join(" "));
    let height = (lines.len() + 2) * LINE + 16;
    let width = COLUMN * COLUMNS + 32.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16181d\"/>\n"
    );
    for (at, line) in std::iter::once(command.as_str()).chain(lines.iter().copied()).enumerate() {
        let y = (at + 1) * LINE + 10;
        svg.push_str(&format!(
            "<text x=\"16\" y=\"{y}\" fill=\"#d7dae0\" xml:space=\"preserve\">{}</text>\n",
            spans(line)
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The text of a line with its colours, which come as escape sequences.
fn spans(line: &str) -> String {
    let (mut out, mut style) = (String::new(), String::new());
    for (at, part) in line.split("\u{1b}[").enumerate() {
        let text = match (at, part.split_once('m')) {
            (0, _) | (_, None) => part,
            (_, Some((code, text))) => {
                style = style_of(code, &style);
                text
            }
        };
        if !text.is_empty() {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            out.push_str(&format!("<tspan {style}>{text}</tspan>"));
        }
    }
    out
}

fn style_of(code: &str, before: &str) -> String {
    match code {
        "1" => "font-weight=\"bold\" fill=\"#ffffff\"".to_owned(),
        "2" => "fill=\"#8b919c\"".to_owned(),
        "31" => "fill=\"#ff7b72\"".to_owned(),
        "32" => "fill=\"#7ee787\"".to_owned(),
        "33" => "fill=\"#e3b341\"".to_owned(),
        "36" => "fill=\"#76c7e8\"".to_owned(),
        "0" => String::new(),
        _ => before.to_owned(),
    }
}

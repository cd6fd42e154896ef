//! What the README and the docs show is what the program does.

use crate::support::{Desk, repository};

/// Every `toolgate` command in a console block, with the lines shown below it.
fn console_blocks(page: &str) -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && line.starts_with("$ ") {
            found.push((line.trim_start_matches("$ ").to_owned(), Vec::new()));
        } else if inside && let Some((_, output)) = found.last_mut() {
            output.push(line.to_owned());
        }
    }
    found
}

/// The words of a command line, with single and double quotes.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut started) = (Vec::new(), String::new(), None, false);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, started) = (Some(c), true),
            (None, ' ') if started || !word.is_empty() => {
                words.push(std::mem::take(&mut word));
                started = false;
            }
            (None, ' ') => {}
            (None, c) => word.push(c),
        }
    }
    if started || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Ids, receipts and moments differ from run to run; an ellipsis stands for them.
fn matches(shown: &str, printed: &str) -> bool {
    let mut rest = printed;
    for (at, part) in shown.split('…').enumerate() {
        match rest.find(part) {
            Some(0) => rest = rest.get(part.len()..).unwrap_or_default(),
            Some(place) if at > 0 => rest = rest.get(place + part.len()..).unwrap_or_default(),
            _ => return false,
        }
    }
    rest.is_empty() || shown.ends_with('…')
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    let desk = Desk::new();
    let mut run = 0;
    for (command, shown) in console_blocks("README.md") {
        let Some(command) =
            command.strip_prefix("cargo run -- ").or_else(|| command.strip_prefix("toolgate "))
        else {
            continue;
        };
        let args = words(command);
        let ran = desk.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let printed = format!("{}{}", ran.err, ran.out);
        for line in shown.iter().filter(|line| !line.trim().is_empty()) {
            let found = printed.lines().any(|printed| matches(line, printed));
            assert!(found, "`{command}` should print {line:?}, and prints:\n{printed}");
        }
        run += 1;
    }
    assert!(run >= 2, "the README shows its commands in console blocks");
}

#[test]
fn every_command_has_help_with_an_example_and_a_page() {
    let desk = Desk::new();
    let page = std::fs::read_to_string(repository().join("docs/cli.md")).unwrap();
    let mut due = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = due.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = desk.ok(&[words.as_slice(), &["--help"]].concat());
        assert!(help.contains("Example"), "{command:?}: {help}");
        let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let below = below.take_while(|line| !line.trim().is_empty());
        let below = below.filter_map(|line| line.split_whitespace().next());
        for name in below.filter(|name| *name != "help") {
            due.push([command.as_slice(), &[name.to_owned()]].concat());
        }
        if let [command] = words.as_slice() {
            assert!(page.contains(&format!("toolgate {command}")), "docs/cli.md lacks {command}");
        }
        seen += 1;
    }
    assert!(seen >= 30, "{seen} commands");
}

/// The configurations that the pages show are configurations.
#[test]
fn every_configuration_in_the_docs_loads() {
    let mut found = 0;
    for page in ["README.md", "docs/configuration.md", "docs/policies.md", "docs/tutorial.md"] {
        let text = std::fs::read_to_string(repository().join(page)).unwrap_or_default();
        for block in text.split("```yaml\n").skip(1) {
            let yaml = block.split("```").next().unwrap();
            // Parts of a configuration are shown too; only a whole one names its phases.
            if !yaml.contains("\nphases:") {
                continue;
            }
            let desk = Desk::new();
            desk.write("toolgate.yaml", yaml);
            let ran = desk.run(&["explain", "list_notes", "--json"]);
            assert_ne!(ran.code, 2, "{page}:\n{yaml}\n{}{}", ran.out, ran.err);
            found += 1;
        }
    }
    assert!(found >= 2, "{found}");
}

//! Decides that the page about models lists every rule of a transcript, as the code has it.

use toolgate_wire::dialect::Dialect;
use toolgate_wire::dialect::rules::RULES;

#[test]
fn every_rule_is_on_the_page_with_its_dialects() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<String> = RULES
        .iter()
        .map(|rule| {
            let holds =
                |dialect: &Dialect| if rule.dialects.contains(dialect) { "yes" } else { "" };
            let columns: Vec<&str> = Dialect::ALL.iter().map(holds).collect();
            format!("| `{}` | {} | {} |", rule.name, rule.sentence, columns.join(" | "))
        })
        .collect();
    for row in &rows {
        assert!(page.contains(row), "docs/models.md lacks this row:\n{row}");
    }
}

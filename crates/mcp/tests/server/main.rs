//! toolgate as an MCP server, from outside: bytes in, bytes out, and what reached the world.

#![cfg(test)]

mod beside;
mod calls;
mod door;
mod ends;
mod era;
mod pipes;
mod stage;
mod supplied;
mod together;
mod users;
mod visible;

/// Every file beside this one is part of the suite.
#[test]
fn no_test_file_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server");
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || listed.contains(&format!("mod {module};")), "{name}");
    }
}

//! Decides which crate may know which: the layer table of the design against `cargo metadata`.

use std::process::Command;

use serde_json::Value;

use crate::{report, tree};

/// One crate of the workspace.
pub(crate) struct Package {
    /// Its name without `toolgate-`; the binary's crate is `cli`.
    pub(crate) layer: String,
    /// Other crates of the workspace it is built on, with what they are asked for.
    ours: Vec<Dependency>,
    /// Crates from outside it is built on.
    pub(crate) outside: Vec<String>,
    /// Its features, and what each brings in.
    features: Vec<(String, Vec<String>)>,
}

struct Dependency {
    layer: String,
    only_tests: bool,
    features: Vec<String>,
}

const ADAPTER: &[&str] = &["kernel", "runtime"];
const ASKING: &[&str] = &["kernel", "http", "runtime"];
const DEV: &[&str] = &["xtask", "testkit", "bench"];

/// What each crate may know of the others. A crate that is not here needs an ADR.
const LAYERS: &[(&str, &[&str])] = &[
    ("kernel", &[]),
    ("http", &["kernel"]),
    ("sandbox", &[]),
    ("runtime", &["kernel"]),
    ("wire", ASKING),
    ("mcp", &["kernel", "http", "sandbox", "runtime"]),
    ("store", ADAPTER),
    ("packs", ASKING),
    ("web", ADAPTER),
    ("evals", ADAPTER),
    (
        "cli",
        &["kernel", "http", "sandbox", "runtime", "wire", "mcp", "store", "packs", "web", "evals"],
    ),
];

/// The crates of the workspace, as cargo sees them.
pub(crate) fn packages() -> Vec<Package> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let output = command.current_dir(tree::root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages.iter().map(package).collect()
}

fn package(package: &Value) -> Package {
    let (mut ours, mut outside) = (Vec::new(), Vec::new());
    for dependency in package["dependencies"].as_array().unwrap() {
        let name = dependency["name"].as_str().unwrap();
        let only_tests = dependency["kind"].as_str() == Some("dev");
        if dependency["path"].is_string() {
            let features = texts(&dependency["features"]);
            ours.push(Dependency { layer: layer(name), only_tests, features });
        } else if !only_tests {
            outside.push(name.to_owned());
        }
    }
    let features = package["features"].as_object().unwrap();
    let features = features.iter().map(|(name, parts)| (name.clone(), texts(parts))).collect();
    Package { layer: layer(package["name"].as_str().unwrap()), ours, outside, features }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn layer(name: &str) -> String {
    if name == "toolgate" { "cli" } else { name.trim_start_matches("toolgate-") }.to_owned()
}

#[test]
fn arrows_point_downward_only() {
    let mut complaints = Vec::new();
    for package in packages() {
        let name = &package.layer;
        if DEV.contains(&name.as_str()) {
            continue;
        }
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| layer == name) else {
            complaints.push(format!("crate {name} is in no layer: a new crate needs an ADR"));
            continue;
        };
        for dependency in &package.ours {
            let target = dependency.layer.as_str();
            // Tests may use the fakes; a crate may use itself with other features.
            let for_tests = dependency.only_tests && (target == "testkit" || target == name);
            if !allowed.contains(&target) && !for_tests {
                let may = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
                complaints.push(format!("{name} depends on {target}; it may know: {may}"));
            }
        }
    }
    report("layers", complaints);
}

/// What makes a build misbehave on purpose.
const HARMFUL: &[&str] = &["crash-points", "seeded-bugs"];

#[test]
fn nothing_harmful_is_built_into_what_people_run() {
    let mut complaints = Vec::new();
    for package in packages().iter().filter(|package| !DEV.contains(&package.layer.as_str())) {
        let name = &package.layer;
        for dependency in package.ours.iter().filter(|dependency| !dependency.only_tests) {
            for feature in dependency.features.iter().filter(|f| HARMFUL.contains(&f.as_str())) {
                complaints
                    .push(format!("{name} always builds {} with {feature}", dependency.layer));
            }
        }
        for (feature, parts) in &package.features {
            let harmful = |part: &String| HARMFUL.contains(&part.rsplit('/').next().unwrap_or(""));
            // A harmful feature may hand itself on; nothing else may bring it in.
            if !HARMFUL.contains(&feature.as_str()) && parts.iter().any(harmful) {
                complaints.push(format!("{name}: the feature {feature} brings in {parts:?}"));
            }
        }
    }
    report("only testkit may ask for crashes and bugs", complaints);
}

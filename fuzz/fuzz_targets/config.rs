//! Arbitrary bytes as a configuration: every finding has its place, and nothing is half loaded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_kernel::config::{Severity, read};

fuzz_target!(|data: &[u8]| {
    let checked = read(data).check(Vec::new());
    for span in checked.findings.iter().filter_map(|finding| finding.span) {
        assert!(span.start <= span.end && span.end <= checked.source().len());
    }
    let refused = checked.findings.iter().any(|finding| finding.severity == Severity::Error);
    assert_eq!(refused, checked.agent().is_none());
});

//! Reads what the administrator of this machine says about trust: `/etc/toolgate/policy.yaml`, which
//! counts only when it belongs to root and others cannot write it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use toolgate_kernel::config::{MachinePolicy, PolicyText};
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::names::PolicyName;
use toolgate_kernel::policy::MACHINE_POLICY_PREFIX;

/// Where it lies.
const POLICY: &str = "/etc/toolgate/policy.yaml";

/// Bytes that it has at most.
const POLICY_BYTES_MAX: u64 = 1 << 20;

/// Owners that a configuration can need at most.
const TRUST_COUNT_MAX: usize = 10;

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MachinePolicyConfig {
    people: BTreeMap<String, PersonKey>,
    digests: Vec<String>,
    trust_count: Option<usize>,
    policies: Vec<PolicyText>,
}

/// A policy of the machine that cannot be used. Nothing is started then.
#[derive(Debug)]
pub(crate) struct MachinePolicyError {
    path: PathBuf,
    why: String,
}

impl std::error::Error for MachinePolicyError {}

impl fmt::Display for MachinePolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cannot be used: {}. Nothing was started, read or connected to; an administrator must \
             correct it",
            self.path.display(),
            self.why
        )
    }
}

/// What holds on this machine; nothing special where there is no such file.
pub(crate) fn read() -> Result<MachinePolicy, MachinePolicyError> {
    here(read_from)
}

/// The policies that govern every project of this machine beside its own.
pub(crate) fn policies() -> Result<Vec<PolicyText>, MachinePolicyError> {
    here(policies_from)
}

fn here<T>(read: impl Fn(&Path, u32) -> Result<T>) -> Result<T, MachinePolicyError> {
    let path = Path::new(POLICY);
    let found = read(path, 0);
    found.map_err(|error| MachinePolicyError { path: path.to_owned(), why: format!("{error:#}") })
}

/// The policies of a file. They deny, ask or count; each has a name, which says where it comes from.
fn policies_from(path: &Path, owner: u32) -> Result<Vec<PolicyText>> {
    let Some(written) = written(path, owner)? else { return Ok(Vec::new()) };
    let mut policies = Vec::new();
    for (at, text) in written.policies.into_iter().enumerate() {
        let number = at + 1;
        let kinds = text.rule.is_some() || text.limit.is_some() || text.rate.is_some();
        ensure!(kinds, "policy {number} is no `rule`, `limit` or `rate`");
        let name = text.name.as_ref().with_context(|| format!("policy {number} has no name"))?;
        let name = PolicyName::parse(&format!("{MACHINE_POLICY_PREFIX}{name}"))?;
        let text = PolicyText { name: Some(name), ..text };
        // One that cannot be used stops everything here, and not where it would govern.
        text.clone().build(number)?;
        policies.push(text);
    }
    Ok(policies)
}

/// The policy in a file, which must belong to this user.
fn read_from(path: &Path, owner: u32) -> Result<MachinePolicy> {
    let Some(written) = written(path, owner)? else { return Ok(MachinePolicy::default()) };
    let digests = written.digests.iter().map(|text| trust_digest(text).map_err(anyhow::Error::msg));
    let trust_count = written.trust_count.unwrap_or(1);
    if !(1..=TRUST_COUNT_MAX).contains(&trust_count) {
        bail!("`trust_count` must be from 1 to {TRUST_COUNT_MAX}");
    }
    Ok(MachinePolicy {
        people: written.people.into_values().collect(),
        digests: digests.collect::<Result<_>>()?,
        trust_count,
    })
}

/// What a file says, which must belong to this user; nothing where there is none.
fn written(path: &Path, owner: u32) -> Result<Option<MachinePolicyConfig>> {
    let mut options = std::fs::OpenOptions::new();
    let no_follow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    options.read(true).custom_flags(no_follow.bits().cast_signed());
    let file = match options.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(None);
        }
        file => file.context("it cannot be opened, or is a link")?,
    };
    let found = file.metadata()?;
    ensure!(found.is_file(), "it is not a plain file");
    ensure!(found.uid() == owner, "it does not belong to root");
    ensure!(found.mode() & 0o022 == 0, "others than root can write it");
    let folder = path.parent().context("it lies nowhere")?.metadata()?;
    ensure!(
        folder.uid() == owner && folder.mode() & 0o022 == 0,
        "its folder does not belong to root, or others can write there"
    );
    let mut text = String::new();
    file.take(POLICY_BYTES_MAX + 1).read_to_string(&mut text).context("it is not a text")?;
    let fits = u64::try_from(text.len()).is_ok_and(|len| len <= POLICY_BYTES_MAX);
    ensure!(fits, "it has more than {POLICY_BYTES_MAX} bytes");
    Ok(Some(serde_saphyr::from_str(&text)?))
}

/// A digest as `toolgate trust --print` prints it.
pub(crate) fn trust_digest(text: &str) -> Result<Digest, String> {
    let digest = text.trim().strip_prefix("sha256:").map(str::to_owned);
    let digest = digest.and_then(|hex| Digest::try_from(hex).ok());
    digest.ok_or_else(|| {
        format!("{text:?} is not a digest; `toolgate trust --print` prints one, as sha256:…")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder with a policy, of the user of the test.
    fn policy(text: &str) -> (tempfile::TempDir, PathBuf, u32) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        std::fs::write(&path, text).unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(folder.path(), 0o755);
        mode(&path, 0o644);
        let owner = path.metadata().unwrap().uid();
        (folder, path, owner)
    }

    #[test]
    fn a_policy_is_read() {
        let (key, digest) = ("ab".repeat(32), "cd".repeat(32));
        let text =
            format!("people: {{ada: {key}}}\ndigests: ['sha256:{digest}']\ntrust_count: 2\n");
        let (_folder, path, owner) = policy(&text);
        let found = read_from(&path, owner).unwrap();
        assert_eq!(found.people, [PersonKey([0xab; 32])]);
        assert_eq!(found.digests, [Digest([0xcd; 32])]);
        assert_eq!(found.trust_count, 2);
        let (_folder, path, owner) = policy("trust_count: 2\n");
        assert!(read_from(&path, owner).unwrap().people.is_empty());
        let missing = path.with_file_name("other.yaml");
        assert_eq!(read_from(&missing, owner).unwrap(), MachinePolicy::default());
    }

    #[test]
    fn policies_of_a_machine_say_where_they_come_from() {
        let rule = "policies:\n  - name: no-pay\n    rule: {tools: ['mcp:bank:pay'], deny: 'true', message: No.}\n";
        let (_folder, path, owner) = policy(rule);
        let found = policies_from(&path, owner).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.name.clone().unwrap().to_string()).collect();
        assert_eq!(names, ["machine-no-pay"]);
        for (text, why) in [
            (rule.replace("name: no-pay\n    ", ""), "has no name"),
            (rule.replace("'true'", "'tru'"), "tru"),
            ("policies: [{name: a, read_before_write: {}}]\n".to_owned(), "is no `rule`"),
            ("policies: [{name: a, rule: {}, limit: {}}]\n".to_owned(), ""),
        ] {
            let (_folder, path, owner) = policy(&text);
            let error = policies_from(&path, owner).err().map(|error| format!("{error:#}"));
            assert!(error.as_ref().is_some_and(|error| error.contains(why)), "{text}: {error:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_policy_is_not_passed_over() {
        for (text, why) in [
            ("trust_count: 0\n", "from 1 to 10"),
            ("digests: ['abc']\n", "is not a digest"),
            ("peple: {}\n", "peple"),
            ("people: {ada: abc}\n", "ada"),
        ] {
            let (_folder, path, owner) = policy(text);
            let error = format!("{:#}", read_from(&path, owner).unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn only_a_file_that_the_owner_alone_can_write_counts() {
        let (folder, path, owner) = policy("trust_count: 2\n");
        let refused = |why: &str| {
            let error = format!("{:#}", read_from(&path, owner).unwrap_err());
            assert!(error.contains(why), "{error}");
        };
        assert!(read_from(&path, owner + 1).is_err());
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&path, 0o666);
        refused("can write it");
        mode(&path, 0o644);
        mode(folder.path(), 0o777);
        refused("its folder");
        mode(folder.path(), 0o755);
        let real = path.with_file_name("real.yaml");
        std::fs::rename(&path, &real).unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        refused("is a link");
    }
}

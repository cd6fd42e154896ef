//! Lists the environment variables that make a program load code or configuration from elsewhere.
//!
//! A server's `env` may come from a file that somebody else wrote. A variable of this list turns a
//! trusted command into another program without changing `command:`, so it needs a word of its own.

/// Everything that begins like this is read by a dynamic loader or a runtime before `main`.
const PREFIXES: &[&str] = &["LD_", "DYLD_", "BASH_FUNC_", "CORECLR_", "COMPLUS_"];

/// The rest, by name.
const NAMES: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "CLASSPATH",
    "DOTNET_STARTUP_HOOKS",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GIO_MODULE_DIR",
    "GLIBC_TUNABLES",
    "GTK_MODULES",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LIBPATH",
    "LOCPATH",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PYTHONBREAKPOINT",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "QT_PLUGIN_PATH",
    "RUBYLIB",
    "RUBYOPT",
    "SHELLOPTS",
    "SHLIB_PATH",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// The start-up file of a POSIX shell. Only this spelling means it; `env` is an ordinary name.
const SHELL_START: &str = "ENV";

/// Whether a program may load other code because this variable is set. Case makes no difference,
/// because some platforms ignore it in the names of variables.
pub(super) fn is_loader_variable(name: &str) -> bool {
    let upper = name.trim().to_ascii_uppercase();
    name == SHELL_START
        || NAMES.contains(&upper.as_str())
        || PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_variables_are_known_in_any_case() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "ld_preload",
            "DYLD_INSERT_LIBRARIES",
            "Dyld_Library_Path",
            "PYTHONPATH",
            "pythonpath",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "Node_Options",
            "BASH_ENV",
            "ENV",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "GCONV_PATH",
            "GLIBC_TUNABLES",
            "LOCPATH",
            "BASH_FUNC_ls%%",
            " LD_PRELOAD",
        ] {
            assert!(is_loader_variable(name), "{name:?}");
        }
        for name in ["PATH", "HOME", "env", "API_KEY", "LDAP_URL", "OLD_PATH", "PYTHONUNBUFFERED"] {
            assert!(!is_loader_variable(name), "{name:?}");
        }
    }
}

//! Lists the environment variables that make a program load code or configuration from elsewhere.
//!
//! A server's `env` may come from a copied configuration. A variable of this list turns a trusted
//! command into another program without changing `command:`, so it must be allowed explicitly.

/// Everything that begins like this is read by a dynamic loader or a runtime before `main`.
const PREFIXES: &[&str] = &[
    "BASH_FUNC_",
    "COMPLUS_",
    "CORECLR_",
    "COR_",
    "DYLD_",
    "GIT_CONFIG",
    "LD_",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
];

/// The rest, by name.
const NAMES: &[&str] = &[
    "BASHOPTS",
    "BUN_OPTIONS",
    "GIT_EXEC_PATH",
    "GIT_SSH_COMMAND",
    "BASH_ENV",
    "BASH_LOADABLES_PATH",
    "BUNDLE_GEMFILE",
    "CAML_LD_LIBRARY_PATH",
    "CLASSPATH",
    "CUDA_INJECTION64_PATH",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_SHARED_STORE",
    "DOTNET_STARTUP_HOOKS",
    "ELIXIR_ERL_OPTIONS",
    "ERL_AFLAGS",
    "ERL_FLAGS",
    "ERL_LIBS",
    "ERL_ZFLAGS",
    "GCONV_PATH",
    "GDK_PIXBUF_MODULE_FILE",
    "GEM_HOME",
    "GEM_PATH",
    "GI_TYPELIB_PATH",
    "GETCONF_DIR",
    "GIO_EXTRA_MODULES",
    "GIO_MODULE_DIR",
    "GIT_ASKPASS",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_TEMPLATE_DIR",
    "GLIBC_TUNABLES",
    "GRADLE_OPTS",
    "GST_PLUGIN_PATH",
    "GTK_MODULES",
    "GTK_PATH",
    "GUILE_EXTENSIONS_PATH",
    "GUILE_LOAD_COMPILED_PATH",
    "GUILE_LOAD_PATH",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JULIA_DEPOT_PATH",
    "JULIA_LOAD_PATH",
    "JULIA_PROJECT",
    "LDR_PRELOAD",
    "LESSOPEN",
    "LIBPATH",
    "LIBGL_DRIVERS_PATH",
    "LOCPATH",
    "MAVEN_OPTS",
    "MONO_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "NPM_CONFIG_GIT",
    "NPM_CONFIG_GLOBALCONFIG",
    "NPM_CONFIG_INIT_MODULE",
    "NPM_CONFIG_NODE_GYP",
    "NPM_CONFIG_NODE_OPTIONS",
    "NPM_CONFIG_PREFIX",
    "NPM_CONFIG_PYTHON",
    "NPM_CONFIG_SCRIPT_SHELL",
    "NPM_CONFIG_SHELL",
    "NPM_CONFIG_USERCONFIG",
    "OPENSSL_CONF",
    "OPENSSL_CONF_INCLUDE",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PIP_CONFIG_FILE",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PROMPT_COMMAND",
    "PYTHONBREAKPOINT",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONPYCACHEPREFIX",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "QML2_IMPORT_PATH",
    "QML_IMPORT_PATH",
    "QT_PLUGIN_PATH",
    "QT_QPA_PLATFORM_PLUGIN_PATH",
    "R_ENVIRON",
    "R_ENVIRON_USER",
    "R_LIBS",
    "R_LIBS_SITE",
    "R_LIBS_USER",
    "R_PROFILE",
    "R_PROFILE_USER",
    "RUBYLIB",
    "RUBYOPT",
    "SASL_PATH",
    "SBT_OPTS",
    "SHELLOPTS",
    "SHLIB_PATH",
    "SSH_ASKPASS",
    "TCLLIBPATH",
    "UV_CONFIG_FILE",
    "UV_PYTHON",
    "VK_LAYER_PATH",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
    "_RLD_LIST",
];

/// The start-up file of a POSIX shell. Only this spelling means it; `env` is an ordinary name.
const SHELL_START: &str = "ENV";

/// Settings of npm; it reads `-` in their names as `_`.
const NPM: &str = "NPM_CONFIG_";

/// Whether a program may load other code because this variable is set. Case makes no difference,
/// because some platforms ignore it in the names of variables.
pub(super) fn is_loader_variable(name: &str) -> bool {
    let mut upper = name.trim().to_ascii_uppercase();
    if upper.starts_with(NPM) {
        upper = upper.replace('-', "_");
    }
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
            "npm_config_script_shell",
            "npm_config_script-shell",
            "NPM_Config_Script-Shell",
            "npm_config_node-options",
            "npm_config_userconfig",
            "npm_config_globalconfig",
            "npm_config_prefix",
            "npm_config_git",
            "ERL_AFLAGS",
            "ERL_ZFLAGS",
            "ELIXIR_ERL_OPTIONS",
            "GIT_TEMPLATE_DIR",
            "R_PROFILE",
            "UV_PYTHON",
            "UV_CONFIG_FILE",
            "PIP_CONFIG_FILE",
            "R_LIBS_USER",
            "JULIA_DEPOT_PATH",
            "TCLLIBPATH",
            "GUILE_LOAD_COMPILED_PATH",
        ] {
            assert!(is_loader_variable(name), "{name:?}");
        }
        for name in [
            "PATH",
            "HOME",
            "env",
            "API_KEY",
            "LDAP_URL",
            "OLD_PATH",
            "PYTHONUNBUFFERED",
            "npm_config_registry",
            "npm_config_loglevel",
            "LD-PRELOAD",
        ] {
            assert!(!is_loader_variable(name), "{name:?}");
        }
    }
}

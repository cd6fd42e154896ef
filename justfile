# The chores by one word each; `cargo xtask` does the work.

# List what there is.
default:
    @{{ just_executable() }} --list --unsorted

# Everything that must hold before a commit.
check:
    cargo xtask check

# Format, and apply what clippy can repair by itself.
fix:
    cargo fmt --all
    cargo clippy --fix --workspace --all-targets --allow-dirty --allow-staged

# All tests, or those whose name matches.
test *ARGS:
    cargo test --workspace {{ARGS}}

# Only the tests about the tree itself.
tidy:
    cargo xtask tidy

# One scenario by a part of its name; UPDATE=1 rewrites its trace.
scenario NAME:
    SCENARIO={{quote(NAME)}} cargo test --package toolgate-testkit --test it scenario

# Kill the process at every crash point and resume.
crash *ARGS:
    cargo xtask crash {{ARGS}}

# Put known bugs in, one by one; each must be caught.
seeded *ARGS:
    cargo xtask seeded {{ARGS}}

# Every fuzz target for a minute, or one of them: `just fuzz --seconds 600 event`.
fuzz *ARGS:
    cargo xtask fuzz {{ARGS}}

# The measurements of toolgate itself.
bench *ARGS:
    cargo xtask bench {{ARGS}}

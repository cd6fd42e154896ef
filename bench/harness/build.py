"""Builds the Rust programs and the launcher, and lays out the peers where Node can run them."""

import os
import shutil
import subprocess
import sys

from . import settings

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def prepare():
    """Makes the home ready for a measurement, or ends saying what is missing."""
    for command in ("cc", "cargo"):
        if not shutil.which(command):
            sys.exit(f"run.sh: there is no command {command}, and the harness needs it")
    if not os.path.exists(settings.VENVS) and not os.path.exists(settings.NODE_MODULES):
        say(f"setup was not run, so there are no Python or Node peers in {settings.HOME}.")
        say("Only the Rust peers, the limits and ours are measured; ./setup.sh adds the rest.")
    os.makedirs(settings.LOGS, exist_ok=True)
    stage()
    build()


def stage():
    """Copies what must not be used in place.

    Node finds packages only beside the importing file, and cargo would obey the settings of the
    folders above. Times are kept, so that cargo builds again only what has changed.
    """
    shutil.rmtree(settings.STAGED, ignore_errors=True)
    unwanted = shutil.ignore_patterns("target", "__pycache__")
    for folder in ("peers", "rust"):
        source, target = f"{SOURCE}/{folder}", f"{settings.STAGED}/{folder}"
        shutil.copytree(source, target, ignore=unwanted)
    os.symlink(settings.NODE_MODULES, f"{settings.PEERS}/node_modules")


def build():
    say("building the Rust programs (the first time takes minutes)")
    log_path = f"{settings.LOGS}/build.log"
    with open(log_path, "w") as log:
        cc = ["cc", "-O2", "-o", settings.LAUNCH, f"{SOURCE}/launch.c"]
        cargo = ["cargo", "build", "--locked", "--release", "--bins"]
        environment = {**os.environ, "CARGO_TARGET_DIR": f"{settings.HOME}/target"}
        for command in (cc, cargo):
            done = subprocess.run(
                command,
                cwd=f"{settings.STAGED}/rust",
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            if done.returncode != 0:
                sys.exit(f"run.sh: {command[0]} did not build the programs; see {log_path}")


def say(line):
    print(f"run.sh: {line}", file=sys.stderr, flush=True)

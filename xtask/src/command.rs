//! Running other programs: what was run is part of every error.

use std::{
    borrow::Cow,
    env,
    ffi::OsStr,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// Runs a command whose output goes to the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("could not start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command whose output goes to the terminal and shows `see` each line of its stdout.
pub(crate) fn run_by_line(command: &mut Command, mut see: impl FnMut(&str)) -> Result<()> {
    let attempt = format!("`{}`", shown(command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start {attempt}"))?;
    let mut stdout = BufReader::new(child.stdout.take().context("stdout is piped")?);
    let mut line = Vec::new();
    while stdout
        .read_until(b'\n', &mut line)
        .with_context(|| attempt.clone())?
        > 0
    {
        io::stdout().write_all(&line)?;
        see(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
    let status = child.wait().with_context(|| attempt.clone())?;
    if !status.success() {
        bail!("{attempt} failed ({status})");
    }
    Ok(())
}

/// Runs a command whose stderr goes to the terminal and returns what it wrote to stdout.
pub(crate) fn run_for_stdout(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("could not start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", shown(command), output.status);
    }
    text(command, output.stdout)
}

/// Runs a command and returns what it wrote to stdout; stderr is part of the error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!(
            "`{}` failed ({}): {}",
            shown(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    text(command, output.stdout)
}

fn text(command: &Command, stdout: Vec<u8>) -> Result<String> {
    String::from_utf8(stdout)
        .with_context(|| format!("`{}` wrote something that is not UTF-8", shown(command)))
}

/// The command as one would type it, with the variables that were set for it.
fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let value = quoted(value?);
        Some(format!("{}={value}", name.to_string_lossy()))
    });
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    variables
        .chain(words.map(|word| quoted(word).into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &OsStr) -> Cow<'_, str> {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// The file that a program's name stands for on `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether this process has root's user id: `/proc/self` belongs to the effective user.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("cargo");
        command
            .args(["test", "-Zcrate-attr=feature(x)", "it's", ""])
            .env("RUSTFLAGS", "-C a")
            .env_remove("GONE");
        assert_eq!(
            shown(&command),
            r"RUSTFLAGS='-C a' cargo test '-Zcrate-attr=feature(x)' 'it'\''s' ''"
        );
    }

    #[test]
    fn the_error_of_a_failing_command_names_it_and_its_stderr() {
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c 'echo why >&2; exit 3'` failed (exit status: 3): why"
        );
    }

    #[test]
    fn a_program_is_found_on_the_path_or_not_at_all() {
        assert!(on_path("sh").is_some_and(|file| file.ends_with("sh")));
        assert_eq!(on_path("no-program-has-this-name"), None);
    }
}

//! Options of `serve` from elsewhere than the command line: each has an environment variable, and a
//! key in the configuration file, by construction. clap knows which goes first; a value of the
//! file takes the place of the default.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{
    Arg, ArgAction, Command, CommandFactory, FromArgMatches, builder::BoolishValueParser,
    error::ErrorKind,
};

/// The subcommand that runs unattended.
const SERVE: &str = "serve";

/// Names the configuration file, as `--config` does.
pub(super) const VARIABLE: &str = "CUDASNOOP_CONFIG";

/// Options that are for one run alone.
const OF_ONE_RUN: [&str; 2] = ["config", "pid"];

/// The command line, with what environment and configuration file add to it.
pub(super) fn parse<C: CommandFactory + FromArgMatches>() -> C {
    let command = C::command().mut_subcommand(SERVE, with_environment);
    let mut matches = command.clone().get_matches();
    let file = matches
        .subcommand_matches(SERVE)
        .and_then(|serve| serve.get_one::<PathBuf>("config"));
    if let Some(file) = file {
        matches = with_file(command, file)
            .and_then(|command| {
                // Without the file all was well.
                command
                    .try_get_matches()
                    .map_err(|error| in_file(file, &error.to_string()))
            })
            .unwrap_or_else(|error| error.exit());
    }
    C::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// The key of an option, which is its name; `None` for what can only be told on the command line.
fn key(arg: &Arg) -> Option<&str> {
    arg.get_long().filter(|name| !OF_ONE_RUN.contains(name))
}

/// `--ring-size` is also `CUDASNOOP_RING_SIZE`.
fn with_environment(command: Command) -> Command {
    command.mut_args(|arg| {
        let Some(key) = key(&arg) else {
            return arg;
        };
        let variable = format!("CUDASNOOP_{}", key.replace('-', "_").to_uppercase());
        let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
        let arg = arg.env(variable);
        if is_flag {
            // On the command line it has no value, elsewhere it has.
            arg.value_parser(BoolishValueParser::new())
        } else {
            arg
        }
    })
}

/// What a file says is the default from now on.
fn with_file(command: Command, file: &Path) -> Result<Command, clap::Error> {
    let text = fs::read_to_string(file).map_err(|error| in_file(file, &error.to_string()))?;
    let mut settings: toml::Table =
        toml::from_str(&text).map_err(|error| in_file(file, &error.to_string()))?;
    let mut problem = None;
    let command = command.mut_subcommand(SERVE, |serve| {
        serve.mut_args(|arg| {
            let Some(value) = key(&arg).and_then(|key| settings.remove(key)) else {
                return arg;
            };
            if let Some(values) = values(&value) {
                return arg.default_values(values);
            }
            let key = key(&arg).unwrap_or_default();
            problem.get_or_insert(format!(
                "{key}: a text, a number, true, false, or a list of them is expected"
            ));
            arg
        })
    });
    if let Some(unknown) = settings.keys().next() {
        problem.get_or_insert(format!(
            "there is no option `{unknown}`; `cudasnoop serve --help` lists all"
        ));
    }
    match problem {
        Some(problem) => Err(in_file(file, &problem)),
        None => Ok(command),
    }
}

/// What would stand on the command line.
fn values(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(text) => Some(vec![text.clone()]),
        toml::Value::Integer(number) => Some(vec![number.to_string()]),
        toml::Value::Float(number) => Some(vec![number.to_string()]),
        toml::Value::Boolean(is_so) => Some(vec![is_so.to_string()]),
        toml::Value::Array(all) => {
            let each: Option<Vec<Vec<String>>> = all.iter().map(values).collect();
            each.map(|each| each.concat())
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

fn in_file(file: &Path, problem: &str) -> clap::Error {
    let problem = problem.strip_prefix("error: ").unwrap_or(problem);
    let text = format!("in the configuration file {}: {problem}\n", file.display());
    clap::Error::raw(ErrorKind::ValueValidation, text)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tempfile::NamedTempFile;

    use super::super::{Cli, Command as Chosen, serve::ServeArgs};
    use super::*;

    /// Documents each key at its default.
    const SHIPPED: &str = include_str!("../../config/cudasnoop.toml");

    fn command() -> Command {
        Cli::command().mut_subcommand(SERVE, with_environment)
    }

    /// The options of `serve` with this file and these words.
    fn options(file: &str, words: &[&str]) -> Result<ServeArgs, clap::Error> {
        let mut kept = NamedTempFile::new().expect("a file");
        kept.write_all(file.as_bytes()).expect("written");
        let command = with_file(command(), kept.path())?;
        let words = ["cudasnoop", SERVE, "-p", "1"].iter().chain(words);
        let matches = command.try_get_matches_from(words)?;
        match Cli::from_arg_matches(&matches)?.command {
            Chosen::Serve(args) => Ok(args),
            other => panic!("{other:?} is not serve"),
        }
    }

    #[test]
    fn a_file_takes_the_place_of_defaults() {
        let file = "listen = \"127.0.0.1:1\"\nring-size = \"4KiB\"\nstrict = true\n\
                    log-events = [\"memory\", \"sync\"]\nthreads = 7\n";
        let text = format!(
            "{:?}",
            options(file, &["--listen", "127.0.0.1:2"]).expect("fine")
        );
        for part in [
            "listen: 127.0.0.1:2",
            "ring_size: 4096",
            "strict: true",
            "log_events: [Memory, Sync]",
            "threads: 7",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_a_file_says_wrongly_is_named() {
        for (file, problem) in [
            ("lisen = 1", "no option `lisen`"),
            ("listen = { port = 1 }", "listen: a text"),
            ("listen = ", "TOML"),
            ("ring-size = \"5KiB\"", "a power of two"),
            ("pid = 1", "no option `pid`"),
        ] {
            let error = options(file, &[]).expect_err(file).to_string();
            assert!(error.contains(problem), "{file}: {error}");
        }
    }

    #[test]
    fn each_option_has_a_variable() {
        let command = command();
        let serve = command.find_subcommand(SERVE).expect("there");
        let settings: Vec<&Arg> = serve
            .get_arguments()
            .filter(|arg| key(arg).is_some())
            .collect();
        assert!(settings.len() > 8);
        for arg in settings {
            let name = arg.get_env().expect("a variable").to_string_lossy();
            let long = arg.get_long().expect("a name");
            let of_name = name.trim_start_matches("CUDASNOOP_").to_lowercase();
            assert_eq!(of_name.replace('_', "-"), long);
        }
    }

    /// Each key stands there, commented out, with its default, or with a value that is taken.
    #[test]
    fn the_shipped_file_is_complete_and_true() {
        assert_eq!(
            format!("{:?}", options(SHIPPED, &[]).expect("taken")),
            format!("{:?}", options("", &[]).expect("taken"))
        );
        let settings = SHIPPED.lines().filter_map(|line| line.strip_prefix("#"));
        let is_setting = |line: &&str| line.starts_with(|first: char| first.is_ascii_lowercase());
        let settings: Vec<&str> = settings.filter(is_setting).collect();
        let settings = settings.join("\n");
        options(&settings, &[]).expect("taken");
        let table: toml::Table = toml::from_str(&settings).expect("TOML");
        let command = command();
        let serve = command.find_subcommand(SERVE).expect("there");
        let known: Vec<&Arg> = serve
            .get_arguments()
            .filter(|arg| key(arg).is_some())
            .collect();
        assert_eq!(table.len(), known.len());
        for arg in known {
            let key = key(arg).expect("a key");
            let value = table.get(key).unwrap_or_else(|| panic!("no {key}"));
            let defaults: Vec<String> = arg
                .get_default_values()
                .iter()
                .map(|value| value.to_string_lossy().into_owned())
                .collect();
            if !defaults.is_empty() {
                assert_eq!(values(value), Some(defaults), "{key}");
            }
        }
    }
}

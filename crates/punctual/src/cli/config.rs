//! Settings: flags over `PUNCTUAL_*` variables over files named by `PUNCTUAL_*_FILE` over `punctual.toml` over defaults;
//! and `punctual config`, which says where each value comes from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Args, Command};
use punctual_core::nearest::nearest;

use super::{Output, Stop};

/// What a project or a user may keep settings in.
const FILE_NAME: &str = "punctual.toml";

/// What all variables begin with.
const PREFIX: &str = "PUNCTUAL_";

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Variable(String),
    /// A file that a variable names.
    VariableFile(String, PathBuf),
    File(PathBuf),
    Default,
    Unset,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "{name}"),
            Self::VariableFile(name, path) => write!(f, "{name} ({})", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
            Self::Unset => f.write_str("not set"),
        }
    }
}

/// One thing that can be set.
#[derive(Debug, Clone)]
struct Setting {
    /// As it is written in the file.
    key: String,
    variable: String,
    /// Whether its value is never shown.
    secret: bool,
    several: bool,
    default: Vec<String>,
    help: String,
}

/// The values that stand in files.
#[derive(Debug, Default)]
pub(crate) struct FromFiles(BTreeMap<String, (Vec<String>, Origin)>);

impl FromFiles {
    /// Reads what the variables and the places of this process lead to.
    pub(crate) fn read(command: &Command) -> Result<Self, Stop> {
        let settings = settings_of(command);
        let mut found = BTreeMap::new();
        // The user's own file first: what is found later takes its place.
        for path in files()? {
            for (key, values) in read_file(&path, &settings)? {
                found.insert(key, (values, Origin::File(path.clone())));
            }
        }
        for setting in &settings {
            let name = format!("{}_FILE", setting.variable);
            if let Some(path) = variable(&name) {
                let path = PathBuf::from(path);
                let text = fs::read_to_string(&path)
                    .map_err(|error| Stop::usage(format!("{name} leads to {}: {error}", path.display())))?;
                let values = vec![text.trim_end_matches(['\n', '\r']).to_owned()];
                found.insert(setting.key.clone(), (values, Origin::VariableFile(name, path)));
            }
        }
        Ok(Self(found))
    }

    /// Puts the values under the flags and the variables: as the defaults of the command line.
    pub(crate) fn put_under(&self, command: Command) -> Command {
        let command = command.mut_args(|arg| self.put_under_arg(arg));
        command.mut_subcommands(|inner| self.put_under(inner))
    }

    fn put_under_arg(&self, arg: Arg) -> Arg {
        let Some((values, _)) = key_of(&arg).and_then(|key| self.0.get(&key)) else { return arg };
        let arg = arg.required(false);
        if takes_none(&arg) { arg.default_value(values.concat()) } else { arg.default_values(values.clone()) }
    }
}

fn takes_none(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse)
}

/// The key of an argument that is a setting.
fn key_of(arg: &Arg) -> Option<String> {
    let variable = arg.get_env()?.to_str()?;
    Some(variable.strip_prefix(PREFIX)?.to_lowercase())
}

/// Everything that can be set, by key; every command is looked at.
fn settings_of(command: &Command) -> Vec<Setting> {
    fn gather(command: &Command, found: &mut BTreeMap<String, Setting>) {
        for arg in command.get_arguments() {
            let Some(key) = key_of(arg) else { continue };
            let variable = format!("{PREFIX}{}", key.to_uppercase());
            let text = |value: &OsString| value.to_string_lossy().into_owned();
            let setting = Setting {
                key: key.clone(),
                variable,
                secret: arg.is_hide_env_values_set(),
                several: matches!(arg.get_action(), ArgAction::Append),
                default: arg.get_default_values().iter().map(|value| text(&value.to_os_string())).collect(),
                help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            };
            found.entry(key).or_insert(setting);
        }
        command.get_subcommands().for_each(|inner| gather(inner, found));
    }
    let mut found = BTreeMap::new();
    gather(command, &mut found);
    found.into_values().collect()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The files that are there, the one that counts most last. One that is named must be there.
fn files() -> Result<Vec<PathBuf>, Stop> {
    if let Some(named) = variable("PUNCTUAL_CONFIG") {
        let path = PathBuf::from(named);
        return if path.is_file() {
            Ok(vec![path])
        } else {
            Err(Stop::usage(format!("PUNCTUAL_CONFIG leads to {}, and there is no such file", path.display())))
        };
    }
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
    let users = folder.map(|folder| folder.join("punctual").join(FILE_NAME));
    Ok(users.into_iter().chain([PathBuf::from(FILE_NAME)]).filter(|path| path.is_file()).collect())
}

fn read_file(path: &Path, settings: &[Setting]) -> Result<Vec<(String, Vec<String>)>, Stop> {
    let refused = |told: String| Stop::usage(format!("{}: {told}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| refused(error.to_string().trim_end().to_owned()))?;
    let mut values = Vec::new();
    for (key, value) in table {
        let Some(setting) = settings.iter().find(|setting| setting.key == key) else {
            let known = settings.iter().map(|setting| setting.key.as_str());
            let near = nearest(&key, known).map(|near| format!("; did you mean `{near}`?"));
            let near = near.unwrap_or_else(|| "; `punctual config` lists what there is".to_owned());
            return Err(refused(format!("`{key}` is no setting{near}")));
        };
        let texts = texts_of(&value, setting.several).map_err(|told| refused(format!("`{key}` {told}")))?;
        values.push((key, texts));
    }
    Ok(values)
}

fn texts_of(value: &toml::Value, several: bool) -> Result<Vec<String>, &'static str> {
    match value {
        toml::Value::String(text) => Ok(vec![text.clone()]),
        toml::Value::Integer(number) => Ok(vec![number.to_string()]),
        toml::Value::Boolean(word) => Ok(vec![word.to_string()]),
        toml::Value::Array(items) if several => {
            Ok(items.iter().map(|item| texts_of(item, false)).collect::<Result<Vec<_>, _>>()?.concat())
        }
        toml::Value::Array(_) => Err("takes one value, not a list"),
        _ => Err("must be a text, a whole number, true or false, or a list of them"),
    }
}

/// Print every setting, its value, and where the value comes from
#[derive(Args)]
pub(crate) struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ConfigArgs {
    /// `command` is the command line as it is written, without what files say.
    pub(crate) fn run(&self, command: &Command, files: &FromFiles, out: &mut Output) -> Result<(), Stop> {
        use std::io::Write;
        let rows = settings_of(command).into_iter().map(|setting| {
            let (values, origin) = value_of(&setting, files);
            let shown = if setting.secret && !values.is_empty() { "(hidden)".to_owned() } else { values.join(",") };
            (setting, shown, origin)
        });
        if self.json {
            let items: Vec<serde_json::Value> = rows
                .map(|(setting, value, origin)| {
                    let value = if origin == Origin::Unset { serde_json::Value::Null } else { value.into() };
                    serde_json::json!({ "key": setting.key, "value": value, "origin": origin.to_string(),
                        "variable": setting.variable, "help": setting.help })
                })
                .collect();
            return Ok(writeln!(out, "{}", serde_json::json!({ "items": items }))?);
        }
        let rows: Vec<_> = rows.collect();
        let width = |of: &dyn Fn(&(Setting, String, Origin)) -> usize| rows.iter().map(of).max().unwrap_or(0);
        let (keys, values) = (width(&|row| row.0.key.len()), width(&|row| row.1.chars().count()).min(48));
        for (setting, value, origin) in &rows {
            writeln!(out, "{:keys$}  {:values$}  {origin}", setting.key, if value.is_empty() { "-" } else { value })?;
        }
        Ok(())
    }
}

fn value_of(setting: &Setting, files: &FromFiles) -> (Vec<String>, Origin) {
    if let Some(value) = variable(&setting.variable) {
        return (vec![value.to_string_lossy().into_owned()], Origin::Variable(setting.variable.clone()));
    }
    match files.0.get(&setting.key) {
        Some((values, origin)) => (values.clone(), origin.clone()),
        None if setting.default.is_empty() => (Vec::new(), Origin::Unset),
        None => (setting.default.clone(), Origin::Default),
    }
}

//! Words of command lines: what a command should be called, and texts put into a script so that nothing in them counts.

/// Words before the program that a command is really about.
const GUARDS: [&str; 16] =
    ["test", "[", "[[", "if", "elif", "then", "else", "fi", "cd", "command", "!", "{", "}", "(", "exec", "export"];

/// Programs that run the one named behind them.
const WRAPPERS: [&str; 12] =
    ["nice", "ionice", "env", "sudo", "chronic", "timeout", "flock", "nohup", "setsid", "time", "su", "systemd-cat"];

/// Interpreters, whose script says more than they do.
const INTERPRETERS: [&str; 9] = ["php", "python", "python3", "perl", "ruby", "node", "bash", "sh", "/bin/sh"];

/// The name of the program that a command is about: not the test before it, not what wraps it, and of a script its own.
pub(super) fn program_of(command: &str) -> String {
    let mut parts = command.split(['\n', ';', '|', '&']).map(str::trim);
    let named = parts.find_map(named_in);
    let first = || command.split_whitespace().next().map(last_of_path).unwrap_or_default();
    named.unwrap_or_else(first)
}

fn named_in(part: &str) -> Option<String> {
    let mut words = part.split_whitespace().map(|word| word.trim_matches(['"', '\'', '(', ')']));
    let mut word = words.next()?;
    while is_before_a_program(word) {
        if GUARDS[..3].contains(&word) || matches!(word, "cd" | "command") {
            return None;
        }
        word = words.next()?;
    }
    while WRAPPERS.contains(&word) || word.starts_with('-') || word.bytes().all(|byte| byte.is_ascii_digit()) {
        // The lock of flock is not the program.
        let locks = word == "flock";
        word = words.next()?;
        while locks && (word.starts_with('-') || word.starts_with('/')) {
            let is_lock = word.starts_with('/');
            word = words.next()?;
            if is_lock {
                break;
            }
        }
    }
    let program = last_of_path(word);
    let rest: Vec<&str> = words.filter(|word| !word.starts_with('-')).collect();
    let script = rest.first().filter(|word| word.contains('/') || word.contains('.'));
    match script {
        Some(script) if INTERPRETERS.contains(&program.as_str()) => Some(last_of_path(script)),
        Some(folder) if program == "run-parts" => Some(format!("run-parts-{}", last_of_path(folder))),
        _ => Some(program).filter(|program| !program.is_empty()),
    }
}

fn is_before_a_program(word: &str) -> bool {
    let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    GUARDS.contains(&word) || is_assignment
}

fn last_of_path(word: &str) -> String {
    word.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned()
}

/// A text as one word of a script, whatever it holds.
pub(super) fn in_quotes(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_called_by_the_program_it_is_about() {
        for (command, name) in [
            ("/usr/local/bin/backup --all", "backup"),
            ("cd / && run-parts --report /etc/cron.hourly", "run-parts-cron.hourly"),
            ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "run-parts-cron.daily"),
            (
                "[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/x ]; then /usr/lib/php/sessionclean; fi",
                "sessionclean",
            ),
            ("if [ -x /usr/sbin/logcheck ]; then nice -n10 /usr/sbin/logcheck; fi", "logcheck"),
            ("SERVICE_MODE=1 /sbin/e2scrub_all -A -r", "e2scrub_all"),
            ("php /usr/share/site/poller.php 2>&1 >/dev/null", "poller.php"),
            ("command -v debian-sa1 > /dev/null && debian-sa1 1 1", "debian-sa1"),
            ("flock -n /run/lock.a /usr/share/manage.py runjobs hourly", "manage.py"),
            ("", ""),
            ("%", "%"),
        ] {
            assert_eq!(program_of(command), name, "{command}");
        }
    }

    #[test]
    fn nothing_in_a_quoted_word_is_special() {
        assert_eq!(in_quotes("a-b/c.d"), "a-b/c.d");
        assert_eq!(in_quotes(""), "''");
        assert_eq!(in_quotes("it's $HOME"), r"'it'\''s $HOME'");
    }
}

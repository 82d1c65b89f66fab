//! Every SQL block of docs/sql.md, typed into `psql` in order, and what it prints.

use crate::process::Ear;
use crate::readme::is_like;
use crate::sql_world::SqlWorld;
use punctual_testkit::clients;
use std::time::{Duration, Instant};

/// What comes within a second may take longer on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// A block: who types it, how it ends, and what is printed.
struct Block {
    who: &'static str,
    how: How,
    typed: &'static str,
    printed: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// It succeeds, and prints what stands below it.
    Done,
    /// The same, within a second or so.
    Soon,
    /// It is refused, and the error stands below it.
    Refused,
}

/// The blocks, which begin with ```` ```sql WHO HOW ````; a block of text below one is what is printed.
fn blocks() -> Vec<Block> {
    let page = include_str!("../../../../docs/sql.md");
    let mut blocks = Vec::<Block>::new();
    let mut rest = page;
    while let Some((between, behind)) = rest.split_once("```") {
        let (info, text) = behind.split_once('\n').unwrap();
        let (text, after) = text.split_once("```").unwrap();
        let words: Vec<&str> = info.split(' ').collect();
        match words[..] {
            ["sql", who] => blocks.push(Block { who, how: How::Done, typed: text, printed: None }),
            ["sql", who, "soon"] => blocks.push(Block { who, how: How::Soon, typed: text, printed: None }),
            ["sql", who, "refused"] => blocks.push(Block { who, how: How::Refused, typed: text, printed: None }),
            ["text"] if between == "\n" => blocks.last_mut().unwrap().printed = Some(text),
            ["sh"] => {}
            _ => panic!("a block of docs/sql.md that nobody runs: ```{info}\n{text}"),
        }
        rest = after;
    }
    blocks
}

/// The lines without what only makes columns: their rules, and runs of spaces.
fn lines(text: &str) -> Vec<String> {
    let rules = |line: &&str| !line.is_empty() && !line.chars().all(|letter| "-+ ".contains(letter));
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().filter(rules).map(words).filter(|line| !line.starts_with('(')).collect()
}

fn is_as_printed(said: &str, printed: &str) -> bool {
    let (said, printed) = (lines(said), lines(printed));
    said.len() == printed.len() && said.iter().zip(&printed).all(|(said, printed)| is_like(said, printed))
}

/// Whether an error has a line, behind what `psql` says about its place.
fn is_told(error: &str, printed: &str) -> bool {
    let (word, _) = printed.split_once(' ').unwrap();
    lines(error).iter().filter_map(|line| line.find(word).map(|at| &line[at..])).any(|line| is_like(line, printed))
}

impl SqlWorld {
    /// Names of the page are names of this database alone, because logins belong to the whole server.
    fn named(&self, text: &str) -> String {
        ["ada", "grace"].iter().fold(text.replace('…', "known"), |text, who| {
            let name = self.name(who);
            text.replace(&format!("ROLE {who} "), &format!("ROLE {name} "))
                .replace(&format!("AUTHORIZATION {who};"), &format!("AUTHORIZATION {name};"))
        })
    }

    fn type_in(&self, block: &Block) -> clients::Answer {
        let url = if block.who == "dba" { self.url.clone() } else { self.url_of(block.who) };
        let said = clients::psql_shown(&url, &self.named(block.typed));
        let as_on_the_page = |text: String| text.replace(&format!("{}_", self.database().name()), "");
        said.map(as_on_the_page)
    }

    async fn play(&self, block: &Block) {
        let begun = Instant::now();
        loop {
            let said = self.type_in(block);
            let is_right = match (&said, block.how) {
                (Ok(said), How::Done | How::Soon) => block.printed.is_none_or(|text| is_as_printed(said, text)),
                (Err(error), How::Refused) => lines(block.printed.unwrap()).iter().all(|line| is_told(error, line)),
                _ => false,
            };
            if is_right {
                return;
            }
            let may_come = block.how == How::Soon && begun.elapsed() < PATIENCE;
            assert!(may_come, "{} types:\n{}\nand it is not as on the page: {said:?}", block.who, block.typed);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_everything_on_the_page_about_sql_works_as_printed() {
    let world = SqlWorld::with_worker_alone().await;
    let mut worker = None;
    for block in blocks() {
        world.play(&block).await;
        worker.get_or_insert_with(|| world.start_worker(&Ear::new()));
    }
}

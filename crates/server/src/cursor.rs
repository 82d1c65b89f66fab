//! Opaque cursors: where a list goes on, of which list it is, and nothing a client should look into.

use crate::problem::{Answered, Problem};
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt::Display;
use std::str::FromStr;

/// Which list a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Jobs,
    Schedules,
    Slots,
    Queues,
    Nodes,
    Templates,
    Tokens,
    Audit,
    Backfills,
    Bulks,
    SerialKeys,
    Presets,
    Calendars,
    Limits,
    Flows,
    FlowItems,
    Lines,
    Grants,
    Accounts,
    Channels,
    Rules,
    Alerts,
    Deliveries,
}

impl List {
    fn mark(self) -> char {
        match self {
            Self::Jobs => 'j',
            Self::Schedules => 's',
            Self::Slots => 'l',
            Self::Queues => 'q',
            Self::Nodes => 'n',
            Self::Templates => 't',
            Self::Tokens => 'k',
            Self::Audit => 'a',
            Self::Backfills => 'b',
            Self::Bulks => 'u',
            Self::SerialKeys => 'h',
            Self::Presets => 'p',
            Self::Calendars => 'c',
            Self::Limits => 'i',
            Self::Flows => 'f',
            Self::FlowItems => 'm',
            Self::Lines => 'o',
            Self::Grants => 'g',
            Self::Accounts => 'z',
            Self::Channels => 'y',
            Self::Rules => 'r',
            Self::Alerts => 'e',
            Self::Deliveries => 'd',
        }
    }
}

/// The cursor of a key.
pub(crate) fn write(list: List, key: &impl Display) -> String {
    URL_SAFE_NO_PAD.encode(format!("1{}{key}", list.mark()))
}

/// The key of a cursor; refused when it is of another list, or was not made here.
pub(crate) fn read<K: FromStr>(list: List, cursor: Option<&str>) -> Answered<Option<K>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.contains('\0'));
    let key = text.as_deref().and_then(|text| text.strip_prefix('1')).and_then(|text| text.strip_prefix(list.mark()));
    key.and_then(|key| key.parse().ok()).map(Some).ok_or_else(|| {
        Problem::new(StatusCode::BAD_REQUEST, "bad_cursor", "the cursor is not one of this list")
            .remedy("leave it out to begin anew, or send next_cursor as it was given")
            .at("cursor")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b10_a_cursor_leads_back_to_its_key_and_only_in_its_list() {
        let cursor = write(List::Schedules, &"näme / with | all");
        assert_eq!(read::<String>(List::Schedules, Some(&cursor)).unwrap().unwrap(), "näme / with | all");
        assert!(read::<String>(List::Queues, Some(&cursor)).is_err());
        for bad in ["", "x", "%%%", "////", "MWo"] {
            assert!(read::<uuid::Uuid>(List::Jobs, Some(bad)).is_err(), "{bad}");
        }
    }
}

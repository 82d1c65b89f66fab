//! A plain table for the terminal and for CI's log.

/// Lays out rows under headings, columns as wide as their widest cell.
pub fn render(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[&str]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut out = line(headings);
    for row in rows {
        out.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    out
}

/// A duration as people read it: tenths of a second, minutes from 100 s on.
pub fn seconds(time: std::time::Duration) -> String {
    let tenths = time.as_millis() / 100;
    if tenths < 1_000 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{} min {:02} s", tenths / 600, tenths / 10 % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["tidy".into(), "1.0 s".into()], vec!["x".into(), "2.0 s".into()]];
        assert_eq!(render(&["part", "time"], &rows), "part  time\ntidy  1.0 s\nx     2.0 s\n");
    }

    #[test]
    fn long_times_are_in_minutes() {
        assert_eq!(seconds(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 05 s");
    }
}
